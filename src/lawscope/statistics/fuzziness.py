"""D = Tr(SSw SSb⁺) of plain features: the formula a reader of the paper looks for."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dsyevd

from lawscope.errors import LawscopeError
from lawscope.statistics.between import WEIGHTINGS, Weighting
from lawscope.statistics.features import as_features, as_labels

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
CANCELS = 1e-2  # a share of the spread below which a difference loses more than two digits
FEW = 32  # classes whose K×K matrices are cheap, and left to one thread by scipy's BLAS
EVEN = 1e-3  # a share of the largest eigenvalue above which squares have lost three digits at most
_EPSILON = float(np.finfo(np.float64).eps)


def fuzziness(features: Any, labels: Any, *, weighting: Weighting = "count") -> float:
    """Separation fuzziness D = Tr(SSw SSb⁺) (003 eq. 1), computed in float64.

    SSb = Σ π_k (x̄_k − x̄)(x̄_k − x̄)ᵀ and SSw = Σ π_k/n_k Σ_i (x_ki − x̄_k)(x_ki − x̄_k)ᵀ with
    π_k = n_k/n. Only the K×d class means are decomposed, never a d×d matrix. D does not change
    under translation, rotation, one common scale, the order of the samples or the names of the
    classes; it does change under a general linear map.

    Args:
        features: tensor or array of shape (n, ...), flattened to (n, d).
        labels: any integers, shape (n,).
        weighting: "count" as in the paper, or "class" for π_k = 1/K.

    Returns:
        D; large when the classes overlap, 0 when every sample sits on its class mean, NaN when
        all class means coincide (D then has no meaning).

    Raises:
        LawscopeError: one class, no class with two samples, NaN, labels out of step.

    Example:
        >>> round(fuzziness([[0.0], [2.0], [10.0], [12.0]], [0, 0, 1, 1]), 12)
        0.04
    """
    x = as_features(features)
    if x.dtype is not torch.float64 or not x.is_cpu:
        x = x.to("cpu", torch.float64)
    n, d = x.shape
    y = as_labels(labels, n)
    position, counts = _groups((y if y.is_cpu else y.cpu()).numpy())
    if len(counts) < 2 or n <= len(counts):
        raise LawscopeError(
            f"{n} samples in {len(counts)} class(es): separation needs two classes and a "
            "class with two samples."
        )
    if weighting not in WEIGHTINGS:
        raise LawscopeError(f"weighting={weighting!r} is not known; choose 'count' or 'class'.")
    # Products over samples by torch alone: a second BLAS beside it would fight for the same cores.
    # What is K×d or K×n goes by numpy, whose calls cost less.
    sums = np.zeros((len(counts), d))
    torch.from_numpy(sums).index_add_(0, torch.from_numpy(position), x)
    between, centre = _between(sums, counts, weighting)
    distance = math.sqrt(centre @ centre)
    if not math.isfinite(distance) and not np.isfinite(sums).all():
        raise LawscopeError("The features contain NaN or infinite values; clean them first.")
    matrix = _whitening(between, distance, len(counts) - 1)
    rank = len(matrix)
    if rank == 0:
        return float("nan")
    deviation = (torch.from_numpy(matrix) @ x.T).numpy()
    each = 1 / n if weighting == "count" else (1 / len(counts) / counts).take(position)
    # About zero: less the common mean, and along each direction the class means spread by 1.
    middle, whole = matrix @ centre, _spread(deviation, each)
    value = whole - float(middle @ middle) - rank
    if value < CANCELS * whole:
        deviation -= (matrix @ (sums / counts[:, None]).T).take(position, axis=1)
        value = _spread(deviation, each)
    return value if value <= 1e26 else float("nan")  # means that differ by rounding only


def _spread(deviation: FloatArray, each: float | FloatArray) -> float:
    """Σ ‖deviation‖² over samples (r, n), weighted alike or by a number for each (n,)."""
    if isinstance(each, float):
        return float(np.vdot(deviation, deviation)) * each
    return float(np.vdot(deviation, deviation * each))


def _groups(labels: IntArray) -> tuple[IntArray, IntArray]:
    """Class position of each sample, and samples per class; by counting where labels are dense."""
    if np.maximum.reduce(labels.view(np.uint64)) > 4 * len(labels):  # the negative are huge here
        _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
        return inverse, counts
    every = np.bincount(labels)
    if 0 not in every.tolist():
        return labels, every
    present = every > 0
    return (np.cumsum(present) - 1)[labels], every[present]


def _between(
    sums: FloatArray, counts: IntArray, weighting: Weighting
) -> tuple[FloatArray, FloatArray]:
    """B (r, d) with BᵀB = SSb, and the common mean (d,), from sums per class (K, d)."""
    if len(counts) <= FEW:
        both = _contrasts(counts.tobytes(), weighting) @ sums
        return both[:-1], both[-1]
    means = sums / counts[:, None]
    weights = _weights(counts, weighting)
    centre = weights @ means
    return np.sqrt(weights)[:, None] * (means - centre), centre


@lru_cache(maxsize=64)  # all layers of a network have the same classes
def _contrasts(counts: bytes, weighting: Weighting) -> FloatArray:
    """What sums per class are multiplied by (K, K): K − 1 rows give B, the last the common mean.

    The weighted means √π_k x̄_k lose the common one along the unit vector √π, so that an
    orthonormal basis of what is perpendicular to it keeps BᵀB.
    """
    sizes = np.frombuffer(counts, dtype=np.int64)
    weights = _weights(sizes, weighting)
    roots = np.sqrt(weights)
    _, _, basis = np.linalg.svd(roots[None])
    return np.vstack([basis[1:] * (roots / sizes), weights / sizes])


def _weights(counts: IntArray, weighting: Weighting) -> FloatArray:
    """π_k, shape (K,)."""
    return counts / counts.sum() if weighting == "count" else np.full(len(counts), 1 / len(counts))


def _whitening(between: FloatArray, distance: float, most: int) -> FloatArray:
    """A = S⁻¹Vᵀ (r, d) of B = USVᵀ with at most K − 1 directions: AᵀA = (BᵀB)⁺.

    There are less where means differ by rounding, as in between_frames. Where they spread evenly,
    A = S⁻²UᵀB comes from the small matrix BBᵀ in half the time.
    """
    scale = max(between.shape) * _EPSILON
    if len(between) == most:  # few classes: contrasts, of which none vanishes by itself
        values, vectors, failed = dsyevd(between @ between.T)
        least = max(EVEN * values[-1], (scale * distance) ** 2)
        if not failed and values[0] > least:
            return np.asarray((vectors / values).T @ between)
    # As left vectors of the d×K transpose: three times as fast where d is large.
    right, singular, _ = torch.linalg.svd(torch.from_numpy(between).T, full_matrices=False)
    tolerance = scale * (float(singular[0]) + distance)
    rank = min(int((singular > tolerance).sum()), most)
    return np.asarray((right[:, :rank] / singular[:rank]).T)
