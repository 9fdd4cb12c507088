"""The last digits: Newton's method on point and price together while the rounding vanishes.

Near the end of the central path the price κ/(τ − N_e) is a quotient of rounding errors. Here μ is a
variable of its own, the equations are ∇f + μ∇N_e = 0 and ‖Z‖_* = τ, and every step also moves along
the tangent in e. The best certificate seen counts.
"""

from __future__ import annotations

from typing import NamedTuple

from lawscope.theory.layer_peeled.path import (
    LONGEST,
    MakeSystem,
    Pair,
    Place,
    Solved,
    System,
    inner,
    reach,
    scaled,
)
from lawscope.theory.layer_peeled.program import (
    Point,
    Program,
    evaluate,
    nuclear_norm,
    slope_norm,
)
from lawscope.theory.layer_peeled.smoothed import Spectrum, decompose, rounded

FACTOR = 0.1  # what a step leaves of the rounding
STEPS, PATIENCE = 150, 40


class _Here(NamedTuple):
    """Point, spectrum and price; gradient of N_e and of F."""

    point: Point
    spectrum: Spectrum
    mu: float
    normal: Pair
    down: Pair


def sharpen(program: Program, place: Place, system: MakeSystem, *, tolerance: float) -> Solved:
    """Newton's method from a place near the optimum to a relative gap below the tolerance.

    Args:
        program: what to solve.
        place: where the path has led.
        system: makes the Newton system of a point.
        tolerance: relative gap to reach.

    Returns:
        The best point seen.
    """
    # Γ knows the price better than κ/(τ − N_e), which a hair of the norm changes by half.
    price = slope_norm(program, place.point)
    here = _at(program, (place.point.a, place.point.M), price, place.spectrum.e)
    best = scaled(program, here.point, 0)
    for step in range(1, STEPS + 1):
        if best.gap <= tolerance * best.point.loss or step > best.steps + PATIENCE:
            break
        base = system(program, here.point, here.spectrum, here.mu)
        solved = base, base.solve(*here.normal), base.solve(-here.down[0], -here.down[1])
        # Sharpen only where Newton's method at the present rounding has all but converged.
        decrement = -inner(here.down, solved[2])
        if decrement > 0.1 * here.mu * here.spectrum.e * len(program.sizes):
            lower = _descend(program, here, solved[2], decrement)
            if lower is not None:
                here = lower
                continue
        here = _step(program, here, solved, FACTOR, tolerance)
        seen = scaled(program, here.point, step)
        best = seen if seen.gap < best.gap else best
    return best


def _at(program: Program, where: Pair, mu: float, e: float) -> _Here:
    point, spectrum = evaluate(program, *where), decompose(where[1], e)
    slope_a = program.copies * rounded(where[0], e).slope
    normal = slope_a, spectrum.along(rounded(spectrum.sigma, e).slope)
    down = point.grad_a + mu * normal[0], point.grad_m + mu * normal[1]
    return _Here(point, spectrum, mu, normal, down)


def _descend(program: Program, here: _Here, d: Pair, decrement: float) -> _Here | None:
    """One damped Newton step at fixed μ and e; None when rounding errors hide the descent."""
    point, mu, e = here.point, here.mu, here.spectrum.e
    height = _height(program, here)
    size = min(1.0, LONGEST / max(reach(program, d), 1e-300))
    for _ in range(30):
        new = _at(program, (point.a + size * d[0], point.M + size * d[1]), mu, e)
        if _height(program, new) <= height - 0.1 * size * decrement:
            return new
        size /= 2
    return None


def _height(program: Program, here: _Here) -> float:
    """F = f + μ·N_e."""
    e = here.spectrum.e
    within = float(program.copies @ rounded(here.point.a, e).value)
    return here.point.loss + here.mu * (within + float(rounded(here.spectrum.sigma, e).value.sum()))


def _step(
    program: Program,
    here: _Here,
    solved: tuple[System, Pair, Pair],
    factor: float,
    tolerance: float,
) -> _Here:
    """Newton's step for (Z, μ) and the tangent in e."""
    base, bent, newton = solved
    point, spectrum, mu, e = here.point, here.spectrum, here.mu, here.spectrum.e
    # Each of the K singular values adds about μ·e to the gap.
    last = 0.2 * tolerance * point.loss / (mu * program.classes)
    de = min(max(factor * e, last), e) - e
    d = newton
    if de:
        drift_a = mu * de * program.copies * rounded(point.a, e).drift
        drift_M = mu * de * spectrum.along(rounded(spectrum.sigma, e).drift)
        tangent = base.solve(-drift_a, -drift_M)
        d = d[0] + tangent[0], d[1] + tangent[1]
    missing = program.tau - nuclear_norm(program, point.a, point.M) - inner(here.normal, d)
    rise = missing / inner(here.normal, bent)
    d = d[0] + rise * bent[0], d[1] + rise * bent[1]
    size = min(1.0, LONGEST / max(reach(program, d), 1e-300))
    # μ must stay positive; a step that would cross zero is not near the end.
    new_mu = max(mu - size * rise, 0.2 * mu)
    where = point.a + size * d[0], point.M + size * d[1]
    return _at(program, where, new_mu, e + size * de)
