"""The coordinates in which features are summed: centred, and whitened where they need it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lawscope.statistics.pivoted_cholesky import correlations, rank_and_condition
from lawscope.statistics.spanning_columns import spanning_columns

ILL_CONDITIONED = 300.0  # κ beyond which moments of raw features would lose κ²·ε ≈ 1e-11
SURELY_WELL = 150.0  # κ up to which a rough look in float32 decides
LOST_FLOAT64 = 1e-12  # singular values below this share of the largest are rounding
LOST_FLOAT32 = 1e-6
RESOLVED = 1e-13  # smallest share of the largest eigenvalue that float64 moments can tell from 0
RESOLVED_FAST = 1e-6  # by moments of float32 products
CONSTANT = 1e-14  # share of its value that rounding may move a feature that never changes
ROUGHLY = 0.1  # how well eigenvalues are known when coordinates are chosen


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

    def rounding(self, n: float) -> Tensor:
        """Scatter over n rows that rounding leaves of features that never change, shape (d,)."""
        return n * (CONSTANT * self.shift).square()

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


def whitening_basis(rows: Tensor, tolerance: float) -> FeatureBasis:
    """Coordinates in which the rows are uncorrelated and of unit size.

    Args:
        rows: shape (m, d), m > d, float64; a few times d of them say how the features lie.
        tolerance: directions below this share of the largest singular value are rounding, or
            appear in later rows only; they are left at the size of the largest.
    """
    shift = rows.mean(dim=0)
    centred = rows - shift
    scale = centred.norm(dim=0)
    scale = torch.where(scale > 0, scale, scale.new_ones(()))
    _, singular, right = torch.linalg.svd(centred / scale, full_matrices=False)
    there = singular > tolerance * singular[0]
    sizes = torch.where(there, singular, singular[0]) / len(rows) ** 0.5
    return FeatureBasis(
        shift,
        matrix=right.T / scale[:, None] / sizes,
        inverse=sizes[:, None] * right * scale,
    )


def ill_conditioned(
    zz: Tensor, least: Tensor, tolerance: float, of_sums: float, *, narrow: bool = False
) -> bool:
    """Whether moments as they are would lose digits: some real direction is small.

    Args:
        zz: second moment of the features about the mean, shape (d, d), float64.
        least: what rounding leaves of a feature that never varies, shape (d,).
        tolerance: directions below this share of the largest singular value are rounding.
        of_sums: scatter of the sums of every row, which LayerNorm takes away.
        narrow: whether products were made in float32. Their rounding hides what is below a
            thousandth of the largest, so that other dependences than those at sight are no proof.
    """
    share = max(tolerance**2, RESOLVED)
    found = spanning_columns(zz, least, share, None, of_sums, torch.float32)
    if found is None or found.condition > SURELY_WELL:
        found = spanning_columns(zz, least, share, ROUGHLY, of_sums)
    if found is not None:
        rank, condition = found.rank, found.condition
    elif narrow:
        return True
    else:
        rank, condition = rank_and_condition(correlations(zz, least), share)
    # What moments cannot tell from zero may be a direction of float64 features.
    return (tolerance**2 < RESOLVED and rank < len(zz)) or condition > ILL_CONDITIONED
