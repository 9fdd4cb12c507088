"""Neural collapse in numbers: NC1 to NC4 as pure functions of class means and classifiers.

Papyan, Han and Donoho 2020 define the four; where public code disagrees on a normalisation, the
docstring says which is taken here. docs/collapse.md has the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from lawscope.arrays import FloatArray, IntArray

SURELY = 0.01  # how probable differences in size would be by chance


class NC1(NamedTuple):
    """Features of a class shrink to their mean."""

    D: float  # Tr(SSw SSb⁺) with n_k/n weights, as in the law of data separation
    papyan: float  # D/K
    cdnv: float  # mean over pairs of (v_j + v_k)/(2‖h̄_j − h̄_k‖²), v_k the mean ‖h − h̄_k‖²


class Shape(NamedTuple):
    """How far K vectors are from a simplex equiangular tight frame."""

    equinorm: float  # standard deviation (K − 1 in the denominator) over mean of the norms
    angle_std: float  # standard deviation of the cosines of all pairs
    angle_error: float  # mean |cos + 1/(K−1)| over all pairs


class NC2(NamedTuple):
    """Class means and classifiers become a simplex ETF."""

    means: Shape  # of h̄_k − h̄, h̄ the mean of the class means, every class equal
    classifiers: Shape  # of the rows w_k as they are


class MinorityCosine(NamedTuple):
    """Mean cosine over pairs of minority classes; NaN for fewer than two."""

    classifiers: float  # between the rows w_k
    means: float  # between the centred class means


class Energies(NamedTuple):
    """Energies of the Layer-Peeled Model, read off the network.

    In E_H every class counts the same, not every sample, as in the constraint of Fang et al. 2021.
    """

    weight: float  # E_W = (1/K) Σ ‖w_k‖²
    feature: float  # E_H = (1/K) Σ_k (1/n_k) Σ_i ‖h_ki‖²


def centred(vectors: FloatArray) -> FloatArray:
    """Return vectors minus their mean, every vector counting once."""
    return np.asarray(vectors - vectors.mean(axis=0))


def cosines(vectors: FloatArray) -> FloatArray:
    """Return the cosines between the rows, shape (K, K); NaN where a row is zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        units = vectors / norms
    return np.asarray(np.clip(units @ units.T, -1, 1))


def pairs_of(square: FloatArray, group: Sequence[int] | None = None) -> FloatArray:
    """Return the entries of a symmetric matrix for all pairs, or for those of a group."""
    part = square if group is None else square[np.ix_(group, group)]
    return np.asarray(part[np.triu_indices(len(part), 1)])


def differ_surely(counts: FloatArray) -> bool:
    """Return whether class sizes differ by more than samples drawn at random from equal classes."""
    from scipy.stats import chisquare

    return bool(chisquare(counts).pvalue < SURELY)


def minority_cosine(weights: FloatArray, means: FloatArray, minority: IntArray) -> MinorityCosine:
    """Return the mean cosine over pairs of the minority, of classifiers and of centred means."""
    if len(minority) < 2:
        return MinorityCosine(math.nan, math.nan)
    both = (pairs_of(cosines(vectors[minority])) for vectors in (weights, centred(means)))
    return MinorityCosine(*(float(pairs.mean()) for pairs in both))


def shape_of(vectors: FloatArray) -> Shape:
    """Return NC2 of K vectors."""
    norms = np.linalg.norm(vectors, axis=1)
    pairs = pairs_of(cosines(vectors))
    mean = norms.mean()
    return Shape(
        equinorm=float(norms.std(ddof=1) / mean) if mean > 0 else math.nan,
        angle_std=float(pairs.std()),
        angle_error=float(np.abs(pairs + 1 / (len(vectors) - 1)).mean()),
    )


def self_duality(weights: FloatArray, means: FloatArray) -> float:
    """Return NC3 = ‖W/‖W‖_F − M/‖M‖_F‖², M the centred class means; from 0 (dual) to 4."""
    with np.errstate(invalid="ignore", divide="ignore"):
        W, M = (matrix / np.linalg.norm(matrix) for matrix in (weights, centred(means)))
    return float(np.square(W - M).sum())


def cdnv(means: FloatArray, variances: FloatArray) -> float:
    """Return the mean over pairs of (v_j + v_k)/(2‖h̄_j − h̄_k‖²) (Galanti et al. 2022)."""
    spreads = pairs_of(variances[:, None] + variances)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float((spreads / (2 * pdist(means, "sqeuclidean"))).mean())


def centred_energies(weights: FloatArray, means: FloatArray, variances: FloatArray) -> Energies:
    """Return energies about the mean row and feature: mean ‖h − h̄‖² = v_k + ‖h̄_k − h̄‖²."""
    return Energies(
        float(np.square(centred(weights)).sum(axis=1).mean()),
        float((variances + np.square(centred(means)).sum(axis=1)).mean()),
    )


def bias_share(bias: FloatArray, weights: FloatArray, means: FloatArray) -> float:
    """Return ‖Pb‖²/(‖Pb‖² + (1/K)Σ‖PWh̄_k‖²), P centring over the classes."""
    own = float(np.square(bias - bias.mean()).sum())
    logits = means @ centred(weights).T
    whole = own + float(np.square(logits).sum(axis=1).mean())
    return own / whole if whole else 0.0
