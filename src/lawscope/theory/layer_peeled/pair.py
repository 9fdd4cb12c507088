"""Two groups of classes under cross-entropy: the optimum from two unknowns, one or many at once.

Given the price μ and the direction θ of (m_A, m_B), optimality gives every probability and with
them a_A, a_B, m_A, m_B in closed form; docs/layer-peeled.md derives it. Left are two equations:
(m_A, m_B) has the direction θ, and ‖Z‖_* = τ. Newton's method solves them in log μ and log tan θ,
in which they are almost linear: three steps as a rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lawscope.theory.layer_peeled.pair_newton import FLOATS, Pair, Real, newton, start

POOR = 1e-10  # a relative gap above this is tried again from another start


class Optimum(NamedTuple):
    """A point of the two-group program with its certificate.

    ``q`` and ``r`` are the probabilities of one rival of the own and of the other group.
    """

    a_major: Real
    a_minor: Real
    m_major: Real
    m_minor: Real
    loss: Real
    gap: Real
    price: Real
    q_major: Real
    r_major: Real
    q_minor: Real
    r_minor: Real


def solve_pair(pair: Pair, xp: Any = FLOATS) -> Optimum:
    """The optimum of a two-group program, or of an array of them.

    Args:
        pair: sizes, weights and τ, all floats or all arrays of one shape.
        xp: ``FLOATS`` or numpy, where exp, log and the rest are taken from; numpy under
            ``np.errstate(all="ignore")``, since where M = 0 the unknowns may run away.

    Returns:
        The best point found; its gap says how good it is.

    Example:
        >>> found = solve_pair(Pair(5.0, 5.0, 100 / 505, 1 / 505, 10 * 5**0.5))
        >>> round(found.loss, 9), found.a_minor
        (0.091299164, 0.0)
    """
    gone = vanished(pair, xp)
    found = _settle(pair, xp, gone, *start(pair, xp))
    poor = xp.where(found.gap <= POOR * found.loss, False, True)
    if not xp.any(poor):
        return found
    # Hardly alive: begin where M = 0, with the direction that Γ has there.
    rest = certify(pair, xp, pair.tau / xp.maximum(pair.A - 1, 1.0), 0.0, 0.0, 0.0)
    if not xp.any(poor & (rest.r_major > 0)):
        return found
    log_price = xp.log(pair.alpha_major * (pair.A * rest.q_major + pair.B * rest.r_major))
    steep = pair.alpha_minor / pair.alpha_major * rest.r_minor / rest.r_major
    again = _settle(pair, xp, gone, log_price, xp.log(steep * xp.sqrt(pair.A / pair.B)))
    better = poor & ((again.gap < found.gap) | (found.gap != found.gap))
    return Optimum(*(xp.where(better, *both) for both in zip(again, found, strict=True)))


def _settle(pair: Pair, xp: Any, gone: Real, log_price: Real, log_tan: Real) -> Optimum:
    """Newton's method from a start, its end scaled onto ‖Z‖_* = τ; M = 0 where that is known."""
    one, other, cosine, sine = newton(pair, xp, gone, log_price, log_tan)
    length = xp.maximum(one[3] * cosine + other[3] * sine, 0.0)
    scale = pair.tau / (one[0] + other[0] + length)
    a_A = xp.where(gone, pair.tau, one[0] * scale) / xp.maximum(pair.A - 1, 1.0)
    a_B = xp.where(gone, 0.0, other[0] * scale) / xp.maximum(pair.B - 1, 1.0)
    m_A = xp.where(gone, 0.0, length * scale * cosine)
    m_B = xp.where(gone, 0.0, length * scale * sine)
    return certify(pair, xp, a_A, a_B, m_A, m_B)


def vanished(pair: Pair, xp: Any) -> Real:
    """Is M = 0 optimal, with all of τ in a_A = τ/(K_A − 1)?

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


def certify(pair: Pair, xp: Any, a_A: Real, a_B: Real, m_A: Real, m_B: Real) -> Optimum:
    """Loss and gap ⟨Γ, Z⟩ + τ‖Γ‖₂ of a point, from its four numbers alone.

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
    return Optimum(a_A, a_B, m_A, m_B, loss, gap, price, q_A, r_A, q_B, r_B)


def _chances(xp: Any, mine: Real, others: Real, a: Real, m: Real) -> tuple[Real, Real, Real]:
    """Loss of a class, and the chance of one rival of the own and of the other group."""
    margin = m * xp.sqrt((mine + others) / others) / mine + (1 - 1 / mine) * a
    near, far = xp.exp(-a), xp.exp(-margin)
    rest = (mine - 1) * near + others * far
    return xp.log1p(rest), near / (1 + rest), far / (1 + rest)
