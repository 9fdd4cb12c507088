"""D = Tr(SSw SSb⁺) of plain features: the formula a reader of the paper looks for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lawscope.errors import LawscopeError
from lawscope.statistics.between import WEIGHTINGS, Weighting
from lawscope.statistics.features import as_features, as_labels

IntArray = NDArray[np.int64]
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
    x = as_features(features).to("cpu", torch.float64)
    position, counts = _groups(as_labels(labels, len(x)).cpu().numpy())
    if len(counts) < 2 or len(x) <= len(counts):
        raise LawscopeError(
            f"{len(x)} samples in {len(counts)} class(es): separation needs two classes and a "
            "class with two samples."
        )
    if weighting not in WEIGHTINGS:
        raise LawscopeError(f"weighting={weighting!r} is not known; choose 'count' or 'class'.")
    # Large products by torch alone: a second BLAS beside it would fight for the same cores. What is
    # K×K or K×n goes by numpy, whose calls cost less.
    sums = torch.zeros(len(counts), x.shape[1], dtype=torch.float64)
    sums.index_add_(0, torch.from_numpy(position), x)
    means = sums.numpy() / counts[:, None]
    if not np.isfinite(means).all():
        raise LawscopeError("The features contain NaN or infinite values; clean them first.")
    shares = counts if weighting == "count" else np.ones(len(counts))
    weights = shares / shares.sum()
    centre = weights @ means
    between = np.sqrt(weights)[:, None] * (means - centre)
    # B = RᵀQᵀ with the thin QR of Bᵀ, so that the singular vectors come from a K×K matrix.
    basis, triangle = torch.linalg.qr(torch.from_numpy(between).T)
    _, singular, right = np.linalg.svd(triangle.numpy().T)
    # As in between_frames: K centred means span K − 1 directions, less where they are rounding.
    tolerance = max(means.shape) * _EPSILON * (singular[0] + math.sqrt(centre @ centre))
    rank = min(int((singular > tolerance).sum()), len(counts) - 1)
    if rank == 0:
        return float("nan")
    matrix = torch.from_numpy(right[:rank] / singular[:rank, None]) @ basis.T
    deviation = (matrix @ x.T).numpy()
    deviation -= (matrix @ torch.from_numpy(means).T).numpy().take(position, axis=1)
    spread = np.square(deviation, out=deviation).sum(axis=0)
    value = float(spread @ (weights / counts).take(position))
    return value if value <= 1e26 else float("nan")  # means that differ by rounding only


def _groups(labels: IntArray) -> tuple[IntArray, IntArray]:
    """Class position of each sample, and samples per class; by counting where labels are dense."""
    if not len(labels):
        return labels, labels
    lowest = int(labels.min())
    if int(labels.max()) - lowest > 4 * len(labels):
        _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
        return inverse, counts
    shifted = labels - lowest
    every = np.bincount(shifted)
    position = np.cumsum(every > 0) - 1
    return position[shifted], every[every > 0]
