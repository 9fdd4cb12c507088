"""The strengths α(t) and β(t), and their integrals to the last digits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import legendre

from lawscope.arrays import FloatArray, as_floats
from lawscope.errors import LawscopeError

Rate = Callable[[FloatArray], FloatArray]
Rates = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
NODES = 10  # of Gauss and Legendre on one panel
FIRST_PANELS = 16
PARTS = 4  # into which a panel is cut that is not exact yet
EXACT = 1e-13  # error of an integral, of the whole
STRETCH = 1.0  # by which an exponent may change on one panel
MOST_PANELS = 200_000  # beyond those between knots


def as_rate(name: str, given: Any, times: FloatArray | None) -> Rate:
    """Return a strength as a function of an array of times.

    Args:
        name: for the sentences of errors.
        given: a number, a function of t, or its values at ``times``, joined by straight lines.
        times: where an array has its values.

    Raises:
        LawscopeError: anything else, or values that are not finite.
    """
    if callable(given):
        return lambda t: _evaluate(name, given, t)
    try:
        values = as_floats(given)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        values = np.full((1, 1), np.nan)
    if values.ndim > 1 or not values.size or not np.isfinite(values).all():
        raise LawscopeError(f"{name} must be a number, an array of finite numbers or a function.")
    if values.ndim == 0:
        return lambda t: np.full(np.shape(t), float(values))
    if times is None or len(times) != len(values):
        there = "none were given" if times is None else f"{len(times)} were given"
        raise LawscopeError(
            f"{name} has {len(values)} values, but {there} as times=; give the time of each value."
        )
    first, last = float(times[0]), float(times[-1])

    def interpolate(t: FloatArray) -> FloatArray:
        if np.min(t) < first or np.max(t) > last:
            raise LawscopeError(
                f"{name} is given from t = {first:g} to {last:g}; stay between the two."
            )
        return np.interp(t, times, values)

    return interpolate


def _evaluate(name: str, function: Callable[[Any], Any], t: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        try:
            found = as_floats(function(t))
        except Exception:  # of a function that takes one number at a time
            found = np.full(0, np.nan)
        if found.shape not in (np.shape(t), ()):
            try:
                found = as_floats([function(float(each)) for each in np.ravel(t)])
                found = found.reshape(np.shape(t))
            except Exception as error:  # whatever a person's function makes of a number
                raise LawscopeError(
                    f"{name} is not a function of t that returns a number ({error!r})."
                ) from error
    found = np.broadcast_to(found, np.shape(t))
    if not np.isfinite(found).all():
        at = float(np.ravel(t)[~np.isfinite(np.ravel(found))][0])
        raise LawscopeError(
            f"{name}(t) is not finite at t = {at:.6g}; choose a later start=, or another function."
        )
    return found


class Integrals(NamedTuple):
    """A = ∫α, B = ∫β and F = ∫β e^{λ}, λ = (A + B/(K−1))/K, each of shape (times,)."""

    A: FloatArray
    B: FloatArray
    F: FloatArray


def integrate_rates(
    rates: Rates, K: int, start: float, times: FloatArray, knots: FloatArray
) -> Integrals:
    """Integrate from ``start`` to each time: Legendre series on panels cut until exact.

    Args:
        rates: α and β.
        K: number of classes, for F.
        start: lower end.
        times: upper ends, none before ``start``.
        knots: where α or β may bend.
    """
    end = float(times.max())
    if end == start:
        return Integrals(*np.zeros((3, len(times))))
    inside = knots[(knots > start) & (knots < end)]
    edges = np.unique(np.concatenate([np.linspace(start, end, FIRST_PANELS + 1), inside]))
    lower, half, a, b = _refine(rates, K, edges)
    rule = _rule()
    place = np.clip(np.searchsorted(lower, times, side="right") - 1, 0, None)
    within = np.clip((times - lower[place]) / half[place] - 1, -1, 1)
    powers = legendre.legvander(within, NODES)

    def integrate(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the integral up to the nodes of every panel, and up to the times."""
        inner = half[:, None] * (values @ rule.integral.T)
        sums = np.cumsum(half * (values @ rule.weights))
        before = np.concatenate([[0.0], sums[:-1]])[:, None]
        at_times = (inner[place] * powers).sum(axis=1) + before[place, 0]
        return before + inner @ rule.powers.T, at_times

    (A_nodes, A), (B_nodes, B) = integrate(a), integrate(b)
    with np.errstate(over="ignore", invalid="ignore"):
        _, F = integrate(b * np.exp((A_nodes + B_nodes / (K - 1)) / K))
    return Integrals(A, B, F)


def _refine(
    rates: Rates, K: int, edges: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return panels on which α, β and e^λ are polynomials: lower ends, halves, values at nodes."""
    rule = _rule()
    lower, upper = edges[:-1], edges[1:]
    done: list[tuple[FloatArray, ...]] = []
    panels, total = 0, 0.0
    while len(lower):
        half = (upper - lower) / 2
        t = lower[:, None] + half[:, None] * (1 + rule.nodes)
        a, b = rates(t)
        total = max(total, float(half @ (np.abs(a) + np.abs(b)) @ rule.weights))
        tail = np.abs(a @ rule.series[-2:].T) + np.abs(b @ rule.series[-2:].T)
        unsure = half * tail.sum(axis=1) > EXACT * total
        unsure |= half * np.abs((a + b / (K - 1)) @ rule.weights) > STRETCH * K
        cuts = np.linspace(lower, upper, PARTS + 1, axis=1)
        unsure &= (np.diff(cuts) > 0).all(axis=1)
        done.append(tuple(each[~unsure] for each in (lower, half, a, b)))
        panels += len(lower)
        if panels > MOST_PANELS + 2 * len(edges):
            raise LawscopeError(
                "alpha and beta vary too fast, or are too large, to be integrated up to "
                f"t = {edges[-1]:g}; ask for earlier times."
            )
        lower, upper = cuts[unsure, :-1].ravel(), cuts[unsure, 1:].ravel()
    starts, halves, a, b = (np.concatenate(each) for each in zip(*done, strict=True))
    order = np.argsort(starts)
    return starts[order], halves[order], a[order], b[order]


class _Rule(NamedTuple):
    """Gauss and Legendre on [−1, 1]."""

    nodes: FloatArray
    weights: FloatArray
    integral: FloatArray  # values at nodes → Legendre series of the integral from −1
    series: FloatArray  # values at nodes → their own Legendre series
    powers: FloatArray  # Legendre polynomials up to degree NODES at the nodes


@cache
def _rule() -> _Rule:
    nodes, weights = legendre.leggauss(NODES)
    # A polynomial's series by the quadrature itself, which is exact up to degree 2·NODES − 1.
    degrees = np.arange(NODES)
    powers = np.asarray(legendre.legvander(nodes, NODES), dtype=np.float64)
    series = (powers[:, :NODES] * weights[:, None]).T * (degrees + 0.5)[:, None]
    integral = np.asarray(legendre.legint(series, lbnd=-1), dtype=np.float64)
    return _Rule(nodes, weights, integral, series, powers)
