"""Many different class sizes: neighbours in size count as equal, the gap says what it costs.

The optimum of the coarse program is feasible for the fine one. Its certificate is computed on the
fine program, so the gap counts what the grouping costs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lawscope.theory.layer_peeled.path import Solved
from lawscope.theory.layer_peeled.program import Program, evaluate, gap, nuclear_norm

FloatArray = NDArray[np.float64]


def coarsen(program: Program, groups: int) -> tuple[Program, NDArray[np.int64]]:
    """A program of at most so many groups, and the coarse group of every fine one.

    Cuts lie evenly in log α; a coarse group has the mean weight and offset of its classes.
    """
    height = np.log(program.alpha)
    edges = np.linspace(height.max(), height.min(), groups + 1)[1:-1]
    _, member = np.unique(np.searchsorted(-edges, -height, side="left"), return_inverse=True)
    sizes = np.bincount(member, program.sizes).astype(np.float64)
    alpha = np.bincount(member, program.sizes * program.alpha) / sizes
    offsets = np.bincount(member, program.sizes * program.offsets) / sizes
    return Program(sizes, alpha, offsets, program.smoothing, program.tau), member


def refine(program: Program, coarse: Program, member: NDArray[np.int64], solved: Solved) -> Solved:
    """The coarse optimum as a point of the fine program, with the fine certificate."""
    a, M = solved.point.a, solved.point.M
    root = np.sqrt(coarse.sizes)
    between = M / (root[:, None] * root[None, :])
    between[np.diag_indices(len(a))] -= a / coarse.sizes
    fine_root = np.sqrt(program.sizes)
    fine = between[member[:, None], member[None, :]] * fine_root[:, None] * fine_root[None, :]
    fine[np.diag_indices(len(member))] += a[member]
    within = np.where(program.copies > 0, a[member], 0.0)
    scale = program.tau / nuclear_norm(program, within, fine)
    point = evaluate(program, within * scale, fine * scale)
    return Solved(point, gap(program, point), solved.steps)
