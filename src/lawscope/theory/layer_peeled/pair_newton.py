"""Newton's method for the two equations of a pair of groups, on floats or on arrays of them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

Real = Any  # a float, or an array of them: the formulas below are for both
STEPS = 40
EXACT = 1e-13  # logits, by which the equations may miss
CLOSE = 1e-8  # Newton's method doubles its digits: a step this small is the last
LONG = 0.1  # steps beyond this are looked at, whether they stay where logarithms exist
FREE = 4  # steps that may cross the edge of collapse at full length; then crossing ones are halved
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


class Frame(NamedTuple):
    """What stays the same of one group: α, K_g, 1/K_g, K_o, √(K_o/K), K_g·√(K_o/K), K_g > 1."""

    alpha: Real
    mine: Real
    share: Real
    others: Real
    slant: Real
    unit: Real
    several: Real


# One group at given (log μ, log tan θ): (K_g − 1)·a and its two derivatives, m and its two, and r.
Side = tuple[Real, Real, Real, Real, Real, Real, Real]


def start(pair: Pair, xp: Any) -> tuple[Real, Real]:
    """Log μ by water-filling, every class against K − 1 equal rivals; log tan θ as if balanced.

    The margin of a class is log(K·α/μ − K + 1). Either only the majority has one, or both groups;
    then three steps of Newton's method from the mean of log α.
    """
    A, B, alpha_A, alpha_B, tau = pair
    K, top_A, top_B = A + B, xp.log(alpha_A), xp.log(alpha_B)
    log_price = top_A + xp.log(K) - _softened(xp, K, tau / A)
    shared = log_price < top_B
    if xp.any(shared):
        both = (A * top_A + B * top_B) / K + xp.log(K) - _softened(xp, K, tau / K)
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


def _softened(xp: Any, K: Real, margin: Real) -> Real:
    """log(K − 1 + e^margin)."""
    return margin + xp.log1p((K - 1) * xp.exp(-margin))


def newton(
    pair: Pair, xp: Any, gone: Real, log_price: Real, log_tan: Real
) -> tuple[Side, Side, Real, Real]:
    """Newton's method for m_B·cos θ = m_A·sin θ and ‖Z‖_* = τ; where M = 0 it need not end.

    Returns:
        Both groups at the end, cos θ and sin θ.
    """
    A, B, _, alpha_B, tau = pair
    frames, edge = _frames(pair, xp), xp.log(alpha_B)
    alive, near = 1.0 - gone, EXACT * (A + B)
    here, moved = _sides(frames, xp, log_price, log_tan), math.inf
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
        here = _sides(frames, xp, log_price, log_tan)
    return here


def _length(xp: Any, far_A: Real, far_B: Real, d_price: Real, d_turn: Real) -> Real:
    """Of a step: short of K_o·r = 1, where the own group would have no chance left."""
    over_A = (d_price + xp.maximum(-d_turn, 0.0)) / xp.log(far_A)
    over_B = (d_price + xp.maximum(d_turn, 0.0)) / xp.log(far_B)
    far = xp.maximum(abs(d_price) / 50, abs(d_turn) / 2)
    return 1 / xp.maximum(xp.maximum(far, 1.0), -1.25 * xp.minimum(over_A, over_B))


def _frames(pair: Pair, xp: Any) -> tuple[Frame, Frame]:
    A, B, alpha_A, alpha_B, _ = pair
    slant_A, slant_B = xp.sqrt(B / (A + B)), xp.sqrt(A / (A + B))
    return (
        Frame(alpha_A, A, 1 / A, B, slant_A, slant_A * A, A > 1),
        Frame(alpha_B, B, 1 / B, A, slant_B, slant_B * B, B > 1),
    )


def _sides(
    frames: tuple[Frame, Frame], xp: Any, log_price: Real, log_tan: Real
) -> tuple[Side, Side, Real, Real]:
    """Both groups, cos θ and sin θ."""
    tangent, price = xp.exp(log_tan), xp.exp(log_price)
    cosine = 1 / xp.sqrt(1 + tangent * tangent)
    sine = tangent * cosine
    one = _side(xp, frames[0], price, cosine, -sine * sine)
    return one, _side(xp, frames[1], price, sine, cosine * cosine), cosine, sine


def _side(xp: Any, frame: Frame, price: Real, part: Real, turn: Real) -> Side:
    """One group from μ and its part cos θ or sin θ of the direction.

    With ν = μ/α, K_o·r = ν·part·√(K_o/K); K_g·q + K_o·r is ν, or 1 where the group is collapsed or
    one class; the own class has p = q + (1 − ν)₊. ``turn`` is d log part/d log tan θ.
    """
    alpha, mine, share, others, slant, unit, several = frame
    nu = price / alpha
    outside = nu * part * slant
    apart = ((nu < 1) & several) * 1.0
    inside = apart * nu
    left = (1 - apart) + inside - outside
    q = left * share
    p = q + (apart - inside)
    q_price, q_turn = (inside - outside) / left, -outside * turn / left
    ratio = q / p
    a_price, a_turn = q_price * ratio - inside / p - q_price, q_turn * (ratio - 1)
    r = outside / others
    a = xp.log(p / q)
    rivals = mine - 1
    return (
        rivals * a,
        rivals * a_price,
        rivals * a_turn,
        unit * xp.log(q / r) + slant * a,
        unit * (q_price - 1) + slant * a_price,
        unit * (q_turn - turn) + slant * a_turn,
        r,
    )
