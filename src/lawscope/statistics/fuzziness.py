"""D = Tr(SSw SSb⁺) of plain features: the formula a reader of the paper looks for."""

from __future__ import annotations

from typing import Any

import torch

from lawscope.errors import LawscopeError
from lawscope.statistics.between import Weighting, between_frames
from lawscope.statistics.features import as_features, as_labels


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
    y = as_labels(labels, len(x)).to(x.device)
    classes, inverse, counts = torch.unique(y, return_inverse=True, return_counts=True)
    if len(classes) < 2 or len(x) <= len(classes):
        raise LawscopeError(
            f"{len(x)} samples in {len(classes)} class(es): separation needs two classes and a "
            "class with two samples."
        )
    x = x.to(torch.float64)
    means = x.new_zeros(len(classes), x.shape[1]).index_add_(0, inverse, x) / counts[:, None]
    if not bool(means.isfinite().all()):
        raise LawscopeError("The features contain NaN or infinite values; clean them first.")
    frame = between_frames(means, counts, weighting)
    # Rows beyond the rank are zero. Samples on the right: the thin side of a product goes first.
    matrix = frame.matrix[: int(frame.rank)]
    if not len(matrix) or (means - means[0]).norm() <= 1e-13 * means[0].norm():
        return float("nan")
    deviation = (matrix @ x.T).sub_((matrix @ means.T)[:, inverse])
    spread = deviation.square_().sum(dim=0)
    value = float(spread @ (frame.weights / counts)[inverse])
    return value if value <= 1e26 else float("nan")  # means that differ by rounding only
