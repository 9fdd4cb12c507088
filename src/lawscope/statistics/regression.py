"""Least squares with intercept from moments: residual, rank, condition, leave-one-fold-out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lawscope.arrays import FloatArray
from lawscope.statistics.moments import RESOLVED, CoMoments, FeatureBasis, correlate
from lawscope.statistics.token_sums import TokenSums

# What is left of a direction that all but vanishes without a fold, and may be rounding.
FAINT = 1e-3
# Below this share of Σy² the spread of a target is rounding: it never changes.
CONSTANT_TARGET = 1e-13
# What moments of float32 products can tell from zero, as a share of the largest eigenvalue.
RESOLVED_FAST = 1e-6
TYPES_AT_A_TIME = 4096


@dataclass(frozen=True, eq=False)
class Regression:
    """What least squares of q targets on d features leaves unexplained."""

    n: int
    rank: int  # of the centred features
    # largest over smallest of the ``rank`` singular values of features of unit size
    condition: float
    # rounding error of ``pr`` within a factor of a hundred: ε·condition number of the moments
    lost: float
    pr: FloatArray  # SSE/SST per target, shape (q,)
    deleted: FloatArray  # the same without each fold that has rows, shape (F', q)
    cv: FloatArray  # SSE/SST with every fold predicted from the others, shape (q,)
    onehot: FloatArray  # residual for one-hot targets, shape (q,); NaN where it was not asked for
    onehot_error: FloatArray  # its standard error where codings estimate it, 0 where it is exact


def regress(
    moments: CoMoments,
    basis: FeatureBasis,
    tokens: Sequence[TokenSums | None],
    tolerance: float,
    work: torch.dtype,
) -> Regression:
    """Solve the regressions of all data, of all folds but one, and of one-hot targets.

    Singular values below ``tolerance`` of the largest count as rounding, as do eigenvalues that
    products in the dtype ``work`` cannot tell from zero.
    """
    resolved = RESOLVED if work == torch.float64 else RESOLVED_FAST
    find = partial(find_directions, basis=basis, tolerance=tolerance, resolved=resolved)
    total = _centre(*moments.total())
    directions = find(total.zz, total.n)
    explained = (directions.weights.T @ total.zy).square().sum(dim=0)
    deleted, cv = leave_one_fold_out(moments, directions, find)
    onehot = [_solve_onehot(table, total.mean, directions) for table in tokens]
    return Regression(
        n=round(total.n),
        rank=directions.rank,
        condition=directions.condition,
        lost=directions.squared * torch.finfo(work).eps,
        pr=_share(total.spread - explained, total.spread).cpu().numpy(),
        deleted=deleted.cpu().numpy(),
        cv=_share(cv, total.spread).cpu().numpy(),
        onehot=np.array([value for value, _ in onehot]),
        onehot_error=np.array([error for _, error in onehot]),
    )


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions of the coordinates that are regressed on: all but rounding."""

    condition: float  # of the features; see Regression
    squared: float  # condition number of the moments
    weights: Tensor  # W, shape (d, rank): with M the moments, WᵀMW is the identity

    @property
    def rank(self) -> int:
        return self.weights.shape[1]


def find_directions(
    zz: Tensor, n: float, *, basis: FeatureBasis, tolerance: float, resolved: float
) -> Directions:
    """Return the directions to regress on, by the moments M (d, d) of n rows about their mean.

    With D the sizes of the coordinates and M = DQΛQᵀD, W = D⁻¹QΛ^−½. In whitened coordinates the
    directions are ranked by the singular values of the features themselves: R = Λ^½QᵀD·inverse has
    RᵀR = XᵀX, without ever squaring their condition number.
    """
    whitened = basis.inverse is not None
    correlation, scale = correlate(zz, 0.0 if whitened else basis.rounding(n))
    values, vectors = torch.linalg.eigh(correlation)
    real = values > (RESOLVED if whitened else max(tolerance**2, resolved)) * values[-1]
    values, vectors = values[real], vectors[:, real]
    if not len(values):
        return Directions(math.nan, math.nan, zz.new_zeros(len(zz), 0))
    weights, singular = vectors * values.rsqrt(), values.sqrt()
    if basis.inverse is not None:
        size = zz.diagonal().clamp(min=0).sqrt()
        root = (vectors * values.sqrt()).T @ (size[:, None] * basis.inverse)
        column = root.norm(dim=0)
        unit = root / torch.where(column > 0, column, 1.0)
        left, singular, _ = torch.linalg.svd(unit, full_matrices=False)
        kept = singular > tolerance * singular[0]
        weights, singular = weights @ left[:, kept], singular[kept]
    condition, squared = float(singular.max() / singular.min()), float(values[-1] / values[0])
    return Directions(condition, squared, scale[:, None] * weights)


def leave_one_fold_out(
    moments: CoMoments, directions: Directions, find: Callable[[Tensor, float], Directions]
) -> tuple[Tensor, Tensor]:
    """Return PR of all folds but one (F', q), and the error of predicting each from the rest (q,).

    The moments of the others are the sum over all folds less one, in the directions of all data;
    where one of these all but vanishes with the fold, the others get directions of their own.
    """
    total = moments.total()
    present = torch.nonzero(moments.counts > 0)[:, 0].tolist()
    targets = len(total[2]) - 1
    if len(present) < 2:
        return total[2].new_zeros(0, targets), total[2].new_full((targets,), math.nan)
    shares, errors = [], []
    for fold in present:
        parts = moments.zz[fold], moments.yz[fold], moments.yy[fold]
        own = _centre(*parts)
        rest = _centre(*(whole - part for whole, part in zip(total, parts, strict=True)))
        beta = _coefficients(rest, directions, find)
        explained = (rest.zy * beta).sum(dim=0)
        shares.append(_share(rest.spread - explained, rest.spread))
        # Σ (y − ȳ₋ − (z − z̄₋)β)² over the fold, about its own means.
        within = own.spread - 2 * (beta * own.zy).sum(dim=0) + (beta * (own.zz @ beta)).sum(dim=0)
        missed = own.target_mean - rest.target_mean - (own.mean - rest.mean) @ beta
        errors.append(within + own.n * missed.square())
    return torch.stack(shares), torch.stack(errors).sum(dim=0)


def _coefficients(
    rest: _Centred, directions: Directions, find: Callable[[Tensor, float], Directions]
) -> Tensor:
    """Return β (d, q) of the remaining folds; NaN where they have too few rows."""
    if rest.n <= directions.rank + 1:
        return torch.full_like(rest.zy, math.nan)
    weights = directions.weights
    factor, info = torch.linalg.cholesky_ex(weights.T @ rest.zz @ weights)
    if int(info) or not bool((factor.diagonal() >= FAINT).all()):
        weights = find(rest.zz, rest.n).weights
        return weights @ (weights.T @ rest.zy)
    return weights @ torch.cholesky_solve(weights.T @ rest.zy, factor)


def _solve_onehot(
    sums: TokenSums | None, mean: Tensor, directions: Directions
) -> tuple[float, float]:
    """Return 1 − Σ_v s_vᵀM⁻¹s_v / Σ_v n_v(1−n_v/n) and its standard error."""
    if sums is None:
        return math.nan, math.nan
    rows, weights = sums.sums()
    parts = zip(rows.split(TYPES_AT_A_TIME), weights.split(TYPES_AT_A_TIME), strict=True)
    centred = (part - weight[:, None] * mean for part, weight in parts)
    explained = torch.cat([(c @ directions.weights).square().sum(dim=1) for c in centred])
    spread = sums.spread().to(mean)
    if sums.exact:
        whole = float(spread)
        return (1 - float(explained.sum()) / whole if whole > 0 else math.nan), 0.0
    rest = spread - explained
    ratio = float(rest.sum() / spread.sum())
    # Of a ratio of means: the spread of rest − ratio·spread over the codings.
    error = float((rest - ratio * spread).std() / math.sqrt(len(rest)) / spread.mean())
    return ratio, error


class _Centred(NamedTuple):
    """Moments of n rows about their means z̄ and ȳ."""

    n: float
    mean: Tensor
    target_mean: Tensor
    zz: Tensor
    zy: Tensor
    spread: Tensor


def _centre(zz: Tensor, yz: Tensor, yy: Tensor) -> _Centred:
    """Take the means off Σ zzᵀ (d, d), Σ [1|y]zᵀ (1 + q, d) and Σ [1|y][1|y]ᵀ."""
    n = float(yy[0, 0])
    mean, target_mean = yz[0] / n, yy[0, 1:] / n
    square = yy.diagonal()[1:]
    spread = square - n * target_mean.square()
    spread = torch.where(spread > CONSTANT_TARGET * square, spread, 0.0)
    zy = (yz[1:] - n * torch.outer(target_mean, mean)).T
    return _Centred(n, mean, target_mean, torch.addr(zz, mean, mean, alpha=-n), zy, spread)


def _share(rest: Tensor, spread: Tensor) -> Tensor:
    """Return SSE/SST; NaN for a target that never changes."""
    return torch.where(spread > 0, rest.clamp(min=0) / spread, math.nan)
