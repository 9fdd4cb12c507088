"""How large every class must be made so that none collapses."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from lawscope.errors import LawscopeWarning
from lawscope.theory.layer_peeled.groups import check_counts
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.sweep import two_group_counts
from lawscope.theory.layer_peeled.threshold import collapse_threshold

FloatArray = NDArray[np.float64]
PRECISION = 1e-5  # of the logarithm of the floor


def collapse_floor(
    counts: ArrayLike,
    weight_energy: float = 1.0,
    feature_energy: float = 5.0,
    precision: float = PRECISION,
) -> float:
    """The smallest m such that no class collapses once all classes below m are sampled up to m.

    A group collapses iff its share of the loss is at most the price μ of the constraint
    (docs/layer-peeled.md), so what keeps a class alone is its size against one common bar, and
    the least that helps is to lift every class below the bar onto it. m is the root of
    log(α_min/μ) over the floor; for two sizes it is n_max/R₀.

    Args:
        counts: samples per class.
        weight_energy: E_W.
        feature_energy: E_H.
        precision: relative, of m; a root takes a program per two digits or so.

    Returns:
        m; the smallest count where no class collapses as it is.

    Raises:
        LawscopeError: counts or energies make no sense.

    Example:
        >>> round(1000 / collapse_floor([1000] * 5 + [1] * 5), 4)
        12.1924
    """
    given = check_counts(counts)
    energies = weight_energy, feature_energy
    lowest, highest = float(given.min()), float(given.max())
    if lowest == highest:
        return lowest
    closed = _closed(given, energies)
    if closed is not None:
        return max(lowest, closed)

    def excess(log_floor: float) -> float:
        """log(α_min/μ): positive where the smallest classes stay apart."""
        lifted = np.maximum(given, math.exp(log_floor))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LawscopeWarning)  # peel itself tells it once
            price = peel(lifted, *energies).price
        return math.log(float(lifted.min() / lifted.sum()) / price)

    if excess(math.log(lowest)) > 0:
        return lowest
    root = brentq(excess, math.log(lowest), math.log(highest), xtol=precision)
    return math.exp(root)


def _closed(counts: FloatArray, energies: tuple[float, float]) -> float | None:
    """n_max/R₀ where all classes but the largest end up on the floor, else None."""
    others = counts[counts < counts.max()]
    pair = two_group_counts(len(counts), len(counts) - len(others), 2.0)
    ratio = collapse_threshold(pair, *energies)
    if ratio is None:
        return None
    floor = float(counts.max() / ratio)
    return floor if others.max() == others.min() or others.max() <= floor else None
