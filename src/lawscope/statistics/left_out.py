"""Least squares without one fold, from the factor of all data."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lawscope.statistics.comoments import Centred, CoMoments, centred
from lawscope.statistics.directions import Directions

TINY, HUGE = 1e-25, 1e35  # moments that float32 can hold, with digits to spare


class LeftOut:
    """Regressions on all folds but one.

    Of the moments about the mean, M of all data is that of the others plus
    M_f + (n_f n_r/n) δδᵀ, with M_f of the fold and δ from the mean of the others to its own. What
    is left gets a Cholesky factor in the directions of all data; where one of these all but
    vanishes with the fold, it gets directions of its own.

    Args:
        moments: of all folds.
        zz: M, shape (d, d).
        zy: Σ z[1|y]ᵀ over all folds, shape (d, 1 + q).
        yy: Σ [1|y][1|y]ᵀ over all folds.
        directions: to regress on, with L.
        choose: directions for other moments (d, d) of n rows.
        work: precision to solve in; that of the products which were summed is enough.
    """

    def __init__(
        self,
        moments: CoMoments,
        zz: Tensor,
        zy: Tensor,
        yy: Tensor,
        directions: Directions,
        choose: Callable[[Tensor, float], Directions],
        work: torch.dtype = torch.float64,
    ) -> None:
        if not TINY < float(zz.diagonal().max()) < HUGE:
            work = torch.float64
        self.moments, self.zz, self.zy, self.yy = moments, zz.to(work), zy, yy
        self.directions, self.choose, self.work = directions.to(work), choose, work

    def __call__(self, fold: int) -> tuple[Tensor, Tensor]:
        """PR of the other folds, and the squared error of predicting this one from them."""
        moments = self.moments
        own = centred(moments.zy[fold], moments.yy[fold])
        rest = centred(self.zy - moments.zy[fold], self.yy - moments.yy[fold])
        nothing = torch.full_like(rest.spread, math.nan)
        if rest.n <= self.directions.rank + 1:
            return nothing, nothing
        mean = own.mean.to(self.work)
        own_zz = moments.zz(fold, dtype=self.work).addr_(mean, mean, alpha=-own.n)
        solved = self._coefficients(own, own_zz, rest)
        beta, seen = solved.double(), (own_zz @ solved).double()
        explained = (rest.zy * beta).sum(dim=0)
        apart = own.target_mean - rest.target_mean - (own.mean - rest.mean) @ beta
        error = own.spread + (beta * (seen - 2 * own.zy)).sum(dim=0)
        return share(rest.spread - explained, rest.spread), error + own.n * apart.square()

    def _coefficients(self, own: Centred, own_zz: Tensor, rest: Centred) -> Tensor:
        """β (d, q) of the other folds."""
        apart, weight = (own.mean - rest.mean).to(self.work), own.n * rest.n / (own.n + rest.n)

        def of_the_others() -> Tensor:
            return (self.zz - own_zz).addr_(apart, apart, alpha=-weight)

        directions = self.directions.refitted(of_the_others())
        if directions is None:
            directions = self.choose(of_the_others().double(), rest.n).to(self.work)
        return directions.from_half(directions.to_half(rest.zy.to(self.work)))


def share(rest: Tensor, spread: Tensor) -> Tensor:
    """SSE/SST; undefined for a target that never changes."""
    return torch.where(spread > 0, rest.clamp(min=0) / spread, math.nan)
