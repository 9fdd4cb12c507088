"""The central path: Newton's method on a rounded, barred program that is sharpened step by step.

For a parameter κ the smooth convex F = f − κ·log(τ − N_e(Z)) has one minimiser; there the price of
the constraint is μ = κ/(τ − N_e), and the gap is about κ + μ·e·K. Newton's method finds it, and its
Hessian also gives the tangent of the path, along which κ and e = κ/(μ·K) are lowered together. What
counts in the end is the certificate, not the path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lawscope.theory.layer_peeled.program import Point, Program, evaluate, gap, nuclear_norm
from lawscope.theory.layer_peeled.smoothed import Spectrum, decompose, rounded

FloatArray = NDArray[np.float64]
Pair = tuple[FloatArray, FloatArray]
LONGEST = 3.0  # logits one Newton step may move: beyond it the softmax is another function
STEPS = 300


class System(Protocol):
    """The Newton system ∇²f + μ∇²N_e at one point."""

    def solve(self, a: FloatArray, M: FloatArray) -> Pair:
        """D with H·d = (a, M)."""


MakeSystem = Callable[[Program, Point, Spectrum, float], System]


class Solved(NamedTuple):
    """Where the path ended: the best point, scaled onto the constraint, and its certificate."""

    point: Point
    gap: float
    steps: int


class Place(NamedTuple):
    """A point inside the constraint, F and its gradient there."""

    point: Point
    spectrum: Spectrum
    kappa: float
    height: float
    mu: float
    normal: Pair
    down: Pair


def follow(
    program: Program,
    start: Pair,
    mu: float,
    system: MakeSystem,
    *,
    tolerance: float,
    rounding: float,
) -> Place:
    """Follow the path from a start to a relative gap below the tolerance.

    Args:
        program: what to solve.
        start: (a, M) to begin with; it is scaled to lie inside.
        mu: first guess of the price.
        system: makes the Newton system of a point.
        tolerance: relative gap to reach.
        rounding: first κ as a share of μ·τ.

    Returns:
        The last place.
    """
    inside = (1 - 0.5 * rounding) * program.tau / nuclear_norm(program, *start)
    kappa = rounding * mu * program.tau
    place = stand(
        program, start[0] * inside, start[1] * inside, kappa, kappa / mu / program.classes
    )
    if place is None:
        raise ArithmeticError("the start of the path is not inside the constraint")
    tries, factor = 0, 0.1
    for _ in range(STEPS):
        base = system(program, place.point, place.spectrum, place.mu)
        bent = base.solve(*place.normal)
        d = barred(place, base.solve(-place.down[0], -place.down[1]), bent)
        decrement = -inner(place.down, d)
        if decrement > 0.02 * place.kappa:
            tries += 1
            lower = descend(program, place, d, decrement)
            if lower is not None:
                place = lower
                continue
        seen = scaled(program, place.point, 0)
        if seen.gap <= tolerance * seen.point.loss:
            break
        factor = min(0.7, factor * 1.7) if tries > 4 else max(0.03, factor * 0.7)
        tries = 0
        ahead = advance(program, place, (base, bent, d), factor, tolerance)
        if ahead is None:
            break
        place = ahead
    return place


def stand(program: Program, a: FloatArray, M: FloatArray, kappa: float, e: float) -> Place | None:
    """F and its gradient at (a, M); None outside the constraint."""
    spectrum, copies = decompose(M, e), program.copies
    within, between = rounded(a, e), rounded(spectrum.sigma, e)
    room = program.tau - float(copies @ within.value) - float(between.value.sum())
    if not room > 0:
        return None
    point, mu = evaluate(program, a, M), kappa / room
    normal = copies * within.slope, spectrum.along(between.slope)
    down = point.grad_a + mu * normal[0], point.grad_m + mu * normal[1]
    height = point.loss - kappa * float(np.log(room / program.tau))
    return Place(point, spectrum, kappa, height, mu, normal, down)


def barred(place: Place, free: Pair, bent: Pair) -> Pair:
    """Add the barrier's rank-one curvature (μ²/κ)·nnᵀ to a solution without it."""
    pull = inner(place.normal, free) / (place.kappa / place.mu**2 + inner(place.normal, bent))
    return free[0] - pull * bent[0], free[1] - pull * bent[1]


def inner(left: Pair, right: Pair) -> float:
    """⟨left, right⟩ over (a, M)."""
    return float(left[0] @ right[0]) + float(np.vdot(left[1], right[1]))


def descend(program: Program, place: Place, d: Pair, decrement: float) -> Place | None:
    """One damped Newton step; None when rounding errors hide the descent."""
    a, M, e = place.point.a, place.point.M, place.spectrum.e
    size = min(1.0, LONGEST / max(reach(program, d), 1e-300))
    for _ in range(30):
        new = stand(program, a + size * d[0], M + size * d[1], place.kappa, e)
        if new is not None and new.height <= place.height - 0.1 * size * decrement:
            return new
        size /= 2
    return None


def reach(program: Program, d: Pair) -> float:
    """The largest change of a logit under d."""
    root = np.sqrt(program.sizes)
    between = np.abs(d[1]) / (root[:, None] * root[None, :])
    return max(float(np.abs(d[0]).max()), float(between.max()))


def advance(
    program: Program,
    place: Place,
    solved: tuple[System, Pair, Pair],
    factor: float,
    tolerance: float,
) -> Place | None:
    """Newton's step together with the path's tangent in log κ."""
    base, bent, newton = solved
    point, spectrum, mu, e = place.point, place.spectrum, place.mu, place.spectrum.e
    copies = program.copies
    within, between = rounded(point.a, e), rounded(spectrum.sigma, e)
    last = 0.15 * tolerance * point.loss
    factor = min(max(factor, last / place.kappa), 1.0)
    new_kappa = factor * place.kappa
    new_e = new_kappa / (mu * program.classes)
    # d∇F = (dκ/κ)·μ·n + μ·(∂n/∂e)·de + (μ²/κ)·(∂N/∂e)·n·de
    shift = (factor - 1) * mu
    de = new_e - e
    widen = float(copies @ widened(point.a, e)) + float(widened(spectrum.sigma, e).sum())
    along_n = shift + mu**2 / place.kappa * widen * de
    side_a = along_n * place.normal[0] + mu * de * copies * within.drift
    side_M = along_n * place.normal[1] + mu * de * spectrum.along(between.drift)
    tangent = barred(place, base.solve(-side_a, -side_M), bent)
    d = newton[0] + tangent[0], newton[1] + tangent[1]
    size = min(1.0, LONGEST / max(reach(program, d), 1e-300))
    for _ in range(30):
        kappa, rounding = place.kappa + size * (new_kappa - place.kappa), e + size * de
        new = stand(program, point.a + size * d[0], point.M + size * d[1], kappa, rounding)
        if new is not None:
            return new
        size /= 2
    return None


def widened(sigma: FloatArray, e: float) -> FloatArray:
    """∂N_e/∂e = −log((e + r)/2e)."""
    return np.asarray(-np.log((e + np.hypot(e, sigma)) / (2 * e)))


def scaled(program: Program, point: Point, steps: int) -> Solved:
    """The point scaled onto the constraint, with its certificate."""
    scale = program.tau / nuclear_norm(program, point.a, point.M)
    point = evaluate(program, point.a * scale, point.M * scale)
    return Solved(point, gap(program, point), steps)
