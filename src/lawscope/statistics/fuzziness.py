"""D = Tr(SSw SSb⁺) of plain features, as in He & Su 2023."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from lawscope.checks import checked
from lawscope.data.labels import as_classes, read_labels
from lawscope.errors import LawscopeError
from lawscope.precision import without_autocast
from lawscope.statistics.features import as_features

Weighting = Literal["count", "class"]
WEIGHTINGS = ("count", "class")

# Above this the class means differ by the rounding of float64 only, and D has no meaning.
LARGEST = 1e26
SMALLEST_SAFE = 1e-100


@checked
def fuzziness(features: Any, labels: Any, *, weighting: Weighting = "count") -> float:
    """Return the separation fuzziness D = Tr(SSw SSb⁺) (He & Su 2023, eq. 1), in float64.

    SSb = Σ π_k (x̄_k − x̄)(x̄_k − x̄)ᵀ and SSw = Σ π_k/n_k Σ_i (x_ki − x̄_k)(x_ki − x̄_k)ᵀ with
    π_k = n_k/n. With SSb⁺ = AᵀA, D = Σ_k π_k/n_k Σ_i ‖A(x_ki − x̄_k)‖²: only the K×d class means
    are decomposed, never a d×d matrix. D does not change under translation, rotation, one common
    scale, the order of the samples or the names of the classes; it does change under a general
    linear map.

    Args:
        features: tensor or array of shape (n, ...), flattened to (n, d).
        labels: one class per sample: whole numbers or text, shape (n,), or one-hot rows.
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
    check_weighting(weighting)
    x = as_features(features).to("cpu", torch.float64)
    y = as_classes(read_labels(labels)[0], len(x), "the fuzziness").cpu()
    _, position, counts = y.unique(return_inverse=True, return_counts=True)
    if len(counts) < 2 or len(x) <= len(counts):
        raise LawscopeError(
            f"{len(x)} samples in {len(counts)} class(es): the fuzziness needs two classes and a "
            "class with two samples."
        )
    with torch.no_grad(), without_autocast():
        x = _without_extremes(x)
        sums = x.new_zeros(len(counts), x.shape[1]).index_add_(0, position, x)
        if not bool(sums.isfinite().all()):
            raise LawscopeError("The features contain NaN or infinite values; clean them first.")
        means, weights = sums / counts[:, None], class_weights(counts, weighting)
        matrix, rank = whiten_between(means, weights)
        matrix = matrix[: int(rank)]
        deviations = matrix @ x.T - (matrix @ means.T)[:, position]
        value = float(deviations.square().sum(dim=0) @ (weights / counts)[position])
    return value if len(matrix) and value <= LARGEST else float("nan")


def _without_extremes(x: Tensor) -> Tensor:
    """Return features whose squares fit into float64, by a power of two that D does not see."""
    largest = float(x.abs().max())
    if largest == 0 or SMALLEST_SAFE < largest < 1 / SMALLEST_SAFE or not math.isfinite(largest):
        return x
    exponent = math.frexp(largest)[1]
    # In two steps, because the power itself may not fit.
    return x * 2.0 ** (-exponent // 2) * 2.0 ** -(exponent + -exponent // 2)


def check_weighting(weighting: Any) -> None:
    """Raise a :class:`LawscopeError` for an unknown weighting."""
    if weighting not in WEIGHTINGS:
        raise LawscopeError(f"weighting={weighting!r} is not known; choose 'count' or 'class'.")


def class_weights(counts: Tensor, weighting: Weighting) -> Tensor:
    """Return π_k, shape (..., K): n_k/n, or equal over the classes that have samples."""
    raw = (counts if weighting == "count" else counts > 0).to(torch.float64)
    return raw / raw.sum(dim=-1, keepdim=True)


def whiten_between(
    means: Tensor, weights: Tensor, resolution: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return A (..., K, d) with SSb⁺ = AᵀA, and the rank of SSb, beyond which rows of A are zero.

    By a thin SVD of the weighted, centred class means, of one or several sets (..., K, d).
    With B = √π_k (x̄_k − x̄), shape K×d, SSb = BᵀB (He & Su 2023, eq. 1). From B = U S Vᵀ follows
    SSb⁺ = V S⁻² Vᵀ, so A = S⁻¹Vᵀ. Singular values below ``resolution``·(S_max + |x̄|) count as
    zero, by default max(K, d)·ε, as does the K-th. A pseudo-inverse of the d×d matrix would square
    the condition number.
    """
    weights = weights.to(means)
    centre = weights[..., None, :] @ means
    between = weights.sqrt()[..., None] * (means - centre)
    # As left vectors of the transpose, d×K: two to four times as fast.
    left, singular, _ = torch.linalg.svd(between.mT, full_matrices=False)
    # The means carry the rounding of their own size, which centring them does not take away.
    size = singular[..., :1] + centre.norm(dim=-1)
    if resolution is None:
        resolution = max(means.shape[-2:]) * torch.finfo(means.dtype).eps
    kept = singular > resolution * size
    # K centred means span K − 1 directions at most: what is left of another is rounding.
    kept[..., means.shape[-2] - 1 :] = False
    inverse = torch.where(kept, singular.reciprocal(), 0.0)
    return inverse[..., None] * left.mT, kept.sum(dim=-1)
