"""The span of the class means and the scaling that makes SSb the identity on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lawscope.errors import LawscopeError

Weighting = Literal["count", "class"]
WEIGHTINGS = ("count", "class")


@dataclass(frozen=True, eq=False)
class Frames:
    """For one or several sets of class means: SSb⁺ written as A ᵀA.

    Attributes:
        matrix: A = S⁺Vᵀ, shape (..., K, d), rows beyond the rank are zero; then
            Tr(SSw SSb⁺) = mean of ‖A(x − x̄_k)‖².
        rank: rank of SSb, shape (...).
        weights: π_k, the weight of each class, shape (..., K); sums to one.
    """

    matrix: Tensor
    rank: Tensor
    weights: Tensor


def between_frames(means: Tensor, counts: Tensor, weighting: Weighting = "count") -> Frames:
    """The frames of class means that count by their samples, or all alike.

    Args:
        means: class means, shape (..., K, d), float64; any common shift is allowed.
        counts: samples per class, shape (..., K); a class without samples has no weight.
        weighting: π_k = n_k/n ("count", as the paper writes it) or equal over the classes
            that have samples ("class").

    Returns:
        The frames, one for each leading index.

    Raises:
        LawscopeError: no such weighting.
    """
    if weighting not in WEIGHTINGS:
        raise LawscopeError(f"weighting={weighting!r} is not known; choose 'count' or 'class'.")
    counts = counts.to(means)
    raw = counts if weighting == "count" else (counts > 0).to(means)
    return weighted_frames(means, raw / raw.sum(dim=-1, keepdim=True))


def weighted_frames(means: Tensor, weights: Tensor) -> Frames:
    """Thin SVD of the weighted, centred class means (003 eq. 1 without any d×d matrix).

    With B = √π_k (x̄_k − x̄), shape K×d, SSb = BᵀB. From B = U S Vᵀ follows SSb⁺ = V S⁻² Vᵀ, so
    D = Σ_k π_k/n_k Σ_i ‖S⁻¹Vᵀ(x_ki − x̄_k)‖². Singular values below max(K, d)·ε·(S_max + |x̄|)
    count as zero, as does the K-th. The d×d pseudo-inverse would square the condition number; this
    does not.

    Args:
        means: class means, shape (..., K, d), float64; any common shift is allowed.
        weights: π_k, shape (..., K); they sum to one.

    Returns:
        The frames, one for each leading index.
    """
    centre = weights[..., None, :] @ means
    between = weights.sqrt()[..., None] * (means - centre)
    # As left vectors of the transpose, d×K: two to four times as fast.
    left, singular, _ = torch.linalg.svd(between.mT, full_matrices=False)
    # The means carry the rounding of their own size, which centring them does not take away.
    size = singular[..., :1] + centre.norm(dim=-1)
    kept = singular > max(means.shape[-2:]) * torch.finfo(means.dtype).eps * size
    # K centred means span K − 1 directions at most: what is left of another is rounding.
    kept[..., means.shape[-2] - 1 :] = False
    inverse = torch.where(kept, singular.reciprocal(), 0.0)
    return Frames(inverse[..., None] * left.mT, kept.sum(dim=-1), weights)
