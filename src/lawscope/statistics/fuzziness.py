"""D = Tr(SSw SSb⁺) of plain features: the formula a reader of the paper looks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.statistics.between import WEIGHTINGS, Weighting, between_frames
from lawscope.statistics.features import as_features, as_labels
from lawscope.statistics.fuzziness_of_few import fuzziness_of_few

IntArray = NDArray[np.int64]


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
        LawscopeError: one class, no class with two samples, NaN, labels out of step, no such
            weighting.

    Example:
        >>> round(fuzziness([[0.0], [2.0], [10.0], [12.0]], [0, 0, 1, 1]), 12)
        0.04
    """
    if weighting not in WEIGHTINGS:
        raise LawscopeError(f"weighting={weighting!r} is not known; choose 'count' or 'class'.")
    x = as_features(features)
    if x.dtype is not torch.float64 or not x.is_cpu:
        x = x.to("cpu", torch.float64)
    y = as_labels(labels, len(x))
    if not y.is_cpu:
        y = y.cpu()
    value = fuzziness_of_few(x, y, weighting)
    return _with_care(x, y.numpy(), weighting) if value is None else value


def _with_care(x: Tensor, labels: IntArray, weighting: Weighting) -> float:
    """D of any data, by a singular value decomposition of the class means."""
    n = len(x)
    _, position, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(counts) < 2 or n <= len(counts):
        raise LawscopeError(
            f"{n} samples in {len(counts)} class(es): separation needs two classes and a "
            "class with two samples."
        )
    rows = torch.from_numpy(position)
    sums = x.new_zeros(len(counts), x.shape[1]).index_add_(0, rows, x)
    if not bool(sums.isfinite().all()):
        raise LawscopeError("The features contain NaN or infinite values; clean them first.")
    sizes = torch.from_numpy(counts)
    means = sums / sizes[:, None]
    frame = between_frames(means, sizes, weighting)
    if not int(frame.rank):
        return float("nan")
    matrix = frame.matrix[: int(frame.rank)]
    deviation = matrix @ x.T
    deviation -= (matrix @ means.T).index_select(1, rows)
    each = (frame.weights / sizes).index_select(0, rows)
    value = float((deviation.square_() @ each).sum())
    return value if value <= 1e26 else float("nan")  # means that differ by rounding only
