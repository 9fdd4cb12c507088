"""Solve a reduced program: closed forms where there are any, the central path elsewhere."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from lawscope.theory.layer_peeled.coarse import coarsen, refine
from lawscope.theory.layer_peeled.dense import DenseNewton
from lawscope.theory.layer_peeled.path import Solved, follow
from lawscope.theory.layer_peeled.program import (
    Program,
    evaluate,
    gap,
    nuclear_norm,
    slope_norm,
)
from lawscope.theory.layer_peeled.sharpen import sharpen
from lawscope.theory.layer_peeled.start import water_fill

FloatArray = NDArray[np.float64]
TOLERANCE = 1e-10
DENSE, COARSE = 24, 12  # groups solved as they are; groups made of more
NEAR = 1e-4  # relative gap at which the path hands over to the last digits


def solve(program: Program, tolerance: float = TOLERANCE) -> Solved:
    """The optimum with its certificate.

    Args:
        program: what to solve.
        tolerance: relative gap to reach.

    Returns:
        The point, the gap and the Newton steps of the last stage.
    """
    free = unconstrained(program)
    if free is not None:
        return free
    if len(program.sizes) > DENSE:
        coarse, member = coarsen(program, COARSE)
        return refine(program, coarse, member, solve(coarse, tolerance))
    return settled(program, _by_path(program, tolerance), tolerance)


def _by_path(program: Program, tolerance: float) -> Solved:
    start, mu = water_fill(program)
    place = follow(program, start, mu, DenseNewton, tolerance=NEAR, rounding=0.1)
    return sharpen(program, place, DenseNewton, tolerance=tolerance)


def unconstrained(program: Program) -> Solved | None:
    """Under label smoothing the loss has a finite minimiser; None when it lies outside τ."""
    if not program.smoothing or program.pinned:
        return None
    K, root = program.classes, np.sqrt(program.sizes)
    margin = float(np.log1p(K * (1 - program.smoothing) / program.smoothing))
    a = np.where(program.copies > 0, margin, 0.0)
    centre = np.eye(len(root)) - np.outer(root, root) / K
    M = (margin * np.eye(len(root)) - np.outer(root, root * program.offsets)) @ centre
    if nuclear_norm(program, a, M) > program.tau:
        return None
    # Γ = 0 there by construction, up to rounding: the point is optimal for any τ beyond its norm.
    return Solved(evaluate(program, a, M), 0.0, 0)


def settled(program: Program, solved: Solved, tolerance: float) -> Solved:
    """Put a_g to exactly zero where the dual says so: α_g(1 − ε) ≤ ‖Γ‖₂."""
    price = slope_norm(program, solved.point)
    merged = program.alpha * (1 - program.smoothing) <= price * (1 + 1e-9)
    if not (merged & (program.copies > 0)).any():
        return solved
    bar = max(solved.gap, tolerance * solved.point.loss)
    cut = _certified(program, np.where(merged, 0.0, solved.point.a), solved)
    if cut.gap <= bar:
        return cut
    # Close to a threshold cutting is not enough: solve with these groups held together.
    pinned = dataclasses.replace(program, pinned=tuple(np.flatnonzero(merged).tolist()))
    held = _by_path(pinned, tolerance)
    cut = _certified(program, held.point.a, held)
    return cut if cut.gap <= bar else solved


def _certified(program: Program, a: FloatArray, solved: Solved) -> Solved:
    """(a, M) scaled onto the constraint, with the certificate of the whole program."""
    norm = nuclear_norm(program, a, solved.point.M)
    if norm <= 0:
        return solved._replace(gap=np.inf)
    point = evaluate(program, a * program.tau / norm, solved.point.M * program.tau / norm)
    return Solved(point, gap(program, point), solved.steps)
