"""Least squares with intercept from moments: residual, rank, condition, folds left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lawscope.statistics.comoments import CoMoments
from lawscope.statistics.feature_basis import FeatureBasis
from lawscope.statistics.token_sums import TokenSums

FloatArray = NDArray[np.float64]
RESOLVED = 1e-13  # smallest share of the largest eigenvalue that float64 moments can tell from 0


@dataclass(frozen=True, eq=False)
class Regression:
    """What least squares of q targets on d features leaves unexplained.

    Attributes:
        n: number of rows.
        rank: of the centred features.
        condition: largest over smallest singular value of the centred features scaled to unit
            columns, among the ``rank`` that are more than rounding.
        pr: SSE/SST per target, shape (q,).
        deleted: the same without each fold that has rows, shape (F', q).
        cv: cross-validated SSE/SST per target: every fold predicted from the others, shape (q,).
        onehot: residual for one-hot targets, shape (q,); NaN where it was not asked for.
        onehot_error: its standard error where codings estimate it, 0 where it is exact.
    """

    n: int
    rank: int
    condition: float
    pr: FloatArray
    deleted: FloatArray
    cv: FloatArray
    onehot: FloatArray
    onehot_error: FloatArray


@dataclass(frozen=True, eq=False)
class _Centred:
    """Moments about the means: n, z̄, ȳ, Σ(z−z̄)(z−z̄)ᵀ, Σ(z−z̄)(y−ȳ)ᵀ, Σ(y−ȳ)²."""

    n: float
    mean: Tensor
    target_mean: Tensor
    zz: Tensor
    zy: Tensor
    spread: Tensor


def _centred(zz: Tensor, zy: Tensor, yy: Tensor) -> _Centred:
    n = float(yy[0, 0])
    mean, target_mean = zy[:, 0] / n, yy[0, 1:] / n
    return _Centred(
        n,
        mean,
        target_mean,
        zz - n * torch.outer(mean, mean),
        zy[:, 1:] - n * torch.outer(mean, target_mean),
        yy.diagonal()[1:] - n * target_mean.square(),
    )


@dataclass(frozen=True, eq=False)
class _Directions:
    """Well-conditioned combinations of the coordinates that span all but rounding."""

    rank: int
    condition: float
    columns: Tensor | None  # a choice of coordinates, shape (r,) …
    weights: Tensor  # … scaled by (r,), or combinations, shape (d, r)
    dim: int

    def reduce(self, rows: Tensor) -> Tensor:
        """Rows in coordinates (m, d) as rows in these directions (m, r)."""
        if self.columns is None:
            return rows @ self.weights
        return rows[:, self.columns] * self.weights

    def square(self, zz: Tensor) -> Tensor:
        """A second moment in these directions, shape (r, r)."""
        return self.reduce(self.reduce(zz).T)

    def expand(self, beta: Tensor) -> Tensor:
        """Coefficients (r, q) in these directions as coefficients (d, q) of the coordinates."""
        if self.columns is None:
            return self.weights @ beta
        return beta.new_zeros(self.dim, beta.shape[1]).index_copy_(
            0, self.columns, self.weights[:, None] * beta
        )


def regress(
    moments: CoMoments,
    basis: FeatureBasis,
    tokens: Sequence[TokenSums | None],
    tolerance: float,
) -> Regression:
    """Solve the regressions of all data, of all folds but one, and of one-hot targets.

    Args:
        moments: of coordinates in ``basis`` and of the targets.
        basis: of the coordinates.
        tokens: sums per token type for every target, or None.
        tolerance: singular values below this share of the largest count as rounding.
    """
    total = _centred(moments.zz(), moments.zy.sum(dim=0), moments.yy.sum(dim=0))
    directions = _directions(total, basis, tolerance)
    factor, explained, _ = _solve(total, directions)
    deleted, errors = [], []
    present = [f for f in range(moments.folds) if float(moments.counts[f]) > 0]
    for fold in present if len(present) > 1 else []:
        pr, error = _without(moments, fold, directions)
        deleted.append(pr)
        errors.append(error)
    spread = total.spread
    onehots = [_onehot(sums, total, directions, factor) for sums in tokens]
    cv = torch.stack(errors).sum(dim=0) / spread if errors else torch.full_like(spread, math.nan)
    return Regression(
        n=round(total.n),
        rank=directions.rank,
        condition=directions.condition,
        pr=_share(spread - explained, spread).cpu().numpy(),
        deleted=np.stack([pr.cpu().numpy() for pr in deleted])
        if deleted
        else np.zeros((0, len(spread))),
        cv=cv.cpu().numpy(),
        onehot=np.array([value for value, _ in onehots]),
        onehot_error=np.array([error for _, error in onehots]),
    )


def _share(rest: Tensor, spread: Tensor) -> Tensor:
    """SSE/SST; undefined for a target that never changes."""
    return torch.where(spread > 0, rest.clamp(min=0) / spread, math.nan)


def _solve(part: _Centred, directions: _Directions) -> tuple[Tensor, Tensor, Tensor]:
    """Cholesky factor, explained sum of squares (q,) and coefficients (d, q)."""
    factor, info = torch.linalg.cholesky_ex(directions.square(part.zz))
    if int(info):  # a direction that only the missing fold had
        nothing = torch.full_like(part.spread, math.nan)
        return factor, nothing, torch.full_like(part.zy, math.nan)
    half = torch.linalg.solve_triangular(factor, directions.reduce(part.zy.T).T, upper=False)
    beta = torch.linalg.solve_triangular(factor.T, half, upper=True)
    return factor, half.square().sum(dim=0), directions.expand(beta)


def _without(moments: CoMoments, fold: int, directions: _Directions) -> tuple[Tensor, Tensor]:
    """PR of the other folds, and the squared error of predicting this fold from them."""
    others = [f for f in range(moments.folds) if f != fold]
    part = _centred(moments.zz(*others), moments.zy[others].sum(dim=0), moments.yy[others].sum(0))
    if part.n <= directions.rank + 1:
        nothing = torch.full_like(part.spread, math.nan)
        return nothing, nothing
    _, explained, beta = _solve(part, directions)
    constant = part.target_mean - part.mean @ beta
    zz, zy, yy = moments.zz(fold), moments.zy[fold], moments.yy[fold]
    cross = (zy[:, 1:] * beta).sum(dim=0) + yy[0, 1:] * constant
    own = (
        (beta * (zz @ beta)).sum(dim=0)
        + 2 * constant * (zy[:, 0] @ beta)
        + yy[0, 0] * constant.square()
    )
    return _share(part.spread - explained, part.spread), yy.diagonal()[1:] - 2 * cross + own


def _onehot(
    sums: TokenSums | None, total: _Centred, directions: _Directions, factor: Tensor
) -> tuple[float, float]:
    """1 − Σ_v s_vᵀM⁻¹s_v / Σ_v n_v(1−n_v/n) and its standard error."""
    if sums is None:
        return math.nan, math.nan
    rows, weights = sums.sums()
    centred = directions.reduce(rows - torch.outer(weights, total.mean))
    half = torch.linalg.solve_triangular(factor, centred.T, upper=False)
    spread = sums.spread().to(half.device)
    if sums.exact:
        whole = float(spread)
        return (1 - float(half.square().sum()) / whole if whole > 0 else math.nan), 0.0
    rest = spread - half.square().sum(dim=0)
    ratio = float(rest.sum() / spread.sum())
    # Of a ratio of means: the spread of rest − ratio·spread over the codings.
    error = float((rest - ratio * spread).std() / math.sqrt(len(rest)) / spread.mean())
    return ratio, error


def _directions(total: _Centred, basis: FeatureBasis, tolerance: float) -> _Directions:
    if basis.inverse is not None:
        return _whitened(total, basis.inverse, tolerance)
    scale = total.zz.diagonal().clamp(min=0).sqrt()
    alive = torch.nonzero(scale > 0)[:, 0]
    if not len(alive):
        return _Directions(0, math.nan, alive, scale[alive], len(scale))
    inverse = 1 / scale[alive]
    correlation = total.zz[alive][:, alive] * inverse * inverse[:, None]
    values = torch.linalg.eigvalsh(correlation)
    kept = values[values > max(tolerance**2, RESOLVED) * values[-1]]
    rank, condition = len(kept), float((kept[-1] / kept[0]).sqrt())
    chosen = torch.arange(len(alive)) if rank == len(alive) else _independent(correlation, rank)
    chosen = chosen.to(alive.device)
    return _Directions(rank, condition, alive[chosen], inverse[chosen], len(scale))


def _independent(correlation: Tensor, rank: int) -> Tensor:
    """Columns that span the others, by Cholesky with pivoting."""
    from scipy.linalg.lapack import dpstrf

    _, pivots, _, _ = dpstrf(correlation.cpu().numpy(), tol=0.0)
    return torch.as_tensor(pivots[:rank] - 1, dtype=torch.int64)


def _whitened(total: _Centred, inverse: Tensor, tolerance: float) -> _Directions:
    """Directions of whitened coordinates, ranked by the singular values of the features.

    With M = QΛQᵀ, R = Λ^½Qᵀ·inverse has RᵀR = XᵀX without ever squaring the condition number.
    """
    values, vectors = torch.linalg.eigh(total.zz)
    values = values.clamp(min=0)
    root = values.sqrt()[:, None] * (vectors.T @ inverse)
    scale = root.norm(dim=0)
    root = root / torch.where(scale > 0, scale, scale.new_ones(()))
    left, singular, _ = torch.linalg.svd(root, full_matrices=False)
    rank = int((singular > tolerance * singular[0]).sum())
    half = torch.where(values > 1e-15 * values[-1], values.rsqrt(), 0.0)
    weights = (vectors * half) @ left[:, :rank]
    return _Directions(rank, float(singular[0] / singular[rank - 1]), None, weights, len(scale))
