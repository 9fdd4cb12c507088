"""The constraint alone: the nearest point with ‖Z‖_* ≤ τ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from lawscope.theory.layer_peeled.program import Program

FloatArray = NDArray[np.float64]


class Projected(NamedTuple):
    """The nearest point of the ball and the length by which singular values were cut."""

    a: FloatArray
    M: FloatArray
    cut: float


def project(program: Program, a: FloatArray, M: FloatArray) -> Projected:
    """Cut all singular values by one length, so that those left over add up to τ.

    The singular values are those of M and, K_g − 1 times each, |a_g|. They come from MᵀM: what is
    kept lies above the cut, so squaring loses nothing.

    Args:
        program: sizes and τ.
        a: within-group strengths, shape (G,).
        M: between-group matrix, shape (G, G).

    Returns:
        The projection.
    """
    squares, V = eigh(M.T @ M, driver="evd", check_finite=False)
    sigma = np.sqrt(np.maximum(squares, 0.0))
    values = np.concatenate([np.abs(a), sigma])
    cut = _cut(values, np.concatenate([program.copies, np.ones(len(sigma))]), program.tau)
    if cut <= 0:
        return Projected(a, M, 0.0)
    kept = sigma > cut
    V = V[:, kept]
    shrunk = ((M @ V) * (1 - cut / sigma[kept])) @ V.T
    return Projected(np.sign(a) * np.maximum(np.abs(a) - cut, 0.0), shrunk, cut)


def _cut(values: FloatArray, copies: FloatArray, total: float) -> float:
    """The length c with Σ copies·(value − c)₊ = total; negative where the sum is below it."""
    order = np.argsort(-np.where(copies > 0, values, -1.0))
    values, counts = values[order], np.cumsum(copies[order])
    cuts = (np.cumsum(copies[order] * values) - total) / counts
    # The largest value is always above its cut; where it is so by less than rounding, none is.
    above = np.flatnonzero((values > cuts) & (copies[order] > 0))
    return float(cuts[above[-1] if len(above) else 0])
