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

from lawscope.laws.line import Replicates, fit_line, log_or_nan
from lawscope.progress import progress
from lawscope.statistics.class_scatter import ClassScatter

RESULTS = Path("results/coverage.json")
LAYERS, DIM, FOLDS, TRIALS = 8, 20, 8, 1000
SETTINGS = {  # samples of each class
    "10 classes of 50": [50] * 10,
    "10 classes of 100": [100] * 10,
    "10 classes of 400": [400] * 10,
    "3 classes of 100": [100] * 3,
    "classes of 12, 600, 600": [12, 600, 600],
    "5 classes of 200, 5 of 20": [200] * 5 + [20] * 5,
}


class Population:
    """Layers with known D."""

    def __init__(self, counts: list[int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.counts = counts
        shares = np.array(counts) / sum(counts)
        self.maps, self.means, values = [], [], []
        bends = 0.25 * rng.normal(size=LAYERS)
        for layer in range(LAYERS):
            turn, _ = np.linalg.qr(rng.normal(size=(DIM, DIM)))
            spread = np.diag(np.exp(0.3 * rng.normal(size=DIM))) @ turn
            means = rng.normal(size=(len(counts), DIM))
            centred = means - shares @ means
            inverse = np.linalg.pinv(centred.T @ (shares[:, None] * centred))
            wanted = 12.0 * 0.55**layer * np.exp(bends[layer])
            scale = np.sqrt(wanted / np.trace(spread @ spread.T @ inverse))
            self.maps.append(torch.from_numpy(scale * spread.T))
            self.means.append(torch.from_numpy(means))
            values.append(wanted)
        self.values = np.array(values)

    def draw(self, seed: int) -> tuple[list[torch.Tensor], torch.Tensor]:
        """One data set: features of every layer, and labels."""
        generator = torch.Generator().manual_seed(seed)
        y = torch.repeat_interleave(torch.tensor(self.counts))
        noise = torch.randn(len(y), DIM, generator=generator, dtype=torch.float64)
        return [noise @ m + c[y] for m, c in zip(self.maps, self.means, strict=True)], y


def trial(population: Population, seed: int) -> dict[str, bool]:
    """Measure one data set; which intervals hold the truth?"""
    layers, y = population.draw(seed)
    parts = []
    for features in layers:
        stat = ClassScatter("held", folds=FOLDS)
        stat.update(features, y)
        parts.append(stat.compute())
    values = np.array([p.value for p in parts])
    replicates = Replicates(log_or_nan(np.stack([p.deleted for p in parts], axis=1)))
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
    for name, counts in SETTINGS.items():
        # Ten populations, so that no single one decides.
        populations = [Population(counts, seed) for seed in range(10)]
        held: dict[str, int] = {}
        with progress(name, TRIALS) as advance:
            for seed in range(TRIALS):
                for what, ok in trial(populations[seed % 10], seed).items():
                    held[what] = held.get(what, 0) + ok
                advance(1)
        layers = [held[f"D{i}"] / TRIALS for i in range(LAYERS)]
        row = {
            "uncertainty": "jackknife",
            "data": name,
            "trials": TRIALS,
            "rho": held["rho"] / TRIALS,
            "pearson": held["pearson"] / TRIALS,
            "D": round(float(np.mean(layers)), 4),
            "D_worst_layer": min(layers),
        }
        results.append(row)
        print(row, flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
