"""What is known of the optimum: the best feasible point and the highest lower bound so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lawscope.theory.layer_peeled.program import (
    Point,
    Program,
    Solved,
    evaluate,
    gap,
    slope_norm,
    work,
)

FloatArray = NDArray[np.float64]
Pair = tuple[FloatArray, FloatArray]
CHEAP, PAUSE = 64, 6  # groups up to which every step is looked at; else at least every sixth
NEAR, PATIENCE = 10.0, 12  # so near to the tolerance, steps without progress are the last


class Bracket:
    """An upper and a lower bound of the optimum of one program.

    The tangent of f at any point Z, feasible or not, bounds the optimum from below:
    f(Z′) ≥ f(Z) + ⟨Γ, Z′ − Z⟩ ≥ f(Z) − ⟨Γ, Z⟩ − τ‖Γ‖₂ for all ‖Z′‖_* ≤ τ.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._best: Solved | None = None
        self._floor = -np.inf
        self._seen = (0, np.inf, np.inf)

    def due(self, step: int, residual: float, tolerance: float) -> bool:
        """Whether to look: always if it is cheap, else if the residual promises the tolerance."""
        if len(self._program.sizes) <= CHEAP:
            return True
        last, size, relative = self._seen
        return step - last >= PAUSE or relative * residual / size <= tolerance

    def narrow(self, step: int, residual: float, near: Pair, far: Pair) -> float:
        """Look at a feasible point and at a point of the loss; returns the price there."""
        program = self._program
        point, outer = evaluate(program, *near), evaluate(program, *far)
        top = slope_norm(program, outer)
        spent = work(outer)
        self._floor = max(self._floor, outer.loss + spent - program.tau * top)
        found = Solved(point, gap(program, point), step)
        if self._best is None or found.gap < self._best.gap:
            self._best = found
        self._seen = step, residual, found.gap / point.loss
        return _within(spent / program.tau, top)

    def price(self, point: Point) -> float:
        """μ by what the loss gains along Z, −⟨Γ, Z⟩/τ, which is at most ‖Γ‖₂."""
        return _within(work(point) / self._program.tau, slope_norm(self._program, point))

    def done(self, step: int, tolerance: float) -> bool:
        """Whether the certificate of the best point is tight, or as tight as it gets."""
        best = self.best()
        bar = tolerance * best.point.loss
        stalled = step - best.steps > PATIENCE and best.gap <= NEAR * bar
        return stalled or (self._best is not None and self._best.gap <= bar)

    def best(self) -> Solved:
        """The best point with the smaller of its two certificates."""
        if self._best is None:
            raise ArithmeticError("no point has been looked at")
        between = max(self._best.point.loss - self._floor, 0.0)
        return self._best._replace(gap=min(self._best.gap, between))


def _within(price: float, top: float) -> float:
    return min(max(price, 0.01 * top), top)
