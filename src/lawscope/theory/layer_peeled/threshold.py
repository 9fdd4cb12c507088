"""Where the smallest group collapses, and where its classifiers vanish."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from lawscope.theory.layer_peeled import two_groups
from lawscope.theory.layer_peeled.groups import group
from lawscope.theory.layer_peeled.program import slope_norm
from lawscope.theory.layer_peeled.solve import solve

if TYPE_CHECKING:
    from lawscope.theory.layer_peeled.peeled import Peeled

FloatArray = NDArray[np.float64]
NEAREST, FARTHEST = 1e-6, math.log(1e15)  # of the logarithms of ratios that are looked at
SECANTS, SHARP = 12, 1e-11
RESOLVED, ROUNDING = 1e3, 1e-12  # a price must be worth this many gaps; gap taken at least


def collapse_threshold(
    counts: ArrayLike,
    weight_energy: float = 1.0,
    feature_energy: float = 5.0,
    loss: str = "cross_entropy",
) -> float | None:
    """R₀: the ratio of the largest to the smallest count at which the smallest classes collapse.

    Only the smallest count is varied. For two groups R₀ does not depend on the counts given, only
    on how many classes each has.

    Args:
        counts: samples per class.
        weight_energy: E_W.
        feature_energy: E_H.
        loss: as for ``peel``.

    Returns:
        R₀, or None where no ratio makes them collapse, up to 10¹⁵ or to where the share of the
        smallest class drowns in the rounding of the loss.

    Example:
        >>> round(collapse_threshold([100] * 5 + [1] * 5), 4)
        12.1924
    """
    from lawscope.theory.layer_peeled.peel import peel

    return peel(counts, weight_energy, feature_energy, loss).threshold


def collapse_ratio(peeled: Peeled) -> float | None:
    """Root of log(α_s(1 − ε)/μ) over the ratio, α_s the share of one of the smallest classes.

    μ is taken from the program with a_s pinned to zero. It is the same beyond the threshold and has
    no kink there, so the root is as sharp as the solver.
    """
    if peeled.loss_name == "mse" or peeled.counts.min() == peeled.counts.max():
        # Squared loss: classifiers are orthogonal until they vanish. One group: no minority.
        return None
    pair = _majority_and_minority(peeled)
    if pair is not None:
        return two_groups.collapse_ratio(*pair, peeled._program.tau)

    def excess(log_ratio: float) -> float:
        grouping = group(_counts_at(peeled, log_ratio), peeled._loss)
        smallest = int(grouping.member[int(np.argmin(peeled.counts))])
        program = dataclasses.replace(
            peeled._program,
            sizes=grouping.sizes,
            alpha=grouping.alpha,
            offsets=grouping.offsets,
            pinned=(smallest,),
        )
        solved = solve(program)
        weight = float(program.alpha[smallest]) * (1 - program.smoothing)
        if weight * program.tau < RESOLVED * max(solved.gap, ROUNDING * solved.point.loss):
            return math.inf  # the price is known no better than this: no evidence of collapse
        return math.log(weight / slope_norm(program, solved.point))

    # The price hardly depends on a few small classes: where α_s of today would equal it.
    smallest = int(peeled._grouping.member[int(np.argmin(peeled.counts))])
    weight = float(peeled._program.alpha[smallest]) * (1 - peeled._program.smoothing)
    if peeled.price > 0:
        found = _root_near(excess, math.log(peeled.ratio * weight / peeled.price))
        if found is not None:
            return found
    return _first_root(excess)


def vanishing_ratio(peeled: Peeled) -> float | None:
    """The smallest ratio at which the classifiers of the smallest group are zero."""
    if peeled.counts.min() == peeled.counts.max():
        return None
    pair = _majority_and_minority(peeled)
    if pair is not None:
        return two_groups.vanishing_ratio(*pair, peeled._program.tau)

    def alive(log_ratio: float) -> float:
        found = _at_ratio(peeled, log_ratio)
        smallest = found._grouping.member[int(np.argmin(peeled.counts))]
        return -1.0 if found.groups[smallest].phase == "vanished" else 1.0

    return _first_root(alive, sign_only=True)


def _majority_and_minority(peeled: Peeled) -> tuple[float, float] | None:
    """K_A and K_B of a two-group problem under plain cross-entropy."""
    if peeled.loss_name != "cross_entropy":
        return None
    smallest = int((peeled.counts == peeled.counts.min()).sum())
    largest = int((peeled.counts == peeled.counts.max()).sum())
    whole = smallest + largest == len(peeled.counts)
    return (float(largest), float(smallest)) if whole and smallest < len(peeled.counts) else None


def _counts_at(peeled: Peeled, log_ratio: float) -> FloatArray:
    counts = peeled.counts / peeled.counts.max()
    return np.where(counts == counts.min(), math.exp(-log_ratio), counts)


def _at_ratio(peeled: Peeled, log_ratio: float) -> Peeled:
    from lawscope.theory.layer_peeled.peel import solve_counts

    energies = peeled.weight_energy, peeled.feature_energy
    return solve_counts(_counts_at(peeled, log_ratio), energies, peeled._loss, {})


def _root_near(function: Callable[[float], float], guess: float) -> float | None:
    """A falling root by secants, as e^root; None where they do not lead to one.

    The first slope is taken as −1, which is that of log α_s.
    """
    if not NEAREST <= guess <= FARTHEST:
        return None
    here, value, slope = guess, function(guess), -1.0
    for _ in range(SECANTS):
        there = here - value / slope
        if not NEAREST <= there <= FARTHEST:
            return None
        if abs(there - here) < SHARP:
            return math.exp(there)
        last, here, before = here, there, value
        value = function(here)
        slope = (value - before) / (here - last)
        if not slope < 0:
            return None
    return None


def _first_root(function: Callable[[float], float], *, sign_only: bool = False) -> float | None:
    """The first sign change, as e^root, on a grid of powers of ten, refined; None without one."""
    low, first = NEAREST, function(NEAREST)
    if first <= 0:
        return 1.0
    for high in np.log(10.0 ** np.array([1, 2, 3, 4, 6, 9, 12, 15])):
        last = function(float(high))
        if last <= 0:
            break
        low = float(high)
    else:
        return None
    if not sign_only:
        return math.exp(brentq(function, low, float(high), xtol=1e-12, rtol=1e-12))
    end = float(high)
    while end - low > 1e-6:
        middle = (low + end) / 2
        low, end = (low, middle) if function(middle) <= 0 else (middle, end)
    return math.exp(end)
