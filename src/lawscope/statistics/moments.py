"""Streaming second moments of features and targets, and the coordinates they are summed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

# Condition number beyond which moments of raw features would lose κ²·ε ≈ 1e-11.
ILL_CONDITIONED = 300.0
# Singular values of features below this share of the largest are rounding.
ROUNDING_FLOAT64 = 1e-12
ROUNDING_FLOAT32 = 1e-6
# The smallest share of the largest eigenvalue that moments in float64 can tell from zero.
RESOLVED = 1e-13
# The share of its value by which rounding may move a feature that never changes.
CONSTANT = 1e-14


def find_rank_tolerance(dtype: torch.dtype) -> float:
    """Return the share of the largest singular value below which a direction is rounding.

    Features of half precision are normalised and centred in wider arithmetic, and the noise of
    their rounding has full rank, so that they are held to the rule of float32.
    """
    return ROUNDING_FLOAT64 if dtype == torch.float64 else ROUNDING_FLOAT32


def correlate(zz: Tensor, least: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
    """Return a second moment (d, d) scaled to unit diagonal, and the scale of each column (d,).

    ``least`` is what rounding leaves of a feature that never varies; such a feature correlates
    with nothing, and its scale is 0.
    """
    spread = zz.diagonal()
    scale = torch.where(spread > least, spread.rsqrt(), 0.0)
    return scale[:, None] * zz * scale, scale


@dataclass(frozen=True, eq=False)
class FeatureBasis:
    """Features x as coordinates z = (x − shift)·matrix.

    Moments of z instead of x cost one more matrix product, and their accuracy is κ·ε like that of
    a QR decomposition instead of the κ²·ε of normal equations. Sums of moments stay sums, which
    triangular factors would not: folds are left out by subtraction.
    """

    shift: Tensor  # near the mean, shape (d,), float64
    matrix: Tensor | None = None  # shape (d, d); None where features are well conditioned
    inverse: Tensor | None = None

    def rounding(self, n: float) -> Tensor:
        """Return what rounding leaves of the scatter of features that never change, shape (d,)."""
        return n * (CONSTANT * self.shift).square()

    def state(self) -> dict[str, Tensor]:
        parts = {"shift": self.shift, "matrix": self.matrix, "inverse": self.inverse}
        return {name: tensor for name, tensor in parts.items() if tensor is not None}

    def onto(self, other: FeatureBasis) -> tuple[Tensor | None, Tensor]:
        """Return A (None for the identity) and c of the map z ↦ z·A + c to another basis."""
        moved = self.shift - other.shift.to(self.shift)
        matrix = None if other.matrix is None else other.matrix.to(moved)
        offset = moved if matrix is None else moved @ matrix
        if self.inverse is None:
            return matrix, offset
        return (self.inverse if matrix is None else self.inverse @ matrix), offset


def choose_basis(rows: Tensor, tolerance: float) -> FeatureBasis:
    """Return coordinates in which moments keep their digits, by the first rows (m, d) of the data.

    They are the features about their mean; whitened where some direction is small but real.
    """
    shift = rows.mean(dim=0)
    centred = rows.sub_(shift)
    basis = FeatureBasis(shift)
    correlation, _ = correlate(centred.T @ centred, basis.rounding(len(rows)))
    if not bool(correlation.isfinite().all()):
        # There is nothing to choose with NaN among the features: compute() raises.
        return basis
    values = torch.linalg.eigvalsh(correlation)
    kept = values[values > max(tolerance**2, RESOLVED) * values[-1]]
    # What moments cannot tell from zero may be a direction of float64 features.
    hidden = tolerance**2 < RESOLVED and len(kept) < len(values)
    well = not len(kept) or float(kept[-1] / kept[0]) <= ILL_CONDITIONED**2
    return _whiten(centred, shift, tolerance) if hidden or not well else basis


def _whiten(centred: Tensor, shift: Tensor, tolerance: float) -> FeatureBasis:
    """Return coordinates in which centred rows (m, d) are uncorrelated and of unit size."""
    scale = centred.norm(dim=0)
    scale = torch.where(scale > 0, scale, 1.0)
    _, singular, right = torch.linalg.svd(centred / scale, full_matrices=False)
    # Others are rounding, or appear in later rows only: left at the size of the largest.
    real = singular > tolerance * singular[0]
    sizes = torch.where(real, singular, singular[0]) / len(centred) ** 0.5
    matrix = right.T / scale[:, None] / sizes
    return FeatureBasis(shift, matrix, inverse=sizes[:, None] * right * scale)


class CoMoments:
    """Σ zzᵀ, Σ [1|y]zᵀ and Σ [1|y][1|y]ᵀ of every fold, in float64.

    Coordinates z are features about a shift (see :class:`FeatureBasis`) and targets y are about a
    shift of their own, so that the large means of activations and token ids do not eat digits.
    "All data" is the sum over folds, "without fold f" that sum less one fold.
    """

    def __init__(
        self, dim: int, targets: int, folds: int, device: torch.device | str = "cpu"
    ) -> None:
        zeros = partial(torch.zeros, dtype=torch.float64, device=device)
        self.zz, self.yz = zeros(folds, dim, dim), zeros(folds, 1 + targets, dim)
        self.yy = zeros(folds, 1 + targets, 1 + targets)

    def total(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the three sums over all folds."""
        return self.zz.sum(dim=0), self.yz.sum(dim=0), self.yy.sum(dim=0)

    @property
    def counts(self) -> Tensor:
        """Rows seen per fold, shape (F,)."""
        return self.yy[:, 0, 0]

    @property
    def finite(self) -> bool:
        """Whether all rows were finite numbers, and their squares: the diagonal shows it."""
        parts = (self.yz, self.yy, self.zz.diagonal(dim1=1, dim2=2))
        return all(bool(part.isfinite().all()) for part in parts)

    def update(self, z: Tensor, y: Tensor, fold: int) -> None:
        """Add coordinates z (n, d), float32 if "fast", and [1 | targets] (n, 1 + q) of one fold."""
        if z.dtype == torch.float64:
            self.zz[fold].addmm_(z.T, z)
        else:
            self.zz[fold] += z.T @ z
        self.yz[fold] += y.to(z.dtype).T @ z
        self.yy[fold].addmm_(y.T, y)

    def merge(self, other: CoMoments) -> None:
        for sums, theirs in zip(self.state().values(), other.state().values(), strict=True):
            sums += theirs.to(sums)

    def move(
        self, before: FeatureBasis, after: FeatureBasis, y_before: Tensor, y_after: Tensor
    ) -> CoMoments:
        """Return the same sums in other coordinates: z' = z·A + c and y' = y + e."""
        matrix, c = before.onto(after)
        shape = self.yz.shape
        moved = CoMoments(shape[2], shape[1] - 1, shape[0], self.yz.device)
        change = torch.eye(shape[1], dtype=torch.float64, device=self.yz.device)
        change[0, 1:] = (y_before - y_after.to(y_before)).to(change)
        for fold, (zz, yz, yy) in enumerate(zip(self.zz, self.yz, self.yy, strict=True)):
            if matrix is not None:
                zz, yz = matrix.T @ zz @ matrix, yz @ matrix
            first = torch.outer(yz[0], c)
            moved.zz[fold] = zz + first + first.T + yy[0, 0] * torch.outer(c, c)
            moved.yz[fold] = change.T @ (yz + torch.outer(yy[:, 0], c))
            moved.yy[fold] = change.T @ yy @ change
        return moved

    def state(self) -> dict[str, Tensor]:
        return {"zz": self.zz, "yz": self.yz, "yy": self.yy}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name, sums in self.state().items():
            sums.copy_(state[name])
