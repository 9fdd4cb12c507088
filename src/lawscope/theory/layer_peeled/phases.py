"""Cosine and phase of every group of classes, from its part of the optimum."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lawscope.theory.layer_peeled.pair import Optimum
from lawscope.theory.layer_peeled.pair_newton import Pair

FloatArray = NDArray[np.float64]
ABSENT = 1e-6  # a classifier this much shorter than the root mean square has vanished
APART = 0.99  # a cosine below this is no collapse, whose is 1: the price is rounding there


@dataclass(frozen=True)
class PeeledGroup:
    """Classes of one size.

    Attributes:
        count: samples per class, oversampling included.
        classes: how many classes.
        cosine: between the classifiers of two of them; NaN for one class or vanished ones.
        phase: "separated", "collapsed" (all classifiers equal: the loss a class carries is at most
            the price μ of the constraint; for a group of one class, a twin of it would not be
            told apart) or "vanished" (the classifiers are zero).
    """

    count: float
    classes: int
    cosine: float
    phase: str


def pair_rows(pair: Pair, counts: tuple[float, float], found: Optimum) -> list[tuple[float, ...]]:
    """What ``describe`` needs of two groups; T = (MᵀM)^½ has the diagonal ‖m‖·K_o/K."""
    A, B, alpha_A, alpha_B, _ = pair
    length = math.hypot(found.m_major, found.m_minor) / (A + B)
    return [
        (counts[0], A, alpha_A, found.a_major, length * B),
        (counts[1], B, alpha_B, found.a_minor, length * A),
    ]


def describe(
    rows: Iterable[tuple[float, ...]], mean_square: float, price: float
) -> tuple[PeeledGroup, ...]:
    """Cosine and phase of each group from its count, K_g, α_g(1 − ε), a_g and T_gg."""
    told = []
    for count, size, alpha, a, spread in rows:
        cosine, length = math.nan, spread + (size - 1) * a
        if length / size <= ABSENT * mean_square:
            phase = "vanished"
        else:
            if size > 1:
                cosine = (spread - a) / length
            merged = alpha <= price * (1 + 1e-9) and not cosine < APART
            phase = "collapsed" if merged else "separated"
        told.append(PeeledGroup(count, int(size), cosine, phase))
    return tuple(told)


def root_gram(M: FloatArray) -> FloatArray:
    """T = (MᵀM)^½."""
    _, sigma, Vt = np.linalg.svd(M)
    return np.asarray((Vt.T * sigma) @ Vt)
