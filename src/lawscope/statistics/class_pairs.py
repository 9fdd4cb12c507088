"""A number per ordered pair of samples, averaged over pairs of one class and of two classes.

Pairs share samples, so that they are not independent: intervals come from leaving out samples, not
pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lawscope.arrays import FloatArray, IntArray

LEAST = 3  # samples of a class: without one of them a pair is left


@dataclass(frozen=True, eq=False)
class PairGap:
    """Means over pairs of the same class and of other classes, in a population of such samples.

    Attributes:
        same: mean over the classes of the mean over pairs of two samples of a class.
        other: mean over ordered pairs of classes of the mean over pairs of their samples.
        gap: same − other.
        interval: 95 % interval of each of these by its name; empty with fewer than three samples
            in a class.
    """

    same: float
    other: float
    gap: float
    interval: dict[str, tuple[float, float]]


def compute_class_pairs(values: FloatArray, classes: IntArray) -> FloatArray:
    """Return M_kl, the mean of S(x, x′) over x of class k, x′ of class l, x ≠ x′, shape (K, K).

    Args:
        values: S, shape (n, n).
        classes: of the samples, numbered from 0, shape (n,).
    """
    sums, counts = _sum_classes(values, classes)
    return _means(sums, counts)


def compute_pair_gap(values: FloatArray, classes: IntArray) -> PairGap:
    """Return the means over pairs of the same and of other classes, and their gap.

    Each is a U-statistic of independent samples within each class. Leaving out one sample at a
    time gives its variance, Σ_k (m_k − 1)/m_k Σ_{i in k} (θ₍₋ᵢ₎ − mean over class k)², which is
    too large rather than too small (Efron & Stein 1981); the interval is θ ± t₍n−K₎ · its root.
    """
    sums, counts = _sum_classes(values, classes)
    found, interval = _summarise(_means(sums, counts)), {}
    if counts.min() >= LEAST:
        from scipy.stats import t

        error = np.sqrt(_jackknife(values, classes, sums, counts))
        width = t.ppf(0.975, len(classes) - len(counts)) * error
        ends = zip((found - width).tolist(), (found + width).tolist(), strict=True)
        interval = dict(zip(("same", "other", "gap"), ends, strict=True))
    same, other, gap = found.tolist()
    return PairGap(same, other, gap, interval)


def _jackknife(
    values: FloatArray, classes: IntArray, sums: FloatArray, counts: FloatArray
) -> FloatArray:
    """Return the variances of same, other and gap."""
    off, member = _without_diagonal(values), np.eye(len(counts))[classes]
    left, right = off @ member, off.T @ member  # as x and as x′, by class of the other
    variance = np.zeros(3)
    for label, count in enumerate(counts):
        fewer, again = counts - (np.arange(len(counts)) == label), []
        for row in np.flatnonzero(classes == label):
            rest = sums.copy()
            rest[label] -= left[row]
            rest[:, label] -= right[row]
            again.append(_summarise(_means(rest, fewer)))
        variance += (count - 1) / count * np.square(again - np.mean(again, axis=0)).sum(axis=0)
    return variance


def _without_diagonal(values: FloatArray) -> FloatArray:
    return values - np.diag(np.diag(values))


def _sum_classes(values: FloatArray, classes: IntArray) -> tuple[FloatArray, FloatArray]:
    member = np.eye(int(classes.max()) + 1)[classes]
    return member.T @ _without_diagonal(values) @ member, member.sum(axis=0)


def _means(sums: FloatArray, counts: FloatArray) -> FloatArray:
    pairs = np.outer(counts, counts) - np.diag(counts)
    return np.divide(sums, pairs, out=np.full_like(sums, math.nan), where=pairs > 0)


def _summarise(means: FloatArray) -> FloatArray:
    """Return the means over the diagonal and off it, and their difference."""
    off = ~np.eye(len(means), dtype=bool)
    same, other = np.diag(means).mean(), means[off].mean()
    return np.array([same, other, same - other])
