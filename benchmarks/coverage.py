"""How often the 95 % intervals of D̂, ρ and r hold the population's value, where it is known.

``make coverage`` measures every cell and writes results/coverage.json; ``python -m
benchmarks.coverage gauss real`` measures some worlds. A cell is a world and a number of samples
per class. An interval without an upper end counts as covering; how often ends are open, and how
often an interval is given at all, stand beside.

Worlds: features of layer l are x = σ_l·s∘ε + m_{l,k} with class means m drawn once, ε shared by all
layers as in a real network and a spectrum s; the population's D is then σ_l²·Tr(s² SSb⁺), exactly.
And draws of real images through trained networks, of which all samples are the population.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lawscope.laws.line import fit_line
from lawscope.laws.population import estimate_population
from lawscope.progress import progress
from lawscope.statistics.class_scatter import ClassScatter

RESULTS = Path("results/coverage.json")
LAYERS, FOLDS, RATE = 5, 8, 0.6
SPECTRA = {"flat": 0.0, "1/i": 1.0, "1/i²": 2.0}

Draw = Callable[[int], tuple[list[Tensor], Tensor]]


@dataclass(frozen=True)
class Cell:
    """One row of the table."""

    world: str
    samples: str
    trials: int
    values: np.ndarray  # D of the population at every layer
    draw: Draw  # of a seed: features of every layer, and labels


def gauss(
    classes: int, dim: int, power: float, counts: list[int], bends: np.ndarray, tails: float = 0.0
) -> tuple[np.ndarray, Draw]:
    """Return a world of Gaussian classes, or of Student's t with as many degrees as ``tails``."""
    random = np.random.default_rng(classes * 10_000 + dim)
    spectrum = np.arange(1, dim + 1) ** (-power / 2)
    shares = np.array(counts) / sum(counts)
    scales, means, values = [], [], 10 * RATE ** np.arange(LAYERS) * np.exp(bends)
    for value in values:
        centres = random.normal(size=(classes, dim)) * spectrum
        between = np.sqrt(shares)[:, None] * (centres - shares @ centres)
        _, sizes, directions = np.linalg.svd(between, full_matrices=False)
        whitened = directions[: classes - 1] / sizes[: classes - 1, None]
        scales.append(math.sqrt(value / np.square(whitened * spectrum).sum()))
        means.append(torch.from_numpy(centres))
    y = torch.repeat_interleave(torch.tensor(counts))

    def draw(seed: int) -> tuple[list[Tensor], Tensor]:
        noise = np.random.default_rng(seed)
        size = (len(y), dim)
        drawn = noise.normal(size=size)
        if tails:
            drawn = noise.standard_t(tails, size=size) * math.sqrt((tails - 2) / tails)
        unit = torch.from_numpy(drawn * spectrum)
        return [scale * unit + m[y] for scale, m in zip(scales, means, strict=True)], y

    return values, draw


def gaussian_cells() -> Iterator[Cell]:
    """Yield the grid: features, samples, spectra, classes, unequal classes, heavy tails."""
    straight = np.zeros(LAYERS)
    grid = itertools.product((20, 100, 3072), SPECTRA, (2, 10, 50), (10, 20, 50, 100, 500))
    for dim, spectrum, classes, samples in grid:
        size = dim * classes * samples
        if size > 4_000_000 or dim < classes:
            continue
        trials = 200 if size < 1_000_000 else 60
        made = gauss(classes, dim, SPECTRA[spectrum], [samples] * classes, straight)
        yield Cell(f"d = {dim}, {spectrum}, K = {classes}", str(samples), trials, *made)
    bent = np.array([0.3, -0.1, -0.3, 0.0, 0.2])
    for samples in (20, 50, 100):
        made = gauss(10, 100, 0.0, [samples] * 10, bent)
        yield Cell("bent line, d = 100, K = 10", str(samples), 200, *made)
        made = gauss(10, 100, 0.0, [samples] * 5 + [4 * samples] * 5, straight)
        yield Cell("classes 1 : 4, d = 100, K = 10", str(samples), 200, *made)
        made = gauss(10, 100, 0.0, [samples] * 10, straight, tails=5)
        yield Cell("t with 5 degrees, d = 100, K = 10", str(samples), 200, *made)


def real_cells() -> Iterator[Cell]:
    """Yield draws of Fashion-MNIST and CIFAR-10 through networks trained on them."""
    from lawscope.training.loop import train
    from lawscope.training.recipe import Recipe
    from lawscope.zoo.images.catalogue import load
    from lawscope.zoo.networks.feedforward import feedforward

    for name in ("fashion-mnist", "cifar-10"):
        try:
            data: Any = load(name)
        except Exception as error:  # a dataset that is not on this machine
            print(f"{name}: {error}", file=sys.stderr)
            continue
        x, y = data.x[:20_000].flatten(1), data.y[:20_000]
        torch.manual_seed(0)
        network = feedforward(6, inputs=x.shape[1], classes=10)
        train(network, x, y, Recipe(optimizer="adam", lr=1e-3, epochs=30))
        with torch.no_grad():
            layers = [x.double()]
            for module in network.eval():
                layers.append(module(layers[-1].float()).double())
        layers = [layers[0], *layers[2:-1:2]]
        values = np.array([ClassScatter.of(h, y) for h in layers])

        def draw(seed: int, layers: list[Tensor] = layers, y: Tensor = y, n: int = 0):  # noqa: ANN202
            random = np.random.default_rng(seed)
            rows = [random.choice(np.flatnonzero(y.numpy() == k), n) for k in range(10)]
            at = torch.from_numpy(np.concatenate(rows))
            return [h[at] for h in layers], y[at]

        for samples in (20, 50, 100, 200, 500):
            yield Cell(
                f"{name}, MLP", str(samples), 100, values,
                lambda seed, n=samples, one=draw: one(seed, n=n),
            )  # fmt: skip


WORLDS = {"gauss": gaussian_cells, "real": real_cells}
