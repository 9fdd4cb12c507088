"""Whether classes can be separated by hyperplanes, by a linear program."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.stats import binomtest

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError

ROUNDING = 1e-10  # differences below this share of the values are lost


class Separability(NamedTuple):
    """How often samples of the model are linearly separable.

    Attributes:
        probability: that every two classes are.
        low: lower end of its 95 % interval (Clopper and Pearson).
        high: upper end.
        pairs: share of pairs of classes that are.
    """

    probability: float
    low: float
    high: float
    pairs: float


def count_separable(draws: FloatArray) -> Separability:
    """Return how often classes are pairwise separable, from draws (repeats × n × K × p)."""
    repeats, _, K, _ = draws.shape
    pairs = list(combinations(range(K), 2))
    found = np.array([[are_separable(draw[:, i], draw[:, j]) for i, j in pairs] for draw in draws])
    successes = int(found.all(axis=1).sum())
    ends = binomtest(successes, repeats).proportion_ci(0.95)
    return Separability(successes / repeats, float(ends.low), float(ends.high), float(found.mean()))


def are_separable(one: FloatArray, other: FloatArray) -> bool:
    """Return whether a hyperplane has all rows of one on one side and those of the other beyond.

    Feasibility of wᵀx + b ≥ 1 on one class and ≤ −1 on the other.

    Raises:
        LawscopeError: rounding hides where samples are.

    Example:
        >>> square = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
        >>> are_separable(square[:2], square[2:]), are_separable(square[:1], square[1:])
        (False, True)
    """
    rows = np.concatenate([one, other])
    largest = float(np.abs(rows).max())
    rows = rows - rows.mean(axis=0)
    width = float(np.abs(rows).max())
    if width < ROUNDING * largest:
        raise LawscopeError(
            "Samples of two classes agree to 10 digits, so rounding hides which side they are on: "
            "what all classes share has outgrown the rest; ask for earlier times."
        )
    rows = rows / (width or 1.0)
    sides = np.repeat([1.0, -1.0], [len(one), len(other)])
    # Most pairs that can be separated are so by the direction of their means or by Fisher's.
    gap = rows[sides > 0].mean(axis=0) - rows[sides < 0].mean(axis=0)
    scatter = np.cov(rows.T, ddof=0).reshape(len(gap), len(gap))
    for direction in (gap, np.linalg.pinv(scatter) @ gap):
        along = rows @ direction
        if along[sides > 0].min() > along[sides < 0].max():
            return True
    table = -sides[:, None] * np.column_stack([rows, np.ones(len(rows))])
    found = linprog(np.zeros(table.shape[1]), table, -np.ones(len(rows)), bounds=(None, None))
    return bool(found.status == 0)
