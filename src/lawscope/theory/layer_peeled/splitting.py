"""Douglas–Rachford splitting: the loss alone and the constraint alone, in turn.

From a place y: x is the nearest point of the ball ‖Z‖_* ≤ τ, z the proximal step of the loss from
2x − y, and the next y is y + z − x. Both steps are exact and cheap, x is feasible, and where z = x
both are the optimum. The steps are those of a nonexpansive map with a smooth fixed point, which
Anderson acceleration turns into a Krylov method; docs/layer-peeled.md says why few steps suffice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.progress import progress
from lawscope.theory.layer_peeled.program import (
    Blocks,
    Point,
    Program,
    Solved,
    evaluate,
    gap,
    modes,
    slope_norm,
    work,
)
from lawscope.theory.layer_peeled.proximal import RowStep, project

STEPS = 300
# ρ in units of μ/K, the curvature of the loss between classes.
STIFFNESS = 2.0
# Change ρ if it is off by this factor, and at most every so many steps.
UNBALANCED, BETWEEN = 3.0, 5
# ρ rises by this factor where an accelerated step is undone; at most so far.
STIFFER, STIFFEST = 1.5, 30.0
# An accelerated step may raise the residual by this factor.
GROWTH = 1.5
# Places remembered, and bytes they may take.
MEMORY, LARGEST = 12, 5e8
# Up to so many groups every step is certified, beyond them at least every sixth.
CHEAP, PAUSE = 64, 6
# So near to the tolerance, so many steps without progress are the last.
NEAR, PATIENCE = 10.0, 12


class Anderson:
    """The next place from the last few: the mixture whose residuals cancel best (type II).

    With residuals F_n = T(y_n) − y_n, their last differences ΔF, those of the places Δy, and
    γ = argmin ‖F_n − ΔF·γ‖, the next place is y_n + F_n − (Δy + ΔF)·γ (Walker and Ni, SIAM Journal
    on Numerical Analysis 2011). For a linear T this is GMRES.
    """

    def __init__(self, size: int, memory: int) -> None:
        self._residuals, self._images = np.empty((2, memory, size))
        self._gram = np.zeros((memory, memory))
        self.reset()

    def reset(self) -> None:
        """Forget all places."""
        self._last: tuple[FloatArray, FloatArray] | None = None
        self._seen = 0

    def next(self, place: FloatArray, residual: FloatArray) -> FloatArray:
        """Return where to go from a place with this residual."""
        last, self._last, onward = self._last, (place, residual), place + residual
        if last is None:
            return onward
        slot, change = self._seen % len(self._gram), residual - last[1]
        self._residuals[slot], self._images[slot] = change, place - last[0] + change
        self._seen += 1
        kept = min(self._seen, len(self._gram))
        self._gram[slot, :kept] = self._gram[:kept, slot] = self._residuals[:kept] @ change
        scale = 1 / np.sqrt(np.maximum(self._gram.diagonal()[:kept], 1e-300))
        gram = self._gram[:kept, :kept] * np.outer(scale, scale)
        side = scale * (self._residuals[:kept] @ residual)
        mixture = scale * np.linalg.lstsq(gram, side, rcond=1e-13)[0]
        return np.asarray(onward - mixture @ self._images[:kept])


class Bracket:
    """An upper and a lower bound of the optimum of one program, from a feasible point on.

    The tangent of f at any point Z, feasible or not, bounds the optimum from below:
    f(Z′) ≥ f(Z) + ⟨Γ, Z′ − Z⟩ ≥ f(Z) − ⟨Γ, Z⟩ − τ‖Γ‖₂ for all ‖Z′‖_* ≤ τ.
    """

    def __init__(self, program: Program, start: Point) -> None:
        self._program = program
        self._best = Solved(start, gap(program, start), 0)
        self._floor = -np.inf

    def narrow(self, step: int, near: Blocks, far: Blocks) -> tuple[float, float]:
        """Look at a feasible point and one of the loss; return relative gap and price there."""
        program = self._program
        point, outer = evaluate(program, *near), evaluate(program, *far)
        top, spent = slope_norm(program, outer), work(outer)
        self._floor = max(self._floor, outer.loss + spent - program.tau * top)
        found = Solved(point, gap(program, point), step)
        if found.gap < self._best.gap:
            self._best = found
        return found.gap / point.loss, price_by(spent / program.tau, top)

    def is_done(self, step: int, tolerance: float) -> bool:
        """Return whether the certificate of the best point is tight, or as tight as it gets."""
        bar = tolerance * self._best.point.loss
        stalled = step - self._best.steps > PATIENCE and self.best().gap <= NEAR * bar
        return stalled or self._best.gap <= bar

    def best(self) -> Solved:
        """Return the best point with the smaller of its two certificates."""
        between = max(self._best.point.loss - self._floor, 0.0)
        return self._best._replace(gap=min(self._best.gap, between))


def price_by(gain: float, top: float) -> float:
    """Return μ by what the loss gains along Z, −⟨Γ, Z⟩/τ, which is at most ‖Γ‖₂."""
    return min(max(gain, 0.01 * top), top)


class Step(NamedTuple):
    """One step: the feasible point, the point of the loss, what is between them."""

    near: Blocks
    far: Blocks
    cut: float
    residual: FloatArray
    size: float


class Splitting:
    """The iteration from a start."""

    def __init__(self, program: Program, start: Point) -> None:
        self._program = program
        mu = price_by(work(start) / program.tau, slope_norm(program, start))
        self._weight = np.sqrt(program.copies)
        # Under offsets the curvature in a column goes with its share e^δ: between mean and largest.
        share = np.exp(program.offsets - program.offsets.max())
        self._stiffness = STIFFNESS * float(np.sqrt(program.classes / (program.sizes @ share)))
        rho = self._stiffness * mu / program.classes
        self._rows = RowStep(program, rho, (start.a, start.M))
        self._y = self._pack(start.a + modes(program, start) / rho, start.M - start.grad_m / rho)
        memory = int(LARGEST / (16 * self._y.size))
        self._anderson = Anderson(self._y.size, min(max(memory, 2), MEMORY))
        self._before: tuple[FloatArray, float] | None = None

    def step(self) -> Step:
        """Take one step from here, or from where plain steps lead if that is better."""
        taken = self._look()
        if self._before is not None and not taken.size <= GROWTH * self._before[1]:
            # A plain step never raises the residual: go back and forget.
            self._y = self._before[0]
            self._anderson.reset()
            self._stiffness = min(self._stiffness * STIFFER, STIFFEST)
            taken = self._look()
        self._before = self._y + taken.residual, taken.size
        return taken

    def advance(self, taken: Step) -> None:
        """Leave for the next place."""
        self._y = self._anderson.next(self._y, taken.residual)

    def rebalance(self, taken: Step, price: float) -> bool:
        """Adapt ρ where the price has turned out to be another; return whether that was so.

        The price is known from both sides, μ = ρ·cut from the ball and that of the loss.
        """
        rho = self._rows.rho
        price = np.sqrt(taken.cut * rho * price) if taken.cut else price
        wanted = float(self._stiffness / self._program.classes * price)
        if rho / UNBALANCED <= wanted <= rho * UNBALANCED or not wanted > 0:
            return False
        # The feasible point x and the dual variable ρ(y − x) stay as they are.
        x = self._pack(*taken.near)
        self._y = x + (self._y - x) * (rho / wanted)
        self._rows.rho, self._before = wanted, None
        self._anderson.reset()
        return True

    def _look(self) -> Step:
        a, M, cut = project(self._program, *self._unpack(self._y))
        x = self._pack(a, M)
        far = self._rows(*self._unpack(2 * x - self._y))
        residual = self._pack(*far) - x
        return Step((a, M), far, cut, residual, float(np.linalg.norm(residual)))

    def _pack(self, a: FloatArray, M: FloatArray) -> FloatArray:
        """Return one vector whose length is ‖Z‖_F."""
        return np.concatenate([self._weight * a, M.ravel()])

    def _unpack(self, y: FloatArray) -> Blocks:
        groups = len(self._weight)
        weight = np.where(self._weight > 0, self._weight, 1.0)
        return y[:groups] / weight, y[groups:].reshape(groups, groups)


def split(program: Program, start: Blocks, *, tolerance: float) -> Solved:
    """Find the optimum by splitting."""
    begun = evaluate(program, *start)
    bracket, splitting = Bracket(program, begun), Splitting(program, begun)
    # The last step that was certified, its residual over its relative gap; the last change of ρ.
    certified, scale, balanced = 0, 0.0, 0
    with progress("Layer-Peeled Model", None) as count:
        for step in range(1, STEPS + 1):
            taken = splitting.step()
            count(1)
            promising = taken.size <= tolerance * scale
            if promising or step - certified >= PAUSE or len(program.sizes) <= CHEAP:
                relative, price = bracket.narrow(step, taken.near, taken.far)
                certified, scale = step, taken.size / relative if relative else np.inf
                if bracket.is_done(step, tolerance):
                    break
                if step - balanced >= BETWEEN and splitting.rebalance(taken, price):
                    balanced = step
                    continue
            splitting.advance(taken)
    return bracket.best()
