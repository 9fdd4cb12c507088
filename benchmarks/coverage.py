"""How often the 95 % intervals hold the population's value, on networks whose D is known.

``make coverage``, about three minutes on two cores; writes results/coverage.json.

Features of layer l are x = σ_l (T_l ε) + m_{l,k}: class means m drawn once, ε standard normal and
shared by all layers as in a real network, T_l a fixed rotation with unequal axes. The population's
D is then σ_l² Tr(T_lᵀ SSb⁺ T_l), exactly. Deviations from the line are built in, so that the
population's r is inside (−1, 1) and can be covered at all.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from lawscope.laws.line import fit_line, log_or_nan
from lawscope.laws.uncertainty import Replicates, Uncertainty
from lawscope.progress import progress
from lawscope.statistics.bootstrap import bootstrap
from lawscope.statistics.class_scatter import ClassScatter

RESULTS = Path("results/coverage.json")
LAYERS, DIM, FOLDS = 8, 20, 8
TRIALS = {"jackknife": 1000, "bootstrap": 200}
SETTINGS = [(10, 50), (10, 100), (10, 400), (3, 100)]  # classes, samples per class


class Population:
    """Layers with known D."""

    def __init__(self, classes: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.classes = classes
        self.maps, self.means, values = [], [], []
        bends = 0.25 * rng.normal(size=LAYERS)
        for layer in range(LAYERS):
            turn, _ = np.linalg.qr(rng.normal(size=(DIM, DIM)))
            spread = np.diag(np.exp(0.3 * rng.normal(size=DIM))) @ turn
            means = rng.normal(size=(classes, DIM))
            centred = means - means.mean(axis=0)
            inverse = np.linalg.pinv(centred.T @ centred / classes)
            wanted = 12.0 * 0.55**layer * np.exp(bends[layer])
            scale = np.sqrt(wanted / np.trace(spread @ spread.T @ inverse))
            self.maps.append(torch.from_numpy(scale * spread.T))
            self.means.append(torch.from_numpy(means))
            values.append(wanted)
        self.values = np.array(values)

    def draw(self, per_class: int, seed: int) -> tuple[list[torch.Tensor], torch.Tensor]:
        """One data set: features of every layer, and labels."""
        generator = torch.Generator().manual_seed(seed)
        y = torch.arange(self.classes).repeat(per_class)
        noise = torch.randn(len(y), DIM, generator=generator, dtype=torch.float64)
        return [noise @ m + c[y] for m, c in zip(self.maps, self.means, strict=True)], y


def trial(population: Population, per_class: int, seed: int, kind: Uncertainty) -> dict[str, bool]:
    """Measure one data set; which intervals hold the truth?"""
    layers, y = population.draw(per_class, seed)
    parts, resamples = [], []
    for features in layers:
        stat = ClassScatter("held", folds=FOLDS if kind == "jackknife" else 1)
        stat.update(features, y)
        parts.append(stat.compute())
        if kind == "bootstrap":
            resamples.append(bootstrap(*stat.held()))
    values = np.array([p.value for p in parts])
    rows = [p.deleted for p in parts] if kind == "jackknife" else resamples
    replicates = Replicates(log_or_nan(np.stack(rows, axis=1)), kind)
    fit = fit_line(values, replicates)
    truth = fit_line(population.values)
    low, high = replicates.interval(lambda c: c, np.log(values))
    inside = (low <= np.log(population.values)) & (np.log(population.values) <= high)
    held = {f"D{i}": bool(ok) for i, ok in enumerate(inside)}
    for name in ("rho", "pearson"):
        ends = fit.interval[name]
        held[name] = bool(ends[0] <= getattr(truth, name) <= ends[1])
    return held


def main() -> None:
    torch.set_num_threads(1)
    results = []
    for kind, trials in TRIALS.items():
        for classes, per_class in SETTINGS:
            counts: dict[str, int] = {}
            with progress(f"{kind}, K = {classes}, {per_class} per class", trials) as advance:
                for seed in range(trials):
                    # Ten populations, so that no single one decides.
                    population = Population(classes, seed % 10)
                    for name, ok in trial(population, per_class, seed, kind).items():  # type: ignore[arg-type]
                        counts[name] = counts.get(name, 0) + ok
                    advance(1)
            layers = [counts[f"D{i}"] / trials for i in range(LAYERS)]
            row = {
                "uncertainty": kind,
                "classes": classes,
                "per_class": per_class,
                "trials": trials,
                "rho": counts["rho"] / trials,
                "pearson": counts["pearson"] / trials,
                "D": float(np.mean(layers)),
                "D_worst_layer": min(layers),
            }
            results.append(row)
            print(row, flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
