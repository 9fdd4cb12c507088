"""Solve a reduced program: the closed form where there is one, splitting elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lawscope.theory.layer_peeled.program import Program, Solved, evaluate, gap, nuclear_norm
from lawscope.theory.layer_peeled.splitting import split
from lawscope.theory.layer_peeled.start import water_fill

FloatArray = NDArray[np.float64]
Pair = tuple[FloatArray, FloatArray]
TOLERANCE = 1e-10
LIGHT = 1e-3  # of the share of the lightest group, by which a smoothed loss may miss


def solve(program: Program, tolerance: float = TOLERANCE) -> Solved:
    """The optimum with its certificate.

    Args:
        program: what to solve.
        tolerance: relative gap to reach; smaller under label smoothing of very small classes.

    Returns:
        The point, the gap and the steps taken.
    """
    free = unconstrained(program)
    if free is not None:
        return free
    if program.smoothing:
        # A smoothed loss is never small: a gap relative to it would not see the smallest classes.
        tolerance = min(tolerance, LIGHT * float((program.sizes * program.alpha).min()))
    return split(program, begin(program), tolerance=tolerance)


def unconstrained(program: Program) -> Solved | None:
    """Under label smoothing the loss has a finite minimiser; None when it lies outside τ.

    There p is the target: z + δ = log(1 + K(1 − ε)/ε) for the own class and 0 for the others; in
    a pinned group the target of the own class is shared by all K_g.
    """
    if not program.smoothing:
        return None
    K, root = program.classes, np.sqrt(program.sizes)
    odds = K * (1 - program.smoothing) / program.smoothing
    margin = np.log1p(np.where(program.held, odds / program.sizes, odds))
    strength = np.where(program.held, program.sizes * margin, margin)
    a = np.where(program.copies > 0, margin, 0.0)
    centre = np.eye(len(root)) - np.outer(root, root) / K
    M = (np.diag(strength) - np.outer(root, root * program.offsets)) @ centre
    if nuclear_norm(program, a, M) > program.tau:
        return None
    # Γ = 0 there by construction, up to rounding: the certificate says so and costs nothing.
    point = evaluate(program, a, M)
    return Solved(point, gap(program, point), 0)


def begin(program: Program) -> Pair:
    """Water-filling, brought onto the constraint unless that makes the loss worse."""
    (a, M), _ = water_fill(program)
    a = np.where(program.copies > 0, a, 0.0)
    scale = program.tau / nuclear_norm(program, a, M)
    onto = a * scale, M * scale
    if scale < 1 or evaluate(program, *onto).loss < evaluate(program, a, M).loss:
        return onto
    return a, M
