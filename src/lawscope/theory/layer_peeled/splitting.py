"""Douglas–Rachford splitting: the loss alone and the constraint alone, in turn.

From a place y: x is the nearest point of the ball ‖Z‖_* ≤ τ, z the proximal step of the loss from
2x − y, and the next y is y + z − x. Both steps are exact and cheap, x is feasible, and where z = x
both are the optimum. The steps are those of a nonexpansive map with a smooth fixed point, which
Anderson acceleration turns into a Krylov method; docs/layer-peeled.md says why few steps suffice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lawscope.progress import progress
from lawscope.theory.layer_peeled.anderson import Anderson
from lawscope.theory.layer_peeled.ball import project
from lawscope.theory.layer_peeled.bracket import Bracket
from lawscope.theory.layer_peeled.program import Point, Program, Solved, evaluate, modes
from lawscope.theory.layer_peeled.rows import RowStep

FloatArray = NDArray[np.float64]
Pair = tuple[FloatArray, FloatArray]
STEPS = 300
STIFFNESS = 2.0  # ρ in units of μ/K, the curvature of the loss between classes
UNBALANCED, SETTLE = 3.0, 5  # change ρ if it is this far off, and at most every so many steps
STIFFER, STIFFEST = 1.5, 30.0  # ρ rises by this much where mixtures are undone; at most so far
GROWTH = 1.5  # an accelerated step may raise the residual by this much
MEMORY, LARGEST = 12, 5e8  # places remembered; bytes they may take


class Turn(NamedTuple):
    """One turn: the feasible point, the point of the loss, what is between them."""

    x: FloatArray
    near: Pair
    far: Pair
    cut: float
    residual: FloatArray
    size: float


class Splitting:
    """The iteration, from a start (a, M) and a first guess of the price μ."""

    def __init__(self, program: Program, start: Point, mu: float) -> None:
        self._program = program
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

    def turn(self) -> Turn:
        """One turn from the present place, or from where plain steps lead if that is better."""
        turn = self._look()
        if self._before is not None and not turn.size <= GROWTH * self._before[1]:
            # A plain step never raises the residual: go back and forget.
            self._y = self._before[0]
            self._anderson.forget()
            self._stiffness = min(self._stiffness * STIFFER, STIFFEST)
            turn = self._look()
        self._before = self._y + turn.residual, turn.size
        return turn

    def onward(self, turn: Turn) -> None:
        """Leave for the next place."""
        self._y = self._anderson.next(self._y, turn.residual)

    def balance(self, turn: Turn, price: float) -> bool:
        """Choose ρ anew where the price has turned out to be another; True if that was so.

        The price is known from both sides, μ = ρ·cut from the ball and that of the loss.
        """
        held = turn.cut * self._rho
        wanted = (
            self._stiffness / self._program.classes * (np.sqrt(held * price) if held else price)
        )
        if self._rho / UNBALANCED <= wanted <= self._rho * UNBALANCED or not wanted > 0:
            return False
        # x and the dual variable ρ(y − x) stay as they are.
        self._y = turn.x + (self._y - turn.x) * (self._rho / wanted)
        self._rho = float(wanted)
        self._rows.stiffen(self._rho)
        self._anderson.forget()
        self._before = None
        return True

    def _look(self) -> Turn:
        a, M, cut = project(self._program, *self._unpack(self._y))
        x = self._pack(a, M)
        far = self._rows(*self._unpack(2 * x - self._y))
        residual = self._pack(*far) - x
        return Turn(x, (a, M), far, cut, residual, float(np.linalg.norm(residual)))

    def _pack(self, a: FloatArray, M: FloatArray) -> FloatArray:
        """One vector whose length is ‖Z‖_F."""
        return np.concatenate([self._weight * a, M.ravel()])

    def _unpack(self, y: FloatArray) -> Pair:
        groups = len(self._weight)
        weight = np.where(self._weight > 0, self._weight, 1.0)
        return y[:groups] / weight, y[groups:].reshape(groups, groups)


def split(program: Program, start: Pair, *, tolerance: float) -> Solved:
    """The optimum by splitting.

    Args:
        program: what to solve.
        start: (a, M) to begin with, feasible.
        tolerance: relative gap to reach.

    Returns:
        The best point seen, its certificate and the turns taken.
    """
    bracket = Bracket(program)
    point = evaluate(program, *start)
    splitting = Splitting(program, point, bracket.price(point))
    balanced = 0
    with progress("Layer-Peeled Model", None) as advance:
        for step in range(1, STEPS + 1):
            turn = splitting.turn()
            advance(1)
            if bracket.due(step, turn.size, tolerance):
                price = bracket.narrow(step, turn.size, turn.near, turn.far)
                if bracket.done(step, tolerance):
                    break
                if step - balanced >= SETTLE and splitting.balance(turn, price):
                    balanced = step
                    continue
            splitting.onward(turn)
    return bracket.best()
