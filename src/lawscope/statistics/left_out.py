"""Least squares without one fold, from the factor of all data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lawscope.statistics.comoments import Centred, CoMoments, centred
from lawscope.statistics.directions import Directions
from lawscope.statistics.symmetric_sums import mirrored

TINY, HUGE = 1e-25, 1e35  # moments that float32 can hold, with digits to spare


class LeftOut:
    """Regressions on all folds but one.

    The moments of the others about their mean z̄ are Σ zzᵀ over all folds, less that of the fold,
    less n z̄z̄ᵀ. What is left gets a Cholesky factor in the directions of all data; where one of
    these all but vanishes with the fold, it gets directions of its own.

    Args:
        moments: of all folds.
        sums: Σ zzᵀ over all folds, shape (d, d).
        zz: the same about the mean of all.
        directions: to regress on, with L.
        choose: directions for other moments (d, d) of n rows.
        work: precision to solve in; that of the products which were summed is enough.
    """

    def __init__(
        self,
        moments: CoMoments,
        sums: Tensor,
        zz: Tensor,
        directions: Directions,
        choose: Callable[[Tensor, float], Directions],
        work: torch.dtype = torch.float64,
    ) -> None:
        if not TINY < float(sums.diagonal().max()) < HUGE:
            work = torch.float64
        self.moments, self.sums, self.zz = moments, sums.to(work), zz
        self.directions, self.choose, self.work = directions.to(work), choose, work

    def __call__(self, folds: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Leave out each of these folds.

        With M the moments of all data, M₋ without the fold and δ from the mean of the others to
        that of the fold, its own are M − M₋ − (n₋n_f/n) δδᵀ; as M₋β = Σ(z−z̄)(y−ȳ), what β makes
        of them takes products with M alone, for all folds at once.

        Returns:
            PR of the other folds, shape (F', q), and the squared error of predicting each fold from
            the others, shape (F', q).
        """
        moments = self.moments
        zy, yy = moments.zy.sum(dim=0), moments.yy.sum(dim=0)
        own = [centred(moments.zy[fold], moments.yy[fold]) for fold in folds]
        rest = [centred(zy - moments.zy[fold], yy - moments.yy[fold]) for fold in folds]
        betas = [self._coefficients(*pair).double() for pair in zip(folds, rest, strict=True)]
        seen = (self.zz @ torch.cat(betas, dim=1)).split(betas[0].shape[1], dim=1)
        shares, errors = [], []
        for fold, others, beta, all_seen in zip(own, rest, betas, seen, strict=True):
            explained = (others.zy * beta).sum(dim=0)
            apart = (fold.mean - others.mean) @ beta
            between = fold.n * others.n / (fold.n + others.n) * apart.square()
            within = (beta * all_seen).sum(dim=0) - explained - between
            missed = fold.target_mean - others.target_mean - apart
            error = fold.spread - 2 * (beta * fold.zy).sum(dim=0) + within
            errors.append(error + fold.n * missed.square())
            shares.append(share(others.spread - explained, others.spread))
        return torch.stack(shares), torch.stack(errors)

    def _coefficients(self, fold: int, rest: Centred) -> Tensor:
        """β (d, q) of the other folds; NaN where they are too few."""
        if rest.n <= self.directions.rank + 1:
            return torch.full_like(rest.zy, math.nan)
        directions = self.directions.refitted(self._without(fold, rest))
        if directions is None:
            directions = self.choose(mirrored(self._without(fold, rest)).double(), rest.n)
            directions = directions.to(self.work)
        return directions.from_half(directions.to_half(rest.zy.to(self.work)))

    def _without(self, fold: int, rest: Centred) -> Tensor:
        """Moments of the other folds about their mean, the upper triangle."""
        mean = rest.mean.to(self.work)
        return self.moments.zz.less(self.sums, fold).addr_(mean, mean, alpha=-rest.n)


def share(rest: Tensor, spread: Tensor) -> Tensor:
    """SSE/SST; undefined for a target that never changes."""
    return torch.where(spread > 0, rest.clamp(min=0) / spread, math.nan)
