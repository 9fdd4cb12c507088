"""A majority of K_A and a minority of K_B classes under cross-entropy: optimum and thresholds.

Rows of Γ sum to zero, so rows of Z do, and the 2×2 matrix M has rank one: M = (m_A, −m_B)ᵀ·wᵀ with
w = (√K_B, −√K_A)/√K. What is left are four numbers; docs/layer-peeled.md derives the formulas.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from lawscope.theory.layer_peeled.groups import SMALLEST, Grouping, Loss, group
from lawscope.theory.layer_peeled.pair import Optimum, solve_pair
from lawscope.theory.layer_peeled.pair_newton import Pair
from lawscope.theory.layer_peeled.program import Point, Program, Solved, evaluate, gap

FloatArray = NDArray[np.float64]
GOOD = 1e-9  # relative gap up to which the four numbers are taken


class Details(NamedTuple):
    """What logits, classifiers and thresholds are made of."""

    grouping: Grouping
    program: Program
    solved: Solved


def two_sizes(counts: FloatArray, tau: float) -> tuple[Pair, tuple[float, float]] | None:
    """The program of plain cross-entropy for counts of two sizes, and these; None for others."""
    values = counts.tolist()
    sizes = set(values)
    if len(sizes) != 2 or min(sizes) < SMALLEST * max(sizes):
        return None
    minor, major = sorted(sizes)
    A = float(values.count(major))
    B = len(values) - A
    heavy = 1 / (A + B * (minor / major))
    return Pair(A, B, heavy, heavy * (minor / major), tau), (major, minor)


def solve_floats(pair: Pair) -> Optimum | None:
    """The optimum of one pair; None where its gap is not small."""
    try:
        found = solve_pair(pair)
    except (ArithmeticError, ValueError):  # a logarithm or a quotient left the floats
        return None
    return found if found.gap <= GOOD * found.loss else None


def solve_few(program: Program) -> Solved | None:
    """The optimum of one or two groups without offsets or smoothing; None if its gap is not small.

    One group is a simplex: a = τ/(K − 1), M = 0.
    """
    if len(program.sizes) == 1:
        a = np.array([program.tau / (program.classes - 1)])
        point = evaluate(program, a, np.zeros((1, 1)))
        return Solved(point, gap(program, point), 0)
    (A, B), (alpha_A, alpha_B) = program.sizes.tolist(), program.alpha.tolist()
    pair = Pair(A, B, alpha_A, alpha_B, program.tau)
    found = solve_floats(pair)
    return None if found is None else as_solved(pair, found)


def as_solved(pair: Pair, found: Optimum) -> Solved:
    """The four numbers as a point of the program."""
    A, B, alpha_A, alpha_B, _ = pair
    K, mean = A + B, math.sqrt(A * B)
    up, down = math.sqrt(B / K), math.sqrt(A / K)
    pull_A, pull_B = alpha_A * found.r_major, alpha_B * found.r_minor
    slope_A = pull_A * B + alpha_A * A * found.q_major
    slope_B = pull_B * A + alpha_B * B * found.q_minor
    own_A, own_B = (A - 1) * found.q_major, (B - 1) * found.q_minor
    point = Point(
        np.array([found.a_major, found.a_minor]),
        np.outer([found.m_major, -found.m_minor], [up, -down]),
        found.loss,
        np.array([(1 - A) * slope_A, (1 - B) * slope_B]),
        np.array([[-pull_A * B, pull_A * mean], [pull_B * mean, -pull_B * A]]),
        np.array([[own_A, B * found.r_major], [A * found.r_minor, own_B]]),
    )
    return Solved(point, found.gap, 0)


def details(counts: FloatArray, loss: Loss, pair: Pair, found: Optimum) -> Details:
    """The groups, the program and the point of a solved pair."""
    grouping = group(counts, loss)
    program = Program(grouping.sizes, grouping.alpha, grouping.offsets, 0.0, pair.tau)
    return Details(grouping, program, as_solved(pair, found))


class _Edge(NamedTuple):
    """The two-group optimum on the edge of collapse."""

    norm: float
    ratio: float


def collapse_ratio(majority: float, minority: float, tau: float) -> float | None:
    """R₀ for K_A majority and K_B minority classes.

    On the edge a_B = 0 and α_B = μ. The logit m_B·√K/(K_B·√K_A) by which a minority class prefers
    its own group is the one unknown; it is found from ‖Z‖_* = τ.

    Args:
        majority: K_A.
        minority: K_B.
        tau: τ.

    Returns:
        R₀, or None where it lies beyond float64.

    Example:
        >>> round(collapse_ratio(5, 5, 10 * 5**0.5), 6)
        12.192447
    """
    high = 1.0
    while (edge := _edge(high, majority, minority)) is None or edge.norm < tau:
        high *= 2
        if high > 700:
            return None
    low = high / 2
    while (edge := _edge(low, majority, minority)) is not None and edge.norm > tau:
        low /= 2

    def missing(x: float) -> float:
        found = _edge(x, majority, minority)
        return -tau if found is None else found.norm - tau

    last = _edge(brentq(missing, low, high, xtol=1e-14, rtol=1e-14), majority, minority)
    return None if last is None or not math.isfinite(last.ratio) else last.ratio


def _edge(x: float, A: float, B: float) -> _Edge | None:
    """‖Z‖_* and R on the edge, given the logit x; None where no such optimum exists."""
    K = A + B
    m_B = x * B * math.sqrt(A / K)
    r_B = math.exp(-x) / (B + A * math.exp(-x))
    s = math.sqrt(K * A) * r_B
    if s >= 1:
        return None
    c = math.sqrt((1 - s) * (1 + s))
    length = m_B / s
    lift = length * c * math.sqrt(K / B) / A
    rest = math.sqrt(K * B) / c - B
    if A == 1:
        # One majority class: no rivals of its own size, p = 1 − K_B·r_A.
        r_A = math.exp(-lift) / (1 + B * math.exp(-lift))
        return _Edge(length, c / (math.sqrt(K * B) * r_A) if r_A > 0 else math.inf)
    a_A = A * (lift - math.log(rest / A))
    v = lift + (1 - 1 / A) * a_A
    if a_A < 0 or v > 700:
        return None if a_A < 0 else _Edge((A - 1) * a_A + length, math.inf)
    r_A = math.exp(-v) / (1 + (A - 1) * math.exp(-a_A) + B * math.exp(-v))
    return _Edge((A - 1) * a_A + length, c / (math.sqrt(K * B) * r_A))


def vanishing_ratio(majority: float, minority: float, tau: float) -> float | None:
    """R₁, from which on M = 0 and the minority's classifiers are zero; None if there is none.

    With M = 0 all of τ goes into a_A = τ/(K_A − 1). That is optimal iff the part of Γ between the
    groups is no longer than the price μ = α_A(K_A·q + K_B·r) of a_A.

    Example:
        >>> vanishing_ratio(5, 5, 10 * 5**0.5) is None
        True
    """
    A, B = majority, minority
    if A == 1:
        return None
    K, weaker = A + B, math.exp(-tau / (A * (A - 1)))
    # Divided by r, the probability of a minority class: q/r = e^(−a/K_A).
    spare = (A * weaker + B) ** 2 - K * B
    if spare <= 0:
        return None
    own = math.exp(min(tau / A, 700.0))
    r = 1 / (own + (A - 1) * weaker + B)
    return max(1.0, math.sqrt(A / K) / (r * math.sqrt(spare)))
