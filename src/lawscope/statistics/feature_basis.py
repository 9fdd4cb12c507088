"""The coordinates in which features are summed: centred, and whitened where they need it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ILL_CONDITIONED = 300.0  # κ beyond which moments of raw features would lose κ²·ε ≈ 1e-11
LOST_FLOAT64 = 1e-12  # singular values below this share of the largest are rounding
LOST_FLOAT32 = 1e-6


def rank_tolerance(dtype: torch.dtype) -> float:
    """Share of the largest singular value below which a direction of the features is rounding.

    Features of half precision are normalised and centred in wider arithmetic, and the noise of
    their rounding has full rank, so that they are held to the rule of float32.
    """
    return LOST_FLOAT64 if dtype == torch.float64 else LOST_FLOAT32


@dataclass(frozen=True, eq=False)
class FeatureBasis:
    """Features x as coordinates z = (x − shift)·matrix.

    Moments of z instead of x cost one more matrix product, and their accuracy is κ·ε like that of
    a QR decomposition instead of the κ²·ε of normal equations. Sums of moments stay sums, which
    triangular factors would not: folds are left out by subtraction.

    Attributes:
        shift: near the mean, shape (d,), float64.
        matrix: shape (d, d), float64, or None where features are well conditioned as they are.
        inverse: of ``matrix``.
    """

    shift: Tensor
    matrix: Tensor | None = None
    inverse: Tensor | None = None

    @property
    def state(self) -> dict[str, Tensor]:
        """The tensors that make it up."""
        parts = {"shift": self.shift, "matrix": self.matrix, "inverse": self.inverse}
        return {name: tensor for name, tensor in parts.items() if tensor is not None}

    def onto(self, other: FeatureBasis) -> tuple[Tensor | None, Tensor]:
        """The affine map z ↦ z·A + c from these coordinates to those of ``other``.

        Returns:
            A, or None for the identity, and c.
        """
        moved = self.shift - other.shift.to(self.shift)
        matrix = None if other.matrix is None else other.matrix.to(moved)
        offset = moved if matrix is None else moved @ matrix
        if self.inverse is None:
            return matrix, offset
        return (self.inverse if matrix is None else self.inverse @ matrix), offset


def choose_basis(rows: Tensor, tolerance: float) -> FeatureBasis:
    """Look at the first features of a stream and choose coordinates for all of them.

    Args:
        rows: shape (m, d), m > d, float64; a few times d of them say how the features lie.
        tolerance: directions below this share of the largest singular value are rounding.

    Returns:
        Centred coordinates; whitened ones where the condition number of the centred features,
        scaled to unit columns, exceeds :data:`ILL_CONDITIONED`.
    """
    shift = rows.mean(dim=0)
    if not bool(shift.isfinite().all()):
        return FeatureBasis(torch.zeros_like(shift))
    centred = rows - shift
    scale = centred.norm(dim=0)
    scale = torch.where(scale > 0, scale, scale.new_ones(()))
    centred /= scale
    if not _ill_conditioned(centred.T @ centred, tolerance):
        return FeatureBasis(shift)
    _, singular, right = torch.linalg.svd(centred, full_matrices=False)
    sizes = singular.clamp(min=tolerance * float(singular[0]))
    sizes = sizes / len(rows) ** 0.5
    return FeatureBasis(
        shift,
        matrix=right.T / scale[:, None] / sizes,
        inverse=sizes[:, None] * right * scale,
    )


def _ill_conditioned(correlation: Tensor, tolerance: float) -> bool:
    """Whether some direction that is more than rounding is small."""
    values = torch.linalg.eigvalsh(correlation)
    resolved = max(tolerance**2, 1e-13) * values[-1]  # smaller eigenvalues are rounding of ours
    # What the moments cannot tell from zero, they cannot tell from a small direction either.
    unresolved = tolerance**2 < 1e-13 and bool((values < resolved).any())
    smallest = values[values >= resolved][0]
    return unresolved or bool(values[-1] > ILL_CONDITIONED**2 * smallest)
