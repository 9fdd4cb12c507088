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
from lawscope.statistics.directions import Directions
from lawscope.statistics.feature_basis import RESOLVED, FeatureBasis
from lawscope.statistics.pivoted_cholesky import (
    correlations,
    pivoted_cholesky,
    rank_and_condition,
)
from lawscope.statistics.spanning_columns import spanning_columns
from lawscope.statistics.token_sums import TokenSums
from lawscope.statistics.triangular_rows import TriangularRows

FloatArray = NDArray[np.float64]
EIGENVALUES = 1e-5  # how well those at the ends are known: the condition number to five digits


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
    """Take the means off; ``zz`` is overwritten."""
    n = float(yy[0, 0])
    mean, target_mean = zy[:, 0] / n, yy[0, 1:] / n
    return _Centred(
        n,
        mean,
        target_mean,
        zz.addr_(mean, mean, alpha=-n),
        zy[:, 1:] - n * torch.outer(mean, target_mean),
        yy.diagonal()[1:] - n * target_mean.square(),
    )


def regress(
    moments: CoMoments,
    basis: FeatureBasis,
    tokens: Sequence[TokenSums | None],
    tolerance: float,
    resolved: float = RESOLVED,
    work: torch.dtype = torch.float64,
) -> Regression:
    """Solve the regressions of all data, of all folds but one, and of one-hot targets.

    Args:
        moments: of coordinates in ``basis`` and of the targets.
        basis: of the coordinates.
        tokens: sums per token type for every target, or None.
        tolerance: singular values below this share of the largest count as rounding.
        resolved: eigenvalues below this share of the largest are rounding of the moments.
        work: precision in which sums per token type are taken through the factor.
    """
    zz, zy, yy = moments.zz(), moments.zy.sum(dim=0), moments.yy.sum(dim=0)
    total = _centred(zz.clone(), zy, yy)
    directions = _directions(total, basis, tolerance, resolved)
    factor, explained, _ = _solve(total, directions, directions.lower)
    deleted, errors = [], []
    present = [f for f in range(moments.folds) if float(moments.counts[f]) > 0]
    for fold in present if len(present) > 1 else []:
        pr, error = _without(zz, zy, yy, moments, fold, directions)
        deleted.append(pr)
        errors.append(error)
    spread = total.spread
    upper = factor.T.to(work)
    onehots = [_onehot(sums, total.mean, directions, upper) for sums in tokens]
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


def _solve(
    part: _Centred, directions: Directions, factor: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Cholesky factor, explained sum of squares (q,) and coefficients (d, q)."""
    if factor is None:
        factor, info = torch.linalg.cholesky_ex(directions.square(part.zz))
        if int(info):  # a direction that only the missing fold had
            nothing = torch.full_like(part.spread, math.nan)
            return factor, nothing, torch.full_like(part.zy, math.nan)
    targets = directions.reduce(part.zy.T.clone()).T
    half = torch.linalg.solve_triangular(factor, targets, upper=False)
    beta = torch.linalg.solve_triangular(factor.T, half, upper=True)
    return factor, half.square().sum(dim=0), directions.expand(beta)


def _without(
    zz: Tensor, zy: Tensor, yy: Tensor, moments: CoMoments, fold: int, directions: Directions
) -> tuple[Tensor, Tensor]:
    """PR of the other folds, and the squared error of predicting this fold from them."""
    own_zy, own_yy = moments.zy[fold], moments.yy[fold]
    part = _centred(moments.without(zz, fold), zy - own_zy, yy - own_yy)
    if part.n <= directions.rank + 1:
        nothing = torch.full_like(part.spread, math.nan)
        return nothing, nothing
    _, explained, beta = _solve(part, directions)
    constant = part.target_mean - part.mean @ beta
    cross = (own_zy[:, 1:] * beta).sum(dim=0) + own_yy[0, 1:] * constant
    square = (
        (beta * moments.times(fold, beta)).sum(dim=0)
        + 2 * constant * (own_zy[:, 0] @ beta)
        + own_yy[0, 0] * constant.square()
    )
    error = own_yy.diagonal()[1:] - 2 * cross + square
    return _share(part.spread - explained, part.spread), error


def _onehot(
    sums: TokenSums | None, mean: Tensor, directions: Directions, upper: Tensor
) -> tuple[float, float]:
    """1 − Σ_v s_vᵀM⁻¹s_v / Σ_v n_v(1−n_v/n) and its standard error."""
    if sums is None:
        return math.nan, math.nan
    parts, solve = [], TriangularRows(upper)
    for rows, weights in sums.chunks():
        centred = directions.reduce(rows.addr_(weights, mean, alpha=-1)).to(upper)
        parts.append(torch.linalg.vector_norm(solve(centred), dim=1).to(mean).square())
    explained, spread = torch.cat(parts), sums.spread().to(mean)
    if sums.exact:
        whole = float(spread)
        return (1 - float(explained.sum()) / whole if whole > 0 else math.nan), 0.0
    rest = spread - explained
    ratio = float(rest.sum() / spread.sum())
    # Of a ratio of means: the spread of rest − ratio·spread over the codings.
    error = float((rest - ratio * spread).std() / math.sqrt(len(rest)) / spread.mean())
    return ratio, error


def _directions(
    total: _Centred, basis: FeatureBasis, tolerance: float, resolved: float
) -> Directions:
    if basis.inverse is not None:
        return _whitened(total, basis.inverse, tolerance)
    share, least = max(tolerance**2, resolved), basis.rounding(total.n)
    found = spanning_columns(total.zz, least, share, EIGENVALUES)
    if found is not None:
        off = found.off if len(found.off) else None
        return Directions(found.rank, found.condition, off=off, lower=found.lower)
    correlation = correlations(total.zz, least)
    rank, condition = rank_and_condition(correlation, share)
    return Directions(rank, condition, off=_dependent(correlation, rank))


def _dependent(correlation: Tensor, rank: int) -> Tensor | None:
    """Columns that ``rank`` others span, by Cholesky with pivoting; None without any."""
    if rank == len(correlation):
        return None
    _, pivots = pivoted_cholesky(correlation)
    return pivots[rank:].to(correlation.device)


def _whitened(total: _Centred, inverse: Tensor, tolerance: float) -> Directions:
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
    condition = float(singular[0] / singular[rank - 1]) if rank else math.nan
    return Directions(rank, condition, weights=weights)
