"""A majority of K_A and a minority of K_B classes under cross-entropy: optimum and thresholds.

Rows of Γ sum to zero, so rows of Z do, and the 2×2 matrix M has rank one: M = (m_A, −m_B)ᵀ·wᵀ with
w = (√K_B, −√K_A)/√K. What is left are four numbers; docs/layer-peeled.md derives the formulas.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from lawscope.arrays import FloatArray
from lawscope.theory.layer_peeled.groups import SMALLEST
from lawscope.theory.layer_peeled.pair import Optimum, Pair, solve_pair
from lawscope.theory.layer_peeled.program import Program, Solved, evaluate, gap

# The four numbers are taken up to this relative gap.
GOOD = 1e-9


def two_sizes(counts: FloatArray, tau: float) -> tuple[Pair, tuple[float, float]] | None:
    """Return the program of plain cross-entropy for counts of two sizes, and these; or None."""
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
    """Solve one pair; None where its gap is not small."""
    try:
        found = solve_pair(pair)
    except (ArithmeticError, ValueError):  # a logarithm or a quotient left the floats
        return None
    return found if found.gap <= GOOD * found.loss else None


def solve_few(program: Program) -> Solved | None:
    """Solve one or two groups without offsets or smoothing; None if the gap is not small.

    One group is a simplex: a = τ/(K − 1), M = 0.
    """
    if len(program.sizes) == 1:
        a = np.array([program.tau / (program.classes - 1)])
        point = evaluate(program, a, np.zeros((1, 1)))
        return Solved(point, gap(program, point), 0)
    (A, B), (alpha_A, alpha_B) = program.sizes.tolist(), program.alpha.tolist()
    found = solve_floats(Pair(A, B, alpha_A, alpha_B, program.tau))
    if found is None:
        return None
    w = np.array([math.sqrt(B), -math.sqrt(A)]) / math.sqrt(A + B)
    a, m = np.array([found.a_major, found.a_minor]), np.array([found.m_major, -found.m_minor])
    return Solved(evaluate(program, a, np.outer(m, w)), found.gap, 0)


def find_collapse_ratio(majority: float, minority: float, tau: float) -> float | None:
    """Find R₀ for K_A majority and K_B minority classes.

    On the edge a_B = 0 and α_B = μ. The logit m_B·√K/(K_B·√K_A) by which a minority class prefers
    its own group is the one unknown; it is found from ‖Z‖_* = τ.
    """

    def excess(x: float) -> float:
        edge = _edge(x, majority, minority)
        return -tau if edge is None else edge[0] - tau

    high = 1.0
    while excess(high) < 0:
        high *= 2
        if high > 700:
            return None
    low = high / 2
    while excess(low) > 0:
        low /= 2
    last = _edge(brentq(excess, low, high, xtol=1e-14, rtol=1e-14), majority, minority)
    return None if last is None or not math.isfinite(last[1]) else last[1]


def _edge(x: float, A: float, B: float) -> tuple[float, float] | None:
    """Compute ‖Z‖_* and R on the edge, given the logit x; None where no such optimum exists."""
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
        return length, c / (math.sqrt(K * B) * r_A) if r_A > 0 else math.inf
    a_A = A * (lift - math.log(rest / A))
    v = lift + (1 - 1 / A) * a_A
    if a_A < 0 or v > 700:
        return None if a_A < 0 else ((A - 1) * a_A + length, math.inf)
    r_A = math.exp(-v) / (1 + (A - 1) * math.exp(-a_A) + B * math.exp(-v))
    return (A - 1) * a_A + length, c / (math.sqrt(K * B) * r_A)


def find_vanishing_ratio(majority: float, minority: float, tau: float) -> float | None:
    """Find R₁, from which on the minority's classifiers are zero; None if there is none.

    With M = 0 all of τ goes into a_A = τ/(K_A − 1). That is optimal iff the part of Γ between the
    groups is no longer than the price μ = α_A(K_A·q + K_B·r) of a_A.
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
