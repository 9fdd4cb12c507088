"""Where the smallest group collapses, and where its classifiers vanish."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, newton

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeWarning
from lawscope.theory.layer_peeled import two_groups
from lawscope.theory.layer_peeled.groups import Grouping, check_counts, group
from lawscope.theory.layer_peeled.peel import peel, predict
from lawscope.theory.layer_peeled.peeled import Peeled
from lawscope.theory.layer_peeled.program import Program, slope_norm
from lawscope.theory.layer_peeled.solve import solve
from lawscope.theory.layer_peeled.sweep import two_group_counts

# Logarithms of the ratios between which roots are searched.
NEAREST, FARTHEST = 1e-6, math.log(1e15)
SECANTS, SHARP = 12, 1e-11
# Of the logarithm of the floor.
PRECISION = 1e-5
# A price counts as known where it is worth so many gaps, each taken as at least this share.
RESOLVED, ROUNDING = 1e3, 1e-12


@checked
def collapse_threshold(
    counts: ArrayLike,
    weight_energy: float = 1.0,
    feature_energy: float = 5.0,
    loss: str = "cross_entropy",
) -> float | None:
    """Find R₀, the largest over the smallest count at which the smallest classes collapse.

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
    return peel(counts, weight_energy, feature_energy, loss).threshold


def find_collapse_ratio(peeled: Peeled) -> float | None:
    """Find the root of log(α_s(1 − ε)/μ) over the ratio, α_s the share of a smallest class.

    μ is taken from the program with a_s pinned to zero. It is the same beyond the threshold and has
    no kink there, so the root is as sharp as the solver.
    """
    if peeled.loss_name == "mse" or peeled.ratio == 1:
        # Squared loss: classifiers are orthogonal until they vanish. One group: no minority.
        return None
    if (pair := _majority_and_minority(peeled)) is not None:
        return two_groups.find_collapse_ratio(*pair, peeled.tau)
    loss, lightest = peeled._loss, int(np.argmin(peeled.counts))

    def smallest_of(grouping: Grouping) -> tuple[int, float]:
        g = int(grouping.member[lightest])
        return g, float(grouping.alpha[g]) * (1 - loss.smoothing)

    @cache
    def excess(log_ratio: float) -> float:
        if not NEAREST <= log_ratio <= FARTHEST:
            raise ValueError(log_ratio)
        grouping = group(_counts_at(peeled, log_ratio), loss)
        smallest, weight = smallest_of(grouping)
        shares = grouping.sizes, grouping.alpha, grouping.offsets
        program = Program(*shares, loss.smoothing, peeled.tau, pinned=(smallest,))
        solved = solve(program)
        price = slope_norm(program, solved.point)
        known = RESOLVED * max(solved.gap, ROUNDING * solved.point.loss)
        if not price or weight * program.tau < known:
            # The bound does not bind, or the price is lost in rounding: no evidence of collapse.
            return math.inf
        return math.log(weight / price)

    found = None
    if peeled.price > 0:
        # The price hardly depends on a few small classes: begin where α_s of today would equal it.
        _, weight = smallest_of(peeled._solution.grouping)
        found = _root_near(excess, math.log(peeled.ratio * weight / peeled.price))
    return _first_root(excess) if found is None else found


def find_vanishing_ratio(peeled: Peeled) -> float | None:
    """Find the smallest ratio at which the classifiers of the smallest group are zero."""
    if peeled.ratio == 1:
        return None
    if (pair := _majority_and_minority(peeled)) is not None:
        return two_groups.find_vanishing_ratio(*pair, peeled.tau)
    energies = peeled.weight_energy, peeled.feature_energy

    def alive(log_ratio: float) -> float:
        found = predict(_counts_at(peeled, log_ratio), energies, peeled._loss, peeled.settings)
        smallest = found._solution.grouping.member[int(np.argmin(peeled.counts))]
        return -1.0 if found.groups[smallest].phase == "vanished" else 1.0

    return _first_root(alive, sign_only=True)


def _majority_and_minority(peeled: Peeled) -> tuple[float, float] | None:
    """Return K_A and K_B of a two-group problem under plain cross-entropy."""
    if peeled.loss_name != "cross_entropy" or len(peeled.groups) != 2:
        return None
    return float(peeled.groups[0].classes), float(peeled.groups[1].classes)


def _counts_at(peeled: Peeled, log_ratio: float) -> FloatArray:
    counts = peeled.counts / peeled.counts.max()
    return np.where(counts == counts.min(), math.exp(-log_ratio), counts)


def _root_near(function: Callable[[float], float], guess: float) -> float | None:
    """Find a root by secants, as e^root; None where they do not lead to one.

    The first slope is taken as −1, which is that of log α_s.
    """
    try:
        second = guess + function(guess)
        return math.exp(newton(function, guess, x1=second, tol=SHARP, maxiter=SECANTS))
    except (RuntimeError, ValueError):  # no convergence, or beyond the ratios searched
        return None


def _first_root(function: Callable[[float], float], *, sign_only: bool = False) -> float | None:
    """Find the first sign change on a grid of powers of ten, refined, as e^root; or None."""
    low = NEAREST
    if function(low) <= 0:
        return 1.0
    for high in np.log(10.0 ** np.array([1, 2, 3, 4, 6, 9, 12, 15])).tolist():
        if function(high) <= 0:
            break
        low = high
    else:
        return None
    if not sign_only:
        return math.exp(brentq(function, low, high, xtol=1e-12, rtol=1e-12))
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) <= 0 else (middle, high)
    return math.exp(high)


def collapse_floor(
    counts: ArrayLike,
    weight_energy: float = 1.0,
    feature_energy: float = 5.0,
    precision: float = PRECISION,
) -> float:
    """Find the least m such that no class collapses once all classes below m are sampled up to m.

    A group collapses iff its share of the loss is at most the price μ of the constraint
    (docs/layer-peeled.md), so what keeps a class alone is its size against one common bar, and
    the least that helps is to lift every class below the bar onto it. m is the root of
    log(α_min/μ) over the floor; for two sizes it is n_max/R₀, and the smallest count where no class
    collapses as it is. ``precision`` is relative; a root takes a program per two digits or so.
    """
    given = check_counts(counts)
    energies = weight_energy, feature_energy
    lowest, highest = float(given.min()), float(given.max())
    if lowest == highest:
        return lowest
    # n_max/R₀, where all classes but the largest end up on the floor.
    others = given[given < highest]
    pair = two_group_counts(len(given), len(given) - len(others), 2.0)
    ratio = collapse_threshold(pair, *energies)
    if ratio is not None and others.max() <= max(others.min(), highest / ratio):
        return max(lowest, highest / ratio)

    def excess(log_floor: float) -> float:
        lifted = np.maximum(given, math.exp(log_floor))
        with warnings.catch_warnings(action="ignore", category=LawscopeWarning):
            price = peel(lifted, *energies).price
        return math.log(float(lifted.min() / lifted.sum()) / price)

    if excess(math.log(lowest)) > 0:
        return lowest
    return math.exp(brentq(excess, math.log(lowest), math.log(highest), xtol=precision))
