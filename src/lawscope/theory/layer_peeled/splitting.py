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
        self._last: tuple[FloatArray, FloatArray] | None = None
        self._seen = 0

    def reset(self) -> None:
        """Forget all places."""
        self._last, self._seen = None, 0

    def next(self, place: FloatArray, residual: FloatArray) -> FloatArray:
        """Return where to go from a place with this residual."""
        if self._last is not None:
            self._remember(place - self._last[0], residual - self._last[1])
        self._last = place, residual
        kept = min(self._seen, len(self._gram))
        onward = place + residual
        if kept:
            scale = 1 / np.sqrt(np.maximum(self._gram.diagonal()[:kept], 1e-300))
            gram = self._gram[:kept, :kept] * np.outer(scale, scale)
            side = scale * (self._residuals[:kept] @ residual)
            mixture = scale * np.linalg.lstsq(gram, side, rcond=1e-13)[0]
            onward -= mixture @ self._images[:kept]
        return onward

    def _remember(self, moved: FloatArray, change: FloatArray) -> None:
        slot = self._seen % len(self._gram)
        self._residuals[slot], self._images[slot] = change, moved + change
        self._seen += 1
        kept = min(self._seen, len(self._gram))
        self._gram[slot, :kept] = self._gram[:kept, slot] = self._residuals[:kept] @ change


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

    def is_due(self, step: int, residual: float, tolerance: float) -> bool:
        """Return whether to look: always if it is cheap, else if the residual promises enough."""
        if len(self._program.sizes) <= CHEAP:
            return True
        last, size, relative = self._seen
        return step - last >= PAUSE or relative * residual / size <= tolerance

    def narrow(self, step: int, residual: float, near: Blocks, far: Blocks) -> float:
        """Look at a feasible point and at a point of the loss; return the price there."""
        program = self._program
        point, outer = evaluate(program, *near), evaluate(program, *far)
        top, spent = slope_norm(program, outer), work(outer)
        self._floor = max(self._floor, outer.loss + spent - program.tau * top)
        found = Solved(point, gap(program, point), step)
        if self._best is None or found.gap < self._best.gap:
            self._best = found
        self._seen = step, residual, found.gap / point.loss
        return price_by(spent / program.tau, top)

    def is_done(self, step: int, tolerance: float) -> bool:
        """Return whether the certificate of the best point is tight, or as tight as it gets."""
        best = self.best()
        bar = tolerance * best.point.loss
        stalled = step - best.steps > PATIENCE and best.gap <= NEAR * bar
        return stalled or (self._best is not None and self._best.gap <= bar)

    def best(self) -> Solved:
        """Return the best point with the smaller of its two certificates."""
        if self._best is None:
            raise ArithmeticError("no point has been looked at")
        between = max(self._best.point.loss - self._floor, 0.0)
        return self._best._replace(gap=min(self._best.gap, between))


def price_by(gain: float, top: float) -> float:
    """Return μ by what the loss gains along Z, −⟨Γ, Z⟩/τ, which is at most ‖Γ‖₂."""
    return min(max(gain, 0.01 * top), top)


class Step(NamedTuple):
    """One step: the feasible point, the point of the loss, what is between them."""

    x: FloatArray
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
        self._rho = self._stiffness * mu / program.classes
        self._rows = RowStep(program, self._rho, (start.a, start.M))
        pull = modes(program, start) / self._rho, start.grad_m / -self._rho
        self._y = self._pack(start.a + pull[0], start.M + pull[1])
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
        held = taken.cut * self._rho
        price = np.sqrt(held * price) if held else price
        wanted = self._stiffness / self._program.classes * price
        if self._rho / UNBALANCED <= wanted <= self._rho * UNBALANCED or not wanted > 0:
            return False
        # x and the dual variable ρ(y − x) stay as they are.
        self._y = taken.x + (self._y - taken.x) * (self._rho / wanted)
        self._rho, self._before = float(wanted), None
        self._rows.stiffen(self._rho)
        self._anderson.reset()
        return True

    def _look(self) -> Step:
        a, M, cut = project(self._program, *self._unpack(self._y))
        x = self._pack(a, M)
        far = self._rows(*self._unpack(2 * x - self._y))
        residual = self._pack(*far) - x
        return Step(x, (a, M), far, cut, residual, float(np.linalg.norm(residual)))

    def _pack(self, a: FloatArray, M: FloatArray) -> FloatArray:
        """Return one vector whose length is ‖Z‖_F."""
        return np.concatenate([self._weight * a, M.ravel()])

    def _unpack(self, y: FloatArray) -> Blocks:
        groups = len(self._weight)
        weight = np.where(self._weight > 0, self._weight, 1.0)
        return y[:groups] / weight, y[groups:].reshape(groups, groups)


def split(program: Program, start: Blocks, *, tolerance: float) -> Solved:
    """Find the optimum by splitting."""
    bracket, splitting = Bracket(program), Splitting(program, evaluate(program, *start))
    balanced = 0
    with progress("Layer-Peeled Model", None) as count:
        for step in range(1, STEPS + 1):
            taken = splitting.step()
            count(1)
            if bracket.is_due(step, taken.size, tolerance):
                price = bracket.narrow(step, taken.size, taken.near, taken.far)
                if bracket.is_done(step, tolerance):
                    break
                if step - balanced >= BETWEEN and splitting.rebalance(taken, price):
                    balanced = step
                    continue
            splitting.advance(taken)
    return bracket.best()
