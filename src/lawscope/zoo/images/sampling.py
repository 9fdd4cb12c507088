"""Subsets with a set number of examples per class, and the order in which they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lawscope.arrays import IntArray
from lawscope.errors import LawscopeError
from lawscope.zoo.images.arrays import Images, Labels


def balanced(
    x: Images, y: Labels, per_class: int | Sequence[int], seed: int
) -> tuple[Images, Labels]:
    """Draw examples at random without replacement, an exact number per class, in random order.

    Which examples of a class are drawn depends on ``seed`` and that class alone, and the first 100
    drawn are among the first 500: sets of different sizes and imbalances are nested.

    ``per_class`` is how many of each class, or one number for each of the classes 0 … max(y).
    """
    if len(x) != len(y) or len(y) == 0:
        raise LawscopeError(
            f"{len(x)} examples and {len(y)} labels cannot be sampled from: "
            "give as many labels as examples, and at least one"
        )
    available = np.bincount(y)
    classes = len(available)
    if isinstance(per_class, int | np.integer):
        per_class = [per_class] * classes
    counts = [int(count) for count in per_class]
    if len(counts) != classes:
        raise LawscopeError(
            f"{len(counts)} numbers were given for {classes} classes: give one per class"
        )
    chosen = []
    for label, count in enumerate(counts):
        if not 0 <= count <= available[label]:
            raise LawscopeError(
                f"class {label} has {available[label]} examples, {count} were asked for: "
                f"ask for 0 to {available[label]}"
            )
        order = np.random.default_rng([seed, label]).permutation(available[label])
        chosen.append(np.flatnonzero(y == label)[order[:count]])
    # The number after the last class: a random stream that none of the classes used.
    shuffled = np.random.default_rng([seed, classes]).permutation(np.concatenate(chosen))
    return x[shuffled], y[shuffled]


def as_drawn(y: Labels, seed: int) -> IntArray:
    """Return the order (n,) of samples when classes are drawn until each is full.

    The public script of He & Su 2023 takes samples that way, so that its last batches hold the few
    classes that fill last. In train mode that matters: BatchNorm takes the statistics of the batch.

    Drawing classes at random is as many Poisson processes of equal rate: sample j of a class comes
    after j exponential waiting times, and each class ends when it is full.
    """
    arrival = np.random.default_rng(seed).exponential(size=len(y))
    for label in np.unique(y):
        arrival[y == label] = arrival[y == label].cumsum()
    return np.argsort(arrival)
