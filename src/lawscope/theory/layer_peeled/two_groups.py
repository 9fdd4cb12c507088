"""A majority of K_A and a minority of K_B classes under cross-entropy: optimum and thresholds.

Rows of Γ sum to zero, so rows of Z do, and the 2×2 matrix M has rank one: M = (m_A, −m_B)ᵀ·wᵀ with
w = (√K_B, −√K_A)/√K. What is left are four numbers. Given the price μ and the direction θ of
(m_A, m_B), optimality gives every probability and with them a_A, a_B, m_A, m_B in closed form;
docs/layer-peeled.md derives it. Left are two equations: (m_A, m_B) has the direction θ, and
‖Z‖_* = τ. Newton's method solves them in log μ and log tan θ, in which they are almost linear:
three steps as a rule. All in floats, since on four numbers arrays would take ten times as long.
"""

from __future__ import annotations

import math
from contextlib import suppress
from math import exp, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from lawscope.arrays import FloatArray
from lawscope.theory.layer_peeled.groups import SMALLEST
from lawscope.theory.layer_peeled.program import Program, Solved, evaluate, gap

STEPS = 40
# Logits by which the equations may miss.
EXACT = 1e-13
# Newton's method doubles its digits: a step this small is the last.
CLOSE = 1e-8
# Longer steps are checked for whether logarithms still exist at their end.
LONG = 0.1
# A relative gap above POOR is tried again from another start, one above GOOD is not taken.
POOR, GOOD = 1e-10, 1e-9
# So many steps may cross the edge of collapse at full length; later ones are halved.
FREE = 4


class Pair(NamedTuple):
    """A program of K_A classes of weight α_A each and K_B of weight α_B ≤ α_A."""

    A: float
    B: float
    alpha_major: float
    alpha_minor: float
    tau: float


class Optimum(NamedTuple):
    """A certified point; q and r are the chances of one rival of the own and the other group."""

    a_major: float
    a_minor: float
    m_major: float
    m_minor: float
    loss: float
    gap: float
    price: float
    q_major: float
    r_major: float
    r_minor: float


class Side(NamedTuple):
    """One group: (K_g − 1)·a, m, and their derivatives by log μ and log tan θ; r of a rival."""

    a: float
    a_price: float
    a_turn: float
    m: float
    m_price: float
    m_turn: float
    r: float


def pair_of_sizes(majority: float, minority: float, share: float, tau: float) -> Pair:
    """Return the program of K_A classes and K_B smaller ones, of the share n_B/n_A."""
    heavy = 1 / (majority + minority * share)
    return Pair(majority, minority, heavy, heavy * share, tau)


def two_sizes(counts: FloatArray, tau: float) -> tuple[Pair, tuple[float, float]] | None:
    """Return the program of plain cross-entropy for counts of two sizes, and these; or None."""
    values = counts.tolist()
    sizes = set(values)
    if len(sizes) != 2 or min(sizes) < SMALLEST * max(sizes):
        return None
    minor, major = sorted(sizes)
    A = float(values.count(major))
    return pair_of_sizes(A, len(values) - A, minor / major, tau), (major, minor)


def solve_few(program: Program) -> Solved | None:
    """Solve one or two groups without offsets or smoothing; None if the gap is not small.

    One group is a simplex: a = τ/(K − 1), M = 0.
    """
    if len(program.sizes) == 1:
        a = np.array([program.tau / (program.classes - 1)])
        point = evaluate(program, a, np.zeros((1, 1)))
        return Solved(point, gap(program, point), 0)
    (A, B), (alpha_A, alpha_B) = program.sizes.tolist(), program.alpha.tolist()
    found = solve_pair(Pair(A, B, alpha_A, alpha_B, program.tau))
    if found is None:
        return None
    w = np.array([sqrt(B), -sqrt(A)]) / sqrt(A + B)
    a, m = np.array([found.a_major, found.a_minor]), np.array([found.m_major, -found.m_minor])
    return Solved(evaluate(program, a, np.outer(m, w)), found.gap, 0)


def solve_pair(pair: Pair) -> Optimum | None:
    """Solve a two-group program; None where its gap is not small."""
    vanishing, best = find_vanishing_ratio(pair.A, pair.B, pair.tau), None
    if vanishing is not None and vanishing * pair.alpha_minor <= pair.alpha_major:
        best = _certify(pair, pair.tau / (pair.A - 1), 0.0, 0.0, 0.0)
    for start in (_start, _start_at_rest):
        if best is not None and best.gap <= POOR * best.loss:
            break
        with suppress(ArithmeticError, ValueError):  # a logarithm or a quotient left the floats
            found = _solve_from(pair, *start(pair))
            best = found if best is None or not best.gap <= found.gap else best
    return best if best is not None and best.gap <= GOOD * best.loss else None


def _solve_from(pair: Pair, log_price: float, log_tan: float) -> Optimum:
    """Run Newton's method and scale its end onto ‖Z‖_* = τ."""
    one, other, cosine, sine = _newton(pair, log_price, log_tan)
    length = max(one.m * cosine + other.m * sine, 0.0)
    scale = pair.tau / (one.a + other.a + length)
    a_A = one.a * scale / max(pair.A - 1, 1.0)
    a_B = other.a * scale / max(pair.B - 1, 1.0)
    return _certify(pair, a_A, a_B, length * scale * cosine, length * scale * sine)


def _start(pair: Pair) -> tuple[float, float]:
    """Return log μ by water-filling against K − 1 equal rivals, and log tan θ as if balanced.

    The margin of a class is log(K·α/μ − K + 1). Either only the majority has one, or both groups;
    then three steps of Newton's method from the mean of log α.
    """
    A, B, alpha_A, alpha_B, tau = pair
    K, top_A, top_B = A + B, log(alpha_A), log(alpha_B)

    def soften(margin: float) -> float:
        return margin + log1p((K - 1) * exp(-margin))  # log(K − 1 + e^margin)

    log_price = top_A + log(K) - soften(tau / A)
    if log_price < top_B:
        log_price = (A * top_A + B * top_B) / K + log(K) - soften(tau / K)
        for _ in range(3):
            log_price = min(log_price, top_B)
            less_A, less_B = ((1 - 1 / K) * exp(log_price - top) for top in (top_A, top_B))
            spent_A = top_A - log_price + log(K) + log1p(-less_A)
            spent_B = top_B - log_price + log(K) + log1p(-less_B)
            rise = A / (1 - less_A) + B / (1 - less_B)
            log_price += (A * spent_A + B * spent_B - tau) / rise
        log_price = min(log_price, top_B)
    # A collapsed minority at rest has r_B = 1/K.
    sine = sqrt(A / K) * exp(min(top_B - log_price, 0.0))
    return log_price, log(sine) - 0.5 * log1p(-sine * sine)


def _start_at_rest(pair: Pair) -> tuple[float, float]:
    """Return log μ and log tan θ as Γ has them where M = 0, for a minority that hardly lives."""
    A, B, alpha_A, alpha_B, tau = pair
    rest = _certify(pair, tau / max(A - 1, 1.0), 0.0, 0.0, 0.0)
    steep = alpha_B / alpha_A * rest.r_minor / rest.r_major
    return log(alpha_A * (A * rest.q_major + B * rest.r_major)), log(steep * sqrt(A / B))


def _newton(pair: Pair, log_price: float, log_tan: float) -> tuple[Side, Side, float, float]:
    """Solve m_B·cos θ = m_A·sin θ and ‖Z‖_* = τ by Newton; return both groups, cos θ and sin θ."""
    A, B, alpha_A, alpha_B, tau = pair
    near, edge, moved, step = EXACT * (A + B), log(alpha_B), math.inf, 0
    while True:
        tangent, price = exp(log_tan), exp(log_price)
        c = 1 / sqrt(1 + tangent * tangent)
        s = tangent * c
        one = _side(A, B, price / alpha_A, c, -s * s)
        other = _side(B, A, price / alpha_B, s, c * c)
        askew, length = other.m * c - one.m * s, one.m * c + other.m * s
        excess = one.a + other.a + length - tau
        missed = max(abs(askew), abs(excess))
        if step == STEPS or not (missed > near and moved > CLOSE):
            return one, other, c, s
        askew_price = other.m_price * c - one.m_price * s
        askew_turn = other.m_turn * c - one.m_turn * s - c * s * length
        excess_price = one.a_price + other.a_price + one.m_price * c + other.m_price * s
        excess_turn = one.a_turn + other.a_turn + one.m_turn * c + other.m_turn * s + c * s * askew
        det = askew_price * excess_turn - askew_turn * excess_price
        d_price = (askew_turn * excess - excess_turn * askew) / det
        d_turn = (excess_price * askew - askew_price * excess) / det
        moved, size = max(abs(d_price), abs(d_turn)), 1.0
        if moved > LONG:
            # Stay short of K_o·r = 1, where no chance is left.
            over_A = (d_price + max(-d_turn, 0.0)) / log(B * one.r)
            over_B = (d_price + max(d_turn, 0.0)) / log(A * other.r)
            size = 1 / max(abs(d_price) / 50, abs(d_turn) / 2, 1.0, -1.25 * min(over_A, over_B))
        if step >= FREE and (log_price < edge) != (log_price + size * d_price < edge):
            size *= 0.5
        log_price, log_tan, step = log_price + size * d_price, log_tan + size * d_turn, step + 1


def _side(mine: float, others: float, nu: float, part: float, turn: float) -> Side:
    """Compute one group of K_g classes from ν = μ/α and its part cos θ or sin θ of the direction.

    K_o·r = ν·part·√(K_o/K); K_g·q + K_o·r is ν, or 1 where the group is collapsed or one class; the
    own class has p = q + (1 − ν)₊. ``turn`` is d log part/d log tan θ.
    """
    slant, rivals = sqrt(others / (mine + others)), mine - 1
    outside = nu * part * slant
    apart = nu < 1 and mine > 1
    inside = nu if apart else 0.0
    left = (nu if apart else 1.0) - outside
    q = left / mine
    p = q + (1 - nu if apart else 0.0)
    q_price, q_turn = (inside - outside) / left, -outside * turn / left
    a_price, a_turn = q_price * q / p - inside / p - q_price, q_turn * (q / p - 1)
    r, a = outside / others, log(p / q)
    m = slant * (mine * log(q / r) + a)
    m_price = slant * (mine * (q_price - 1) + a_price)
    m_turn = slant * (mine * (q_turn - turn) + a_turn)
    return Side(rivals * a, rivals * a_price, rivals * a_turn, m, m_price, m_turn, r)


def _certify(pair: Pair, a_A: float, a_B: float, m_A: float, m_B: float) -> Optimum:
    """Compute loss and gap ⟨Γ, Z⟩ + τ‖Γ‖₂ of a point, from its four numbers alone.

    Within a group −Γ acts as α(K_g·q + K_o·r), K_o the size of the other group; between the groups
    it is the vector of α·r·√(K·K_o).
    """
    A, B, alpha_A, alpha_B, tau = pair
    loss_A, q_A, r_A = _chances(A, B, a_A, m_A)
    loss_B, q_B, r_B = _chances(B, A, a_B, m_B)
    mode_A = alpha_A * (A * q_A + B * r_A) if A > 1 else 0.0
    mode_B = alpha_B * (B * q_B + A * r_B) if B > 1 else 0.0
    pull_A, pull_B = alpha_A * r_A * sqrt((A + B) * B), alpha_B * r_B * sqrt((A + B) * A)
    price = max(mode_A, mode_B, math.hypot(pull_A, pull_B))
    inner = (A - 1) * a_A * mode_A + (B - 1) * a_B * mode_B + m_A * pull_A + m_B * pull_B
    loss = A * alpha_A * loss_A + B * alpha_B * loss_B
    bound = max(tau * price - inner, 0.0)
    return Optimum(a_A, a_B, m_A, m_B, loss, bound, price, q_A, r_A, r_B)


def _chances(mine: float, others: float, a: float, m: float) -> tuple[float, float, float]:
    """Return the loss of a class, and the chance of a rival in its own and in the other group."""
    margin = m * sqrt((mine + others) / others) / mine + (1 - 1 / mine) * a
    near, far = exp(-a), exp(-margin)
    rest = (mine - 1) * near + others * far
    return log1p(rest), near / (1 + rest), far / (1 + rest)


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
    r_B = exp(-x) / (B + A * exp(-x))
    s = sqrt(K * A) * r_B
    if s >= 1:
        return None
    c = sqrt((1 - s) * (1 + s))
    length = x * B * sqrt(A / K) / s  # m_B/s
    lift = length * c * sqrt(K / B) / A
    a_A = 0.0  # one majority class has no rivals of its own size
    if A > 1:
        a_A = A * (lift - log((sqrt(K * B) / c - B) / A))
        if a_A < 0:
            return None
    v = lift + (1 - 1 / A) * a_A
    r_A = exp(-v) / (1 + (A - 1) * exp(-a_A) + B * exp(-v)) if v <= 700 else 0.0
    return (A - 1) * a_A + length, c / (sqrt(K * B) * r_A) if r_A else math.inf


def find_vanishing_ratio(majority: float, minority: float, tau: float) -> float | None:
    """Find R₁, from which on the minority's classifiers are zero; None if there is none.

    With M = 0 all of τ goes into a_A = τ/(K_A − 1). That is optimal iff the part of Γ between the
    groups is no longer than the price μ = α_A(K_A·q + K_B·r) of a_A.
    """
    A, B = majority, minority
    if A == 1:
        return None
    K, weaker = A + B, exp(-tau / (A * (A - 1)))
    # Divided by r, the probability of a minority class: q/r = e^(−a/K_A).
    spare = (A * weaker + B) ** 2 - K * B
    if spare <= 0:
        return None
    r = 1 / (exp(min(tau / A, 700.0)) + (A - 1) * weaker + B)
    return max(1.0, sqrt(A / K) / (r * sqrt(spare)))
