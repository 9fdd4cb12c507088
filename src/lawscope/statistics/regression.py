"""Least squares with intercept from moments: residual, rank, condition, folds left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lawscope.statistics.comoments import CoMoments, centred
from lawscope.statistics.directions import Directions, switched_off
from lawscope.statistics.feature_basis import RESOLVED, FeatureBasis
from lawscope.statistics.left_out import LeftOut, share
from lawscope.statistics.pivoted_cholesky import (
    correlations,
    pivoted_cholesky,
    rank_and_condition,
)
from lawscope.statistics.spanning_columns import spanning_columns
from lawscope.statistics.token_sums import TokenSums
from lawscope.statistics.triangular_rows import TriangularRows

FloatArray = NDArray[np.float64]
EIGENVALUES = 1e-3  # how well those at the ends are known: the condition number to three digits


@dataclass(frozen=True, eq=False)
class Regression:
    """What least squares of q targets on d features leaves unexplained.

    Attributes:
        n: number of rows.
        rank: of the centred features.
        condition: largest over smallest singular value of the centred features scaled to unit
            columns, among the ``rank`` that are more than rounding.
        lost: relative error that rounding makes in ``pr``, within a factor of a hundred: ε times
            the condition number of the moments, which is the square of ``condition`` unless
            coordinates were whitened.
        pr: SSE/SST per target, shape (q,).
        deleted: the same without each fold that has rows, shape (F', q).
        cv: cross-validated SSE/SST per target: every fold predicted from the others, shape (q,).
        onehot: residual for one-hot targets, shape (q,); NaN where it was not asked for.
        onehot_error: its standard error where codings estimate it, 0 where it is exact.
    """

    n: int
    rank: int
    condition: float
    lost: float
    pr: FloatArray
    deleted: FloatArray
    cv: FloatArray
    onehot: FloatArray
    onehot_error: FloatArray


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
        work: precision of the products that were summed, in which what needs no more is solved:
            folds left out and sums per token type.
    """
    zy, yy = moments.zy.sum(dim=0), moments.yy.sum(dim=0)
    total = centred(zy, yy)
    sums = moments.zz.total()
    zz = torch.addr(sums, total.mean, total.mean, alpha=-total.n)
    choose = partial(_directions, basis=basis, tolerance=tolerance, resolved=resolved)
    directions = choose(zz, total.n)
    spread, explained = total.spread, directions.to_half(total.zy).square().sum(dim=0)
    present = [f for f in range(moments.folds) if float(moments.counts[f]) > 0]
    deleted, error = spread.new_zeros(0, len(spread)), torch.full_like(spread, math.nan)
    if len(present) > 1:
        deleted, errors = LeftOut(moments, sums, zz, directions, choose, work)(present)
        error = errors.sum(dim=0)
    narrow = directions.to(work)
    onehots = [_onehot(table, total.mean, narrow) for table in tokens]
    return Regression(
        n=round(total.n),
        rank=directions.rank,
        condition=directions.condition,
        lost=directions.squared * torch.finfo(work).eps,
        pr=share(spread - explained, spread).cpu().numpy(),
        deleted=deleted.cpu().numpy(),
        cv=share(error, spread).cpu().numpy(),
        onehot=np.array([value for value, _ in onehots]),
        onehot_error=np.array([error for _, error in onehots]),
    )


def _onehot(sums: TokenSums | None, mean: Tensor, directions: Directions) -> tuple[float, float]:
    """1 − Σ_v s_vᵀM⁻¹s_v / Σ_v n_v(1−n_v/n) and its standard error."""
    if sums is None:
        return math.nan, math.nan
    upper = directions.lower.T
    parts, solve, means = [], TriangularRows(upper), mean.to(upper)
    for rows, weights in sums.chunks(upper.dtype):
        centred = directions.reduce(rows.addr_(weights, means, alpha=-1))
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
    zz: Tensor, n: float, *, basis: FeatureBasis, tolerance: float, resolved: float
) -> Directions:
    """What to regress on, by the moments (d, d) of n rows about their mean."""
    if basis.inverse is not None:
        return _whitened(zz, basis.inverse, tolerance)
    least_share, least = max(tolerance**2, resolved), basis.rounding(n)
    found = spanning_columns(zz, least, least_share, EIGENVALUES)
    if found is not None:
        off = found.off if len(found.off) else None
        return Directions(found.rank, found.condition, found.condition**2, found.lower, off=off)
    correlation = correlations(zz, least)
    rank, condition = rank_and_condition(correlation, least_share)
    off = _dependent(correlation, rank)
    lower, info = torch.linalg.cholesky_ex(switched_off(zz.clone(), off))
    if int(info):  # what pivoting has kept is too near what it has not
        return _whitened(zz, torch.eye(len(zz), dtype=zz.dtype, device=zz.device), tolerance)
    return Directions(rank, condition, condition**2, lower, off=off)


def _dependent(correlation: Tensor, rank: int) -> Tensor | None:
    """Columns that ``rank`` others span, by Cholesky with pivoting; None without any."""
    if rank == len(correlation):
        return None
    _, pivots = pivoted_cholesky(correlation)
    return pivots[rank:].to(correlation.device)


def _whitened(zz: Tensor, inverse: Tensor, tolerance: float) -> Directions:
    """Directions of whitened coordinates, ranked by the singular values of the features.

    With D the sizes of the coordinates, which later rows may have changed by any factor, and
    M = DQΛQᵀD, R = Λ^½QᵀD·inverse has RᵀR = XᵀX without ever squaring the condition number.
    """
    size = zz.diagonal().clamp(min=0).sqrt()
    per_size = torch.where(size > 0, 1 / size, 0.0)
    values, vectors = torch.linalg.eigh(per_size[:, None] * zz * per_size)
    values = torch.where(values > RESOLVED * values[-1], values, 0.0)
    root = values.sqrt()[:, None] * (vectors.T @ (size[:, None] * inverse))
    scale = root.norm(dim=0)
    root = root / torch.where(scale > 0, scale, scale.new_ones(()))
    left, singular, _ = torch.linalg.svd(root, full_matrices=False)
    rank = int((singular > tolerance * singular[0]).sum())
    half = torch.where(values > 0, values.rsqrt(), 0.0)
    weights = per_size[:, None] * ((vectors * half) @ left[:, :rank])
    condition = float(singular[0] / singular[rank - 1]) if rank else math.nan
    # Regular: these combinations of the coordinates have the identity as their moments.
    lower = torch.linalg.cholesky(weights.T @ zz @ weights)
    squared = float(values[-1] / values[values > 0].min()) if rank else math.nan
    return Directions(rank, condition, squared, lower, weights=weights)
