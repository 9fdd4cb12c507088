"""Least squares without one fold, from the factor of all data."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lawscope.statistics.comoments import Centred, CoMoments, centred
from lawscope.statistics.conjugate_gradients import conjugate_gradients
from lawscope.statistics.directions import Directions


class LeftOut:
    """Regressions on all folds but one.

    Of the moments about the mean, M of all data is that of the others plus
    E = M_f + (n_f n_r/n) δδᵀ, with M_f of the fold and δ from the mean of the others to its own.
    With M = LLᵀ, the equations (M − E)β = b are (1 − L⁻¹EL⁻ᵀ)u = L⁻¹b for u = Lᵀβ: near the
    identity where there are several rows per feature, and solved in a dozen products; a direction
    that only the missing fold has is given no weight. Where that does not settle, M − E gets
    directions and a factor of its own.

    Args:
        moments: of all folds.
        zz: M, shape (d, d).
        zy: Σ z[1|y]ᵀ over all folds, shape (d, 1 + q).
        yy: Σ [1|y][1|y]ᵀ over all folds.
        directions: to regress on, with L.
        choose: directions for other moments (d, d) of n rows.
        accuracy: relative, of the equations.
    """

    def __init__(
        self,
        moments: CoMoments,
        zz: Tensor,
        zy: Tensor,
        yy: Tensor,
        directions: Directions,
        choose: Callable[[Tensor, float], Directions],
        accuracy: float,
    ) -> None:
        self.moments, self.zz, self.zy, self.yy = moments, zz, zy, yy
        self.directions, self.choose, self.accuracy = directions, choose, accuracy

    def __call__(self, fold: int) -> tuple[Tensor, Tensor]:
        """PR of the other folds, and the squared error of predicting this one from them."""
        moments = self.moments
        own = centred(moments.zy[fold], moments.yy[fold])
        rest = centred(self.zy - moments.zy[fold], self.yy - moments.yy[fold])
        nothing = torch.full_like(rest.spread, math.nan)
        if rest.n <= self.directions.rank + 1:
            return nothing, nothing
        own_zz = moments.zz(fold).addr_(own.mean, own.mean, alpha=-own.n)
        beta = self._coefficients(own, own_zz, rest)
        explained = (rest.zy * beta).sum(dim=0)
        apart = own.target_mean - rest.target_mean - (own.mean - rest.mean) @ beta
        error = own.spread + (beta * (own_zz @ beta - 2 * own.zy)).sum(dim=0)
        return share(rest.spread - explained, rest.spread), error + own.n * apart.square()

    def _coefficients(self, own: Centred, own_zz: Tensor, rest: Centred) -> Tensor:
        """β (d, q) of the other folds."""
        apart, directions = own.mean - rest.mean, self.directions
        weight = own.n * rest.n / (own.n + rest.n)

        def remaining(u: Tensor) -> Tensor:
            v = directions.from_half(u)
            missing = own_zz @ v + apart[:, None] * (weight * (apart @ v))
            return u - directions.to_half(missing)

        u = conjugate_gradients(remaining, directions.to_half(rest.zy), self.accuracy)
        if u is None:
            zz = (self.zz - own_zz).addr_(apart, apart, alpha=-weight)
            directions = self.choose(zz, rest.n)
            u = directions.to_half(rest.zy)
        return directions.from_half(u)


def share(rest: Tensor, spread: Tensor) -> Tensor:
    """SSE/SST; undefined for a target that never changes."""
    return torch.where(spread > 0, rest.clamp(min=0) / spread, math.nan)
