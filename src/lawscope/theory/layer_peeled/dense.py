"""Newton systems of the smoothed program, factorised: for up to a score of groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from lawscope.theory.layer_peeled.program import Point, Program
from lawscope.theory.layer_peeled.smoothed import Spectrum, rounded

FloatArray = NDArray[np.float64]
Pair = tuple[FloatArray, FloatArray]


class DenseNewton:
    """Solve (∇²f + μ∇²N_e)·d = right-hand side for d = (a, M), by one Cholesky factorisation."""

    def __init__(self, program: Program, point: Point, spectrum: Spectrum, mu: float) -> None:
        groups = len(program.sizes)
        matrix = np.zeros((groups, groups + 1, groups, groups + 1))
        index = np.arange(groups)
        matrix[index, :, index, :] = row_curvature(program, point)
        copies = program.copies
        bend = rounded(point.a, spectrum.e).curvature
        # A group of one class has no within-group mode: hold its a at zero.
        held = copies == 0
        matrix[held, 0] = 0
        matrix[:, :, held, 0] = 0
        matrix[index, 0, index, 0] += np.where(copies > 0, mu * copies * bend, 1.0)
        matrix[:, 1:, :, 1:] += mu * spectral_curvature(spectrum)
        size = groups * (groups + 1)
        flat = matrix.reshape(size, size)
        # Scaled to a unit diagonal: weights of classes may span many powers of ten.
        self._scale = 1 / np.sqrt(flat.diagonal())
        flat = flat * self._scale[:, None] * self._scale[None, :]
        flat[np.diag_indices(size)] += 1e-15
        self._factor = cho_factor(flat, lower=True)

    def solve(self, a: FloatArray, M: FloatArray) -> Pair:
        """D with H·d = (a, M)."""
        side = np.concatenate([a[:, None], M], axis=1).ravel() * self._scale
        found = (cho_solve(self._factor, side) * self._scale).reshape(len(a), len(a) + 1)
        return found[:, 0], found[:, 1:]


def row_curvature(program: Program, point: Point) -> FloatArray:
    """∇²f, block-diagonal over rows: variables (a_g, M_g1 … M_gG), shape (G, G+1, G+1)."""
    groups, sizes, root = len(program.sizes), program.sizes, np.sqrt(program.sizes)
    index = np.arange(groups)
    jacobian = np.zeros((groups, groups, groups + 1))
    jacobian[:, :, 0] = -(1 - 1 / sizes)[:, None]
    jacobian[index, index, 0] = -1
    jacobian[:, index, index + 1] = 1 / (root[:, None] * root[None, :])
    jacobian[index, :, index + 1] = -1 / sizes[:, None]
    jacobian[index, index, index + 1] = 0
    chance = point.chance
    inner = (chance[:, :, None] * jacobian).transpose(0, 2, 1) @ jacobian
    mean = (chance[:, None, :] @ jacobian)[:, 0]
    weight = (sizes * program.alpha)[:, None, None]
    return np.asarray(weight * (inner - mean[:, :, None] * mean[:, None, :]))


def spectral_curvature(spectrum: Spectrum) -> FloatArray:
    """∇²N_e on G×G matrices, shape (G, G, G, G)."""
    symmetric, skew = spectrum.weights()
    U, V = spectrum.U, spectrum.Vt.T
    straight, crossed = (symmetric + skew) / 2, (symmetric - skew) / 2
    basis = np.einsum("ai,bj->abij", U, V)
    size = U.shape[0] ** 2
    flat = basis.reshape(size, size)
    turned = basis.transpose(0, 1, 3, 2).reshape(size, size)
    curved = (flat * straight.ravel()) @ flat.T + (flat * crossed.ravel()) @ turned.T
    return np.asarray(curved.reshape(basis.shape))
