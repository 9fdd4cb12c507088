"""Two groups of classes under cross-entropy: the optimum from two unknowns, one or many at once.

Given the price μ and the direction θ of (m_A, m_B), optimality gives every probability and with
them a_A, a_B, m_A, m_B in closed form; docs/layer-peeled.md derives it. Left are two equations:
(m_A, m_B) has the direction θ, and ‖Z‖_* = τ. Newton's method solves them in log μ and log tan θ,
in which they are almost linear: three steps as a rule.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

Real = Any  # a float, or an array of them: the formulas below are for both
STEPS = 40
# Logits by which the equations may miss.
EXACT = 1e-13
# Newton's method doubles its digits: a step this small is the last.
CLOSE = 1e-8
# Longer steps are checked for whether logarithms still exist at their end.
LONG = 0.1
# A relative gap above this one is tried again from another start.
POOR = 1e-10
# So many steps may cross the edge of collapse at full length; later ones are halved.
FREE = 4
FLOATS = SimpleNamespace(
    exp=math.exp, log=math.log, log1p=math.log1p, sqrt=math.sqrt, hypot=math.hypot,
    minimum=min, maximum=max, any=bool, where=lambda chosen, one, other: one if chosen else other,
)  # fmt: skip


class Pair(NamedTuple):
    """A program of K_A classes of weight α_A each and K_B of weight α_B ≤ α_A."""

    A: Real
    B: Real
    alpha_major: Real
    alpha_minor: Real
    tau: Real


# One group at given (log μ, log tan θ): (K_g − 1)·a and its two derivatives, m and its two, and r.
Side = tuple[Real, Real, Real, Real, Real, Real, Real]


def _start(pair: Pair, xp: Any) -> tuple[Real, Real]:
    """Return log μ by water-filling against K − 1 equal rivals, and log tan θ as if balanced.

    The margin of a class is log(K·α/μ − K + 1). Either only the majority has one, or both groups;
    then three steps of Newton's method from the mean of log α.
    """
    A, B, alpha_A, alpha_B, tau = pair
    K, top_A, top_B = A + B, xp.log(alpha_A), xp.log(alpha_B)
    log_price = top_A + xp.log(K) - _soften(xp, K, tau / A)
    shared = log_price < top_B
    if xp.any(shared):
        both = (A * top_A + B * top_B) / K + xp.log(K) - _soften(xp, K, tau / K)
        for _ in range(3):
            both = xp.minimum(both, top_B)
            less_A, less_B = (1 - 1 / K) * xp.exp(both - top_A), (1 - 1 / K) * xp.exp(both - top_B)
            spent_A = top_A - both + xp.log(K) + xp.log1p(-less_A)
            spent_B = top_B - both + xp.log(K) + xp.log1p(-less_B)
            both = both + (A * spent_A + B * spent_B - tau) / (A / (1 - less_A) + B / (1 - less_B))
        log_price = xp.where(shared, xp.minimum(both, top_B), log_price)
    # A collapsed minority at rest has r_B = 1/K.
    sine = xp.sqrt(A / K) * xp.exp(xp.minimum(top_B - log_price, 0.0))
    return log_price, xp.log(sine) - 0.5 * xp.log1p(-sine * sine)


def _soften(xp: Any, K: Real, margin: Real) -> Real:
    """Return log(K − 1 + e^margin)."""
    return margin + xp.log1p((K - 1) * xp.exp(-margin))


def _newton(
    pair: Pair, xp: Any, gone: Real, log_price: Real, log_tan: Real
) -> tuple[Side, Side, Real, Real]:
    """Solve m_B·cos θ = m_A·sin θ and ‖Z‖_* = τ by Newton; where M = 0 it need not end."""
    A, B, _, alpha_B, tau = pair
    alive, near, edge = 1.0 - gone, EXACT * (A + B), xp.log(alpha_B)
    here, moved = _sides(pair, xp, log_price, log_tan), math.inf
    for step in range(STEPS):
        one, other, cosine, sine = here
        a, a_price, a_turn, m, m_price, m_turn, r = one
        b, b_price, b_turn, n, n_price, n_turn, s = other
        askew, length = n * cosine - m * sine, m * cosine + n * sine
        excess = a + b + length - tau
        missed = alive * xp.maximum(abs(askew), abs(excess))
        if not xp.any((missed > near) & (moved > CLOSE)):
            break
        both = cosine * sine
        askew_price = n_price * cosine - m_price * sine
        askew_turn = n_turn * cosine - m_turn * sine - both * length
        excess_price = a_price + b_price + m_price * cosine + n_price * sine
        excess_turn = a_turn + b_turn + m_turn * cosine + n_turn * sine + both * askew
        det = askew_price * excess_turn - askew_turn * excess_price
        d_price = (askew_turn * excess - excess_turn * askew) / det
        d_turn = (excess_price * askew - askew_price * excess) / det
        moved, size = xp.maximum(abs(d_price), abs(d_turn)), 1.0
        if xp.any(moved > LONG):
            size = _length(xp, B * r, A * s, d_price, d_turn)
        if step >= FREE:
            crosses = (log_price < edge) != (log_price + size * d_price < edge)
            size = xp.where(crosses, 0.5 * size, size)
        log_price, log_tan = log_price + size * d_price, log_tan + size * d_turn
        here = _sides(pair, xp, log_price, log_tan)
    return here


def _length(xp: Any, far_A: Real, far_B: Real, d_price: Real, d_turn: Real) -> Real:
    """Return the length of a step that stays short of K_o·r = 1, where no chance is left."""
    over_A = (d_price + xp.maximum(-d_turn, 0.0)) / xp.log(far_A)
    over_B = (d_price + xp.maximum(d_turn, 0.0)) / xp.log(far_B)
    far = xp.maximum(abs(d_price) / 50, abs(d_turn) / 2)
    return 1 / xp.maximum(xp.maximum(far, 1.0), -1.25 * xp.minimum(over_A, over_B))


def _sides(pair: Pair, xp: Any, log_price: Real, log_tan: Real) -> tuple[Side, Side, Real, Real]:
    """Return both groups, cos θ and sin θ."""
    A, B, alpha_A, alpha_B, _ = pair
    tangent, price = xp.exp(log_tan), xp.exp(log_price)
    cosine = 1 / xp.sqrt(1 + tangent * tangent)
    sine = tangent * cosine
    one = _side(xp, A, B, price / alpha_A, cosine, -sine * sine)
    return one, _side(xp, B, A, price / alpha_B, sine, cosine * cosine), cosine, sine


def _side(xp: Any, mine: Real, others: Real, nu: Real, part: Real, turn: Real) -> Side:
    """Compute one group of K_g classes from ν = μ/α and its part cos θ or sin θ of the direction.

    K_o·r = ν·part·√(K_o/K); K_g·q + K_o·r is ν, or 1 where the group is collapsed or one class; the
    own class has p = q + (1 − ν)₊. ``turn`` is d log part/d log tan θ.
    """
    slant = xp.sqrt(others / (mine + others))
    unit, rivals = slant * mine, mine - 1
    outside = nu * part * slant
    apart = ((nu < 1) & (mine > 1)) * 1.0
    inside = apart * nu
    left = (1 - apart) + inside - outside
    q = left / mine
    p = q + (apart - inside)
    q_price, q_turn = (inside - outside) / left, -outside * turn / left
    ratio = q / p
    a_price, a_turn = q_price * ratio - inside / p - q_price, q_turn * (ratio - 1)
    r, a = outside / others, xp.log(p / q)
    m = unit * xp.log(q / r) + slant * a
    m_price = unit * (q_price - 1) + slant * a_price
    m_turn = unit * (q_turn - turn) + slant * a_turn
    return rivals * a, rivals * a_price, rivals * a_turn, m, m_price, m_turn, r


class Optimum(NamedTuple):
    """A certified point; q and r are the chances of one rival of the own and the other group."""

    a_major: Real
    a_minor: Real
    m_major: Real
    m_minor: Real
    loss: Real
    gap: Real
    price: Real
    q_major: Real
    r_major: Real
    r_minor: Real


def solve_pair(pair: Pair, xp: Any = FLOATS) -> Optimum:
    """Solve a two-group program, or with ``xp`` numpy an array of them; the gap says how well.

    Numpy wants ``np.errstate(all="ignore")``: where M = 0 the unknowns may run away.
    """
    gone = _find_vanished(pair, xp)
    found = _solve_from(pair, xp, gone, *_start(pair, xp))
    poor = xp.where(found.gap <= POOR * found.loss, False, True)
    if not xp.any(poor):
        return found
    # Hardly alive: begin where M = 0, with the direction that Γ has there.
    rest = _certify(pair, xp, pair.tau / xp.maximum(pair.A - 1, 1.0), 0.0, 0.0, 0.0)
    if not xp.any(poor & (rest.r_major > 0)):
        return found
    log_price = xp.log(pair.alpha_major * (pair.A * rest.q_major + pair.B * rest.r_major))
    steep = pair.alpha_minor / pair.alpha_major * rest.r_minor / rest.r_major
    again = _solve_from(pair, xp, gone, log_price, xp.log(steep * xp.sqrt(pair.A / pair.B)))
    better = poor & ((again.gap < found.gap) | (found.gap != found.gap))
    return Optimum(*(xp.where(better, *both) for both in zip(again, found, strict=True)))


def _solve_from(pair: Pair, xp: Any, gone: Real, log_price: Real, log_tan: Real) -> Optimum:
    """Run Newton's method and scale its end onto ‖Z‖_* = τ; M = 0 where that is known."""
    one, other, cosine, sine = _newton(pair, xp, gone, log_price, log_tan)
    length = xp.maximum(one[3] * cosine + other[3] * sine, 0.0)
    scale = pair.tau / (one[0] + other[0] + length)
    a_A = xp.where(gone, pair.tau, one[0] * scale) / xp.maximum(pair.A - 1, 1.0)
    a_B = xp.where(gone, 0.0, other[0] * scale) / xp.maximum(pair.B - 1, 1.0)
    m_A = xp.where(gone, 0.0, length * scale * cosine)
    m_B = xp.where(gone, 0.0, length * scale * sine)
    return _certify(pair, xp, a_A, a_B, m_A, m_B)


def _find_vanished(pair: Pair, xp: Any) -> Real:
    """Return whether M = 0 is optimal, with all of τ in a_A = τ/(K_A − 1).

    The part of Γ between the groups must be no longer than the price α_A(K_A·q + K_B·r) of a_A. All
    is divided by α_A·r, r the probability of a minority class: q/r = e^(−a_A/K_A).
    """
    A, B, alpha_A, alpha_B, tau = pair
    K, several = A + B, xp.maximum(A - 1, 1.0)
    weaker = xp.exp(-tau / (A * several))
    # Beyond e^300 no minority is small enough; capped so that its square is a number.
    rest = xp.exp(xp.minimum(tau / A, 300.0)) + (A - 1) * weaker + B
    back = alpha_B / alpha_A * rest
    return (A > 1) & (K * B + A / K * back * back <= (A * weaker + B) * (A * weaker + B))


def _certify(pair: Pair, xp: Any, a_A: Real, a_B: Real, m_A: Real, m_B: Real) -> Optimum:
    """Compute loss and gap ⟨Γ, Z⟩ + τ‖Γ‖₂ of a point, from its four numbers alone.

    Within a group −Γ acts as α(K_g·q + K_o·r), K_o the size of the other group; between the groups
    it is the vector of α·r·√(K·K_o).
    """
    A, B, alpha_A, alpha_B, tau = pair
    K = A + B
    loss_A, q_A, r_A = _chances(xp, A, B, a_A, m_A)
    loss_B, q_B, r_B = _chances(xp, B, A, a_B, m_B)
    mode_A = xp.where(A > 1, alpha_A * (A * q_A + B * r_A), 0.0)
    mode_B = xp.where(B > 1, alpha_B * (B * q_B + A * r_B), 0.0)
    pull_A, pull_B = alpha_A * r_A * xp.sqrt(K * B), alpha_B * r_B * xp.sqrt(K * A)
    price = xp.maximum(xp.maximum(mode_A, mode_B), xp.hypot(pull_A, pull_B))
    inner = (A - 1) * a_A * mode_A + (B - 1) * a_B * mode_B + m_A * pull_A + m_B * pull_B
    loss = A * alpha_A * loss_A + B * alpha_B * loss_B
    gap = xp.maximum(tau * price - inner, 0.0)
    return Optimum(a_A, a_B, m_A, m_B, loss, gap, price, q_A, r_A, r_B)


def _chances(xp: Any, mine: Real, others: Real, a: Real, m: Real) -> tuple[Real, Real, Real]:
    """Return the loss of a class, and the chance of a rival in its own and in the other group."""
    margin = m * xp.sqrt((mine + others) / others) / mine + (1 - 1 / mine) * a
    near, far = xp.exp(-a), xp.exp(-margin)
    rest = (mine - 1) * near + others * far
    return xp.log1p(rest), near / (1 + rest), far / (1 + rest)
