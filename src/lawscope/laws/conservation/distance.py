"""How far units are from noise equilibrium, over one rescaling or several, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.laws.conservation.noise import Equilibrium


@dataclass(frozen=True)
class Distance:
    """How far units are from where gradient noise drives them.

    Attributes:
        value: root mean square of λ* over the units measured; NaN without any.
        interval: 95 % ends of it.
        units: all there are.
        measured: units with an interval of λ*: their gradients lie in enough samples.
        dead: units with a side that gets no gradient.
    """

    value: float
    interval: tuple[float, float]
    units: int
    measured: int
    dead: int

    @property
    def living(self) -> int:
        """Units that get gradients."""
        return self.units - self.dead


def distance_of(places: Sequence[Equilibrium]) -> Distance:
    """Return the distance over all units of some rescalings.

    It is wrong by at most the root mean square of the errors of λ*. Of normal errors, correlated
    in whatever way, that is in at most 5 % of cases more than 1.96 times the root mean square of
    their standard errors (Székely & Bakirov 2003).
    """
    scale = np.concatenate([one.scale for one in places])
    ends = np.concatenate([one.interval for one in places])
    known = np.isfinite(ends).all(axis=1)
    value = reach = float("nan")
    if known.any():
        value = _root_mean_square(scale[known])
        reach = _root_mean_square((ends[known, 1] - ends[known, 0]) / 2)
    interval = max(0.0, value - reach) if known.any() else value, value + reach
    return Distance(value, interval, len(scale), int(known.sum()), int(np.isnan(scale).sum()))


def _root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))
