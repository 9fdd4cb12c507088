"""The steepest point that rescalings reach with a bounded norm.

|∇L|² = Σ g² e^{−2λ} and Σθ² e^{2λ} are both convex in the log-scales λ, so the largest gradient
lies on the boundary of the norms that are allowed, and there may be several local maxima.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq, minimize
from torch import Tensor

from lawscope.arrays import FloatArray
from lawscope.capture.functional import Weights
from lawscope.errors import LawscopeError
from lawscope.laws.conservation.symmetry import Symmetry

STARTS = 5  # random directions, beside those of the network and of the gradient
ITERATIONS = 500
FARTHEST = 1e6
LEAST = 1e-9  # share of the norm below which there is no room to move


def climb(
    known: Sequence[Symmetry],
    weights: Weights,
    gradients: Weights,
    limit: float,
    scales: Sequence[Tensor],
) -> list[Tensor]:
    """Return log-scales of the largest Σ g² e^{−2λ} found with Σ θ² e^{2λ} ≤ limit.

    Points on the boundary are t·d, with d a direction from the least norm and t > 0 the one place
    on it where the norm is the limit. L-BFGS ascends in d from several starts.

    Args:
        known: rescalings of parameters that have an axis in front.
        weights: at the least norm on the orbit.
        gradients: there.
        limit: of Σθ² over these weights.
        scales: log-scales that brought the network there, so that −scales is where it was.
    """
    orbit = _Orbit(known, weights, gradients)
    home = -orbit.flatten(scales)
    best, most = home, orbit.steepness(home)
    if not np.isfinite(most):
        raise LawscopeError("The loss has no gradient here, so that no place is steeper.")
    if limit <= orbit.least * (1 + LEAST):
        return orbit.unflatten(torch.zeros_like(home))
    rng = np.random.default_rng(0)
    starts = [home.numpy(), orbit.slope().numpy(), *rng.standard_normal((STARTS, len(home)))]
    for start in starts:
        if not np.abs(start).any():
            continue
        found: Any = minimize(
            orbit.descent,
            start / np.linalg.norm(start),
            args=(limit,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS},
        )
        direction = torch.from_numpy(found.x)
        place = orbit.reach(direction, limit) * direction
        if (steep := orbit.steepness(place)) > most:
            best, most = place, steep
    return orbit.unflatten(best)


class _Orbit:
    """Norm and gradient on the orbit of a network, as functions of the log-scales of its units."""

    def __init__(self, known: Sequence[Symmetry], weights: Weights, gradients: Weights) -> None:
        self.known = known
        self.shapes = {name: value.shape for name, value in weights.items()}
        self.logs = [
            torch.cat([held[name].flatten().square().log() for name in weights]).cpu()
            for held in (weights, gradients)
        ]
        self.least = float(self.logs[0].exp().sum())
        self.alive = [_find_alive(one, weights) for one in known]

    def flatten(self, scales: Sequence[Tensor]) -> Tensor:
        """Return the log-scales of active units in one row."""
        return torch.cat([s[alive] for s, alive in zip(scales, self.alive, strict=True)])

    def unflatten(self, row: Tensor) -> list[Tensor]:
        """Return log-scales by symmetry; 0 of dead units."""
        parts = row.split([int(alive.sum()) for alive in self.alive])
        return [
            torch.zeros(len(alive), dtype=row.dtype).masked_scatter(alive, part)
            for alive, part in zip(self.alive, parts, strict=True)
        ]

    def exponents(self, row: Tensor) -> Tensor:
        """Return the log-scale of every weight, linear in those of the units."""
        totals: Weights = {
            name: torch.zeros(shape, dtype=row.dtype) for name, shape in self.shapes.items()
        }
        for one, scale in zip(self.known, self.unflatten(row), strict=True):
            for leg in one.legs:
                shape = self.shapes[leg.parameter]
                along = torch.zeros(shape[leg.axis], dtype=row.dtype).index_add(
                    0, leg.index(one.units).flatten(), scale.repeat_interleave(leg.block)
                )
                wide = [-1 if axis == leg.axis else 1 for axis in range(len(shape))]
                totals[leg.parameter] = totals[leg.parameter] + leg.sign * along.view(wide)
        return torch.cat([totals[name].flatten() for name in self.shapes])

    def steepness(self, row: Tensor) -> float:
        """Return ln |∇L|² of these weights."""
        return float((self.logs[1] - 2 * self.exponents(row)).logsumexp(0))

    def slope(self) -> Tensor:
        """Return how ln |∇L|² grows with the log-scales at the least norm."""
        row = torch.zeros(sum(int(alive.sum()) for alive in self.alive), dtype=torch.float64)
        return self._differentiate(row)[1]

    def reach(self, direction: Tensor, limit: float) -> float:
        """Return t > 0 at which the norm along a direction is the limit."""
        exponents = self.exponents(direction)

        def excess(t: float) -> float:
            return float((self.logs[0] + 2 * t * exponents).logsumexp(0)) - float(np.log(limit))

        far = 1.0
        while excess(far) < 0 and far < FARTHEST:
            far *= 2
        return float(brentq(excess, 0.0, far, xtol=1e-14, rtol=1e-14))

    def descent(self, direction: FloatArray, limit: float) -> tuple[float, FloatArray]:
        """Return −ln |∇L|² on the boundary, and its derivative by the direction.

        The norm h(td) does not change along the boundary, so that ∂t/∂d = −t ∇h/(∇h·d).
        """
        d = torch.from_numpy(np.array(direction))
        t = self.reach(d, limit)
        value, steeper, larger = self._differentiate(t * d)
        slope = t * (steeper - (steeper @ d) / (larger @ d) * larger)
        return -value, -slope.numpy()

    def _differentiate(self, row: Tensor) -> tuple[float, Tensor, Tensor]:
        """Return ln |∇L|², its derivative and that of the log norm by the log-scales."""
        with torch.enable_grad():
            leaf = row.detach().requires_grad_()
            exponents = self.exponents(leaf)
            norm = (self.logs[0] + 2 * exponents).logsumexp(0)
            value = (self.logs[1] - 2 * exponents).logsumexp(0)
            (larger,) = torch.autograd.grad(norm, leaf, retain_graph=True)
            (steeper,) = torch.autograd.grad(value, leaf)
        return float(value.detach()), steeper, larger


def _find_alive(one: Symmetry, weights: Weights) -> Tensor:
    """Return which units have weights on both sides."""
    sides = torch.zeros(2, one.units, dtype=torch.float64)
    for leg in one.legs:
        rows = leg.view(weights[leg.parameter], one.units)
        sides[int(leg.sign < 0)] += rows.square().sum(1).cpu()
    return (sides > 0).all(0)
