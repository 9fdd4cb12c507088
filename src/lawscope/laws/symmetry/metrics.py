"""Ranks of a spectrum, and groups of units that do the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lawscope.arrays import BoolArray, FloatArray, IntArray

# Shares of the largest eigenvalue below which others are rounding: of products in float32, of
# weights in float64.
ROUNDING_OF_ACTIVATIONS, ROUNDING_OF_WEIGHTS = 1e-6, 1e-12


class Ranks(NamedTuple):
    """Three smooth counts of the directions that a matrix uses, from 1 up to its smaller side."""

    effective: float  # exp(H(σ/Σσ)), Roy & Vetterli 2007
    stable: float  # Σσ²/σ_max²
    participation: float  # (Σσ²)²/Σσ⁴


UNKNOWN = Ranks(np.nan, np.nan, np.nan)


def ranks_of(singular: FloatArray) -> Ranks:
    """Return the ranks of a matrix by its singular values, shape (r,); 0 of a zero matrix.

    Example:
        >>> ranks_of(np.ones(4))
        Ranks(effective=4.0, stable=4.0, participation=4.0)
        >>> round(ranks_of(np.array([2.0, 1.0])).stable, 3)
        1.25
    """
    largest = singular.max(initial=0.0)
    if largest == 0:
        return Ranks(0.0, 0.0, 0.0)
    scaled = singular / largest
    shares = scaled[scaled > 0] / scaled.sum()
    squares = scaled**2
    return Ranks(
        effective=float(np.exp(-(shares * np.log(shares)).sum())),
        stable=float(squares.sum()),
        participation=float(squares.sum() ** 2 / (squares**2).sum()),
    )


def ranks_of_gram(gram: FloatArray, rounding: float) -> Ranks:
    """Return the ranks of a matrix A by AᵀA, or of centred activations by their covariance.

    Eigenvalues below the share ``rounding`` of the largest count as zero.
    """
    if not np.isfinite(gram).all():
        return UNKNOWN
    values = np.linalg.eigvalsh(gram)
    kept = values[values > rounding * values[-1]] if len(values) else values
    return ranks_of(np.sqrt(np.maximum(kept, 0)))


def correlate_units(covariance: FloatArray) -> FloatArray:
    """Return the correlations of units, shape (m, m); 0 with a unit that never changes."""
    deviation = np.sqrt(np.maximum(covariance.diagonal(), 0))
    scale = np.divide(1, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    found: FloatArray = np.clip(scale[:, None] * covariance * scale, -1, 1)
    return found


def group_alike(correlation: FloatArray, alive: BoolArray, threshold: float) -> list[IntArray]:
    """Return groups of two or more active units, each alike with the first of its group.

    Two units are alike where |correlation| exceeds the threshold. Groups come in the order of
    their first units.
    """
    left, groups = np.flatnonzero(alive), list[IntArray]()
    while len(left):
        alike = np.abs(correlation[left[0], left]) > threshold
        alike[0] = True
        if alike.sum() > 1:
            groups.append(left[alike])
        left = left[~alike]
    return groups


def find_most_alike(correlation: FloatArray, alive: BoolArray) -> tuple[int, int]:
    """Return the two active units, of two or more, with the largest |correlation|."""
    sizes = np.where(np.outer(alive, alive), np.abs(correlation), -1.0)
    np.fill_diagonal(sizes, -1.0)
    first, second = np.unravel_index(sizes.argmax(), sizes.shape)
    return int(first), int(second)


def order_in_blocks(groups: list[IntArray], alive: BoolArray) -> IntArray:
    """Return the active units in the order of a block picture: large groups first, then others."""
    blocks = sorted(groups, key=lambda group: -len(group))
    grouped = np.concatenate([*blocks, np.array([], dtype=np.int64)])
    return np.concatenate([grouped, np.setdiff1d(np.flatnonzero(alive), grouped)])
