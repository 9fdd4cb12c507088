"""How often the 95 % intervals of D̂, ρ and r hold the population's value, where it is known.

    python -m benchmarks.coverage              # the whole grid of benchmarks/worlds.py
    python -m benchmarks.coverage "d = 20"     # cells with these words; rows of the others are kept

``make coverage`` measures every cell, in two processes, and writes results/coverage.json. Cells
that are finished are kept in runs/ when the run is cut, and the next run goes on from there.

An interval with an open end covers what lies on its closed side; how often ends are open, and how
often those that are closed cover, stand beside. Seeds are those of this file alone: nothing in
``laws/population.py`` was chosen by looking at them.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.worlds import Cell, World, list_cells
from lawscope.files import write_whole
from lawscope.laws.line import fit_line
from lawscope.laws.population import estimate_population
from lawscope.laws.separation.verdict import judge, judge_population
from lawscope.statistics.class_scatter import ClassScatter
from lawscope.statistics.folds import GroupIndex

RESULTS, FINISHED = Path("results/coverage.json"), Path("runs/coverage.jsonl")
SEED, PROCESSES = 15_2027, 2
NOTHING = {"rho": (0.0, np.inf), "pearson": (-1.0, 1.0)}  # intervals that say nothing


def try_once(world: World, folds: int, random: np.random.Generator) -> dict[str, Any] | None:
    """Draw samples, measure them, and return which intervals are given and which hold the truth."""
    stations, y = world.draw(random)
    index = GroupIndex(folds)
    groups = index.assign(y, torch.from_numpy(random.integers(2**62, size=len(y))))
    parts = []
    for features in stations:
        scatter = ClassScatter(index=index)
        scatter.update_rows(features, groups)
        parts.append(scatter.compute())
    found = estimate_population(parts)
    if found is None:
        return None
    values, samples = np.array([part.value for part in parts]), int(parts[0].counts.min())
    (low, high), truth = found.interval.T, fit_line(world.values)
    outcome: dict[str, Any] = {
        "D": (low <= world.values) & (world.values <= high),
        "closed": np.isfinite(high),
        "verdict": judge_population(found, values, samples).verdict,
    }
    for name, nothing in NOTHING.items():
        ends = found.fit.interval[name]
        # Rounding keeps r of an exact line from being −1.
        outcome[name] = ends[0] - 1e-12 <= getattr(truth, name) <= ends[1] + 1e-12
        outcome[f"{name}_given"] = ends != nothing
    return outcome


def measure(cell: Cell) -> dict[str, Any]:
    """Return the row of one cell."""
    torch.set_num_threads(1)
    world, seed = cell.make(), zlib.crc32(cell.name.encode())
    draws = (np.random.default_rng([SEED, seed, i]) for i in range(cell.trials))
    tried = (try_once(world, cell.folds, random) for random in draws)
    trials = [outcome for outcome in tried if outcome is not None]
    row: dict[str, Any] = {
        "name": cell.name,
        "table": cell.table,
        "world": cell.world,
        "samples": cell.samples,
        "trials": cell.trials,
        "estimated": len(trials) / cell.trials,
        "r": fit_line(world.values).pearson,
        "truth": judge(fit_line(world.values), np.log(world.values))[0],
    }
    if not trials:
        return row
    covers, closed = (np.stack([trial[name] for trial in trials]) for name in ("D", "closed"))
    row |= {
        "D": covers.mean(),
        "D_worst": covers.mean(axis=0).min(),
        "D_closed": closed.mean(),
        "D_of_closed": covers[closed].mean() if closed.any() else None,
    }
    for name in NOTHING:
        held, given = (np.array([t[key] for t in trials]) for key in (name, f"{name}_given"))
        row[name], row[f"{name}_given"] = held.mean(), given.mean()
        row[f"{name}_of_given"] = held[given].mean() if given.any() else None
    for verdict in ("holds", "does not hold", "cannot be told"):
        row[verdict] = sum(trial["verdict"] == verdict for trial in trials) / len(trials)
    return {key: round(float(v), 4) if isinstance(v, float) else v for key, v in row.items()}


def main() -> None:
    words, cells = sys.argv[1:], {cell.name: cell for cell in list_cells()}
    FINISHED.parent.mkdir(exist_ok=True)
    lines = FINISHED.read_text(encoding="utf-8").splitlines() if FINISHED.exists() else []
    done = {row["name"]: row for row in map(json.loads, lines)}
    due = [name for name in cells if all(word in name for word in words) and name not in done]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool, FINISHED.open("a") as file:
        for future in as_completed([pool.submit(measure, cells[name]) for name in due]):
            row = future.result()
            done[row["name"]] = row
            print(json.dumps(row), file=file, flush=True)
            print(row["name"], file=sys.stderr, flush=True)
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if words and RESULTS.exists() else []
    rows = {row["name"]: row for row in kept} | done
    table = [rows[name] for name in cells if name in rows]
    write_whole(json.dumps(table, indent=1, ensure_ascii=False) + "\n", RESULTS)
    FINISHED.unlink()


if __name__ == "__main__":
    main()
