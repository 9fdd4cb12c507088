"""Where the population's D is known: cells of a grid of Gaussian classes, and pools of real images.

A Gaussian world has class means m drawn in every trial, so that no single draw decides, noise ε
shared by all stations as in a network, and a spectrum s: features of station l are
x = σ_l·s∘ε + m_{l,k}, and the population's D is σ_l²·Tr(diag(s²) SSb⁺), which σ_l makes what it is
to be. A real world is a pool of images behind a trained network: the pool is the population, and
samples are drawn from it with replacement.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from lawscope.statistics.class_scatter import ClassScatter
from lawscope.studies.datasets import ImageData
from lawscope.training.loop import train
from lawscope.training.recipe import Recipe
from lawscope.zoo.networks.feedforward import feedforward

STATIONS, RATE, FIRST = 5, 0.6, 10.0
SAMPLES = (10, 20, 50, 100, 500)
# Of the covariance within classes, and of the class means: variances i^−power.
SPECTRA = {"flat": 0, "1/i": 1, "1/i²": 2}
# Distances of log D from a straight line, and the population's r. That of the grid is not exactly
# −1, an end of its range, which an interval can miss on one side only.
STRAIGHT = (0.0,) * STATIONS
NEARLY = (0.1, -0.03, -0.1, 0.0, 0.07)  # −0.995
BENT = (0.3, -0.1, -0.3, 0.0, 0.2)  # −0.961
WEIGHTS = Path("runs/coverage")  # of trained networks; not kept in git
POOL = 500  # images per class

Sample = tuple[Iterator[Tensor], Tensor]  # features of every station, and labels


@dataclass(frozen=True)
class World:
    """A population and a way to draw samples of it."""

    values: np.ndarray  # D of the population at every station
    draw: Callable[[np.random.Generator], Sample]


@dataclass(frozen=True)
class Cell:
    """One row of the table: a world and a number of samples per class, of the smallest."""

    table: str
    world: str
    samples: int
    trials: int
    make: Callable[[], World]
    folds: int = 8

    @property
    def name(self) -> str:
        return f"{self.table}, {self.world}, n = {self.samples}"


def list_cells() -> list[Cell]:
    """Return the whole grid."""
    return [*_list_gaussian(), *_list_others(), *_list_real()]


def _list_gaussian() -> Iterator[Cell]:
    grid = itertools.product((20, 100, 3072), SPECTRA, (2, 10, 50), SAMPLES)
    for dim, spectrum, classes, samples in grid:
        size = dim * classes**2 * samples
        # As many as a minute or two allow; for the largest cells a few minutes.
        most = 200 if dim == 20 else 100
        trials = most if size < 1e7 else 100 if size < 6e7 else 40 if size < 2e8 else 20
        make = partial(make_gaussian, dim, SPECTRA[spectrum], (samples,) * classes)
        yield Cell(f"d = {dim}", f"{spectrum}, K = {classes}", samples, trials, make)


def _list_others() -> Iterator[Cell]:
    """Yield what leaves the grid in one respect each, at d = 100, a flat spectrum and K = 10."""
    for samples in SAMPLES:
        equal, unequal = (samples,) * 10, (samples,) * 5 + (4 * samples,) * 5
        worlds = {
            "exact line": partial(make_gaussian, 100, 0, equal, bends=STRAIGHT),
            "bent line": partial(make_gaussian, 100, 0, equal, bends=BENT),
            "classes 1 : 4": partial(make_gaussian, 100, 0, unequal),
            "classes 1 : 4, 1/i": partial(make_gaussian, 100, 1, unequal),
            "t with 5 degrees": partial(make_gaussian, 100, 0, equal, tails=5),
            "t with 3 degrees": partial(make_gaussian, 100, 0, equal, tails=3),
        }
        for world, make in worlds.items():
            yield Cell("others", world, samples, 100, make)
    for samples in SAMPLES[:3]:  # separation has four folds with more than 50 classes
        many = partial(make_gaussian, 100, 0, (samples,) * 100)
        yield Cell("others", "K = 100, four folds", samples, 40, many, folds=4)


def _list_real() -> Iterator[Cell]:
    for world, network in NETWORKS.items():
        for samples in SAMPLES:
            yield Cell("real", world, samples, 200, partial(make_real, network, samples))


def make_gaussian(
    dim: int,
    power: int,
    counts: tuple[int, ...],
    bends: tuple[float, ...] = NEARLY,
    tails: int = 0,
) -> World:
    """Return a world of Gaussian classes, or of Student's t with as many degrees as ``tails``."""
    values = FIRST * RATE ** np.arange(STATIONS) * np.exp(bends)
    spectrum = (np.arange(1, dim + 1) ** (-power / 2)).astype(np.float32)
    y, shares = np.repeat(np.arange(len(counts)), counts), np.array(counts) / sum(counts)

    def draw(random: np.random.Generator) -> Sample:
        size = (len(y), dim)
        if tails:
            noise = random.standard_t(tails, size).astype(np.float32)
            noise *= math.sqrt((tails - 2) / tails)
        else:
            noise = random.standard_normal(size, dtype=np.float32)
        noise *= spectrum

        def stations() -> Iterator[Tensor]:
            for value in values:
                means = random.standard_normal((len(counts), dim)) * spectrum
                between = np.sqrt(shares)[:, None] * (means - shares @ means)
                _, sizes, directions = np.linalg.svd(between, full_matrices=False)
                rank = min(len(counts) - 1, dim)
                whitened = directions[:rank] / sizes[:rank, None]
                scale = np.float32(math.sqrt(value / np.square(whitened * spectrum).sum()))
                yield torch.from_numpy(scale * noise + means.astype(np.float32)[y])

        return stations(), torch.from_numpy(y)

    return World(values, draw)


@dataclass(frozen=True)
class Trained:
    """A feed-forward network of He & Su 2023, width 100, trained on all of its pool."""

    data: ImageData
    depth: int
    recipe: Recipe

    def load(self, x: Tensor, y: Tensor) -> torch.nn.Sequential:
        """Return the network; train it where its weights are not on this machine."""
        torch.manual_seed(0)
        network = feedforward(self.depth, inputs=x.shape[1])
        path = WEIGHTS / f"{self.data.name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        # The other process waits for the weights.
        with FileLock(path.with_suffix(".lock")):
            if not path.exists():
                train(network, x, y, self.recipe)
                torch.save(network.state_dict(), path)
        network.load_state_dict(torch.load(path))
        return network.eval()


RECIPE = Recipe(lr=1e-3, epochs=300)
# Of the rates 1e-3, 3e-3 and 1e-2 the first fits both pools best: accuracy 0.9994 and 0.9998, and
# r of the pool is −0.998 and −0.993.
NETWORKS = {
    "Fashion-MNIST": Trained(ImageData("fashion-mnist", size=10, per_class=POOL), 6, RECIPE),
    "CIFAR-10": Trained(ImageData("cifar10", size=10, channel=1, per_class=POOL), 6, RECIPE),
}


def make_real(trained: Trained, samples: int) -> World:
    """Return the world of all images of a pool, at the input and behind every hidden layer."""
    images = trained.data.load()
    x, y = images.x, images.y
    *layers, _ = trained.load(x, y)
    stations, values = [x], []
    with torch.no_grad():
        for layer in layers:
            stations.append(layer(stations[-1]))
    for features in stations:
        scatter = ClassScatter()
        scatter.update(features, y)
        values.append(scatter.compute().value)
    members = [np.flatnonzero(y.numpy() == label) for label in range(len(images.class_names))]

    def draw(random: np.random.Generator) -> Sample:
        rows = torch.from_numpy(np.concatenate([random.choice(m, samples) for m in members]))
        return (features[rows] for features in stations), y[rows]

    return World(np.array(values), draw)
