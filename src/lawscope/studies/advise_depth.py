"""Train a few depths on somebody's data and say which separates best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.laws.separation import separation
from lawscope.progress import Advance, progress
from lawscope.studies.depth_advice import DepthAdvice, weigh
from lawscope.training.recipe import Recipe
from lawscope.training.stack import train_stack
from lawscope.whole_number import is_whole, whole_number
from lawscope.zoo.arrays import Dataset
from lawscope.zoo.datasets import as_inputs, balanced, resize
from lawscope.zoo.find import find_data
from lawscope.zoo.networks import feedforward

DEPTHS = (2, 4, 6, 8, 10, 12, 16, 20)
FITTED = 0.99


def advise_depth(
    data: str | Path | Dataset | Sequence[Any],
    *,
    depths: Sequence[int] = DEPTHS,
    seeds: int = 3,
    per_class: int = 100,
    size: tuple[int, int] | None = None,
    width: int = 100,
    lr: float = 1e-3,
    epochs: int = 300,
    data_dir: str | Path | None = None,
    show: bool | None = None,
) -> DepthAdvice:
    """How deep a network this data asks for, in the view of data separation (003, figure 3).

    Feed-forward networks of several depths are trained as stacks, a stack per depth with a network
    per seed; the best depth is the one with the lowest D at the last hidden layer. Beyond it, depth
    only makes the optimisation harder.

    Args:
        data: a name, an ``.npz`` file, a folder of images by class, a pair ``(x, y)``, a Dataset.
        depths: layers to try, classifier included.
        seeds: networks per depth; the uncertainty comes from their spread.
        per_class: training samples of a class, fewer where a class has fewer.
        size: height and width to resize images to; the papers use (10, 10).
        width: of the hidden layers.
        lr: first learning rate of Adam.
        epochs: passes over the samples.
        data_dir: where datasets lie.
        show: a progress bar, by default where a terminal is there.

    Returns:
        The best depth, the depths that may be best, a table, a plot and a sentence.

    Raises:
        LawscopeError: a setting out of range, data that cannot be used, a training that diverged
            or ended with a D that has no logarithm.

    Example:
        >>> y = np.arange(40) % 4
        >>> x = np.random.default_rng(0).normal(size=(40, 6)) + 4 * np.eye(4, 6)[y]
        >>> advice = advise_depth((x, y), depths=(2, 3), seeds=2, width=8, epochs=2)
        >>> advice.values.shape, advice.best in (2, 3)
        ((2, 2), True)
    """
    tried = _depths(depths)
    seeds = whole_number("seeds", seeds, 2, "shows no spread")
    per_class = whole_number("per_class", per_class, 2, "has no spread within a class")
    width = whole_number("width", width, 2, "leaves no room to separate classes")
    epochs = whole_number("epochs", epochs, 1, "would not train the networks")
    lr = _rate(lr)
    dataset = find_data(data, data_dir=data_dir, size=size)
    x, y = _samples(dataset, per_class, size)
    recipe = Recipe(lr=lr, epochs=epochs)
    numbers = np.empty((3, len(tried), seeds))
    with progress("training", sum(tried) * epochs, show) as advance:
        for row, depth in enumerate(tried):
            numbers[:, row] = _train_and_measure(depth, seeds, width, x, y, recipe, advance)
    values, pearson, accuracy = numbers
    settings = {
        "samples": len(y),
        "classes": len(y.unique()),
        "inputs": x.shape[1],
        "width": width,
        "optimizer": recipe.optimizer,
        "lr": lr,
        "epochs": epochs,
        "seeds": seeds,
        "not_fitted": [d for d, a in zip(tried, accuracy, strict=True) if a.min() < FITTED],
    }
    return weigh(dataset.name, tried, values, pearson, accuracy, settings)


def _depths(depths: object) -> tuple[int, ...]:
    """The depths in rising order, each once."""
    given = list(depths) if isinstance(depths, Iterable) and not isinstance(depths, str) else []
    tried = sorted({int(depth) for depth in given if is_whole(depth)})
    if len(tried) < 2 or tried[0] < 2 or not all(map(is_whole, given)):
        raise LawscopeError(
            f"depths={given or depths!r}: give two or more different whole numbers, each from 2, "
            "such as (2, 4, 8)."
        )
    return tuple(tried)


def _rate(lr: Any) -> float:
    if isinstance(lr, bool) or not isinstance(lr, Real) or not 0 < float(lr) < math.inf:
        raise LawscopeError(f"lr={lr!r} does not train; give a number above 0, such as 0.001.")
    return float(lr)


def _samples(
    dataset: Dataset, per_class: int, size: tuple[int, int] | None
) -> tuple[Tensor, Tensor]:
    images = dataset.x_train
    counts = [min(int(n), per_class) for n in np.bincount(dataset.y_train)]
    if sum(count > 1 for count in counts) < 2:
        raise LawscopeError(f"{dataset.name} needs two classes of two samples or more.")
    x, y = balanced(images, dataset.y_train, counts, seed=0)
    if all((x[y == label] == x[y == label][:1]).all() for label in np.unique(y)):
        raise LawscopeError(
            f"All samples of a class are the same in {dataset.name}, so D = 0 at every layer; use "
            "data that differ within classes."
        )
    if size is not None and x.dtype == np.uint8 and x.shape[1:3] != size:
        x = resize(x, size)
    return as_inputs(x), torch.from_numpy(y)


def _train_and_measure(
    depth: int,
    seeds: int,
    width: int,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    advance: Advance,
) -> np.ndarray:
    """Final D, r and training accuracy of one stack, shape (3, seeds)."""
    models, recipes = [], []
    classes = int(y.max()) + 1
    with torch.random.fork_rng(devices=[]):
        for seed in range(seeds):
            torch.manual_seed(seed)
            models.append(feedforward(depth, inputs=x.shape[1], width=width, classes=classes))
            recipes.append(Recipe(lr=recipe.lr, epochs=recipe.epochs, seed=seed))
    ends = train_stack(
        models, [x] * seeds, [y] * seeds, recipes, after_epoch=lambda _: advance(depth)
    )
    if any(end.loss != end.loss for end in ends):
        raise LawscopeError(
            f"The training of {depth} layers diverged at lr {recipe.lr:g}; try a smaller one."
        )
    measured = [separation(model, (x, y), uncertainty=None) for model in models]
    return np.array(
        [
            [m.values[-1] for m in measured],
            [m.fit.pearson for m in measured],
            [end.accuracy for end in ends],
        ]
    )
