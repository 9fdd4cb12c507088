"""The nuclear norm with its kink rounded at length e, as a log-determinant barrier rounds it.

Partial minimisation of tr X/2 − e·log det X over the diagonal blocks of X = [[A, M], [Mᵀ, B]] ⪰ 0
leaves, for every singular value σ of M, N_e(σ) = r − e − e·log((e + r)/2e) with r = √(e² + σ²). Its
slope g = σ/(e + r) is below one: wherever ∇f = −μ∇N_e, Γ is dual feasible by construction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
TINY = 1e-300


class Rounded(NamedTuple):
    """N_e and its derivatives at given values σ (any sign)."""

    value: FloatArray
    slope: FloatArray
    curvature: FloatArray
    drift: FloatArray


def rounded(sigma: FloatArray, e: float) -> Rounded:
    """N_e, dN/dσ, d²N/dσ² and d²N/dσde, elementwise.

    Example:
        >>> float(rounded(np.array([3.0]), 1e-12).value[0].round(6))
        3.0
    """
    r = np.hypot(e, sigma)
    slope = sigma / (e + r)
    value = r - e - e * np.log((e + r) / (2 * e))
    return Rounded(value, slope, e / (r * (e + r)), -slope / r)


class Spectrum(NamedTuple):
    """Singular value decomposition M = U·diag(σ)·Vᵀ and N_e on it."""

    U: FloatArray
    sigma: FloatArray
    Vt: FloatArray
    e: float

    def along(self, values: FloatArray) -> FloatArray:
        """U·diag(values)·Vᵀ."""
        return np.asarray((self.U * values) @ self.Vt)

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Curvature of N_e on the symmetric and the antisymmetric part of UᵀDV.

        (g_i − g_j)/(σ_i − σ_j) written without the cancellation, and (g_i + g_j)/(σ_i + σ_j).
        """
        e, s = self.e, np.maximum(self.sigma, TINY)
        r = np.hypot(e, s)
        g = s / (e + r)
        both = s[:, None] + s[None, :]
        cross = s[:, None] * r[None, :] + r[:, None] * s[None, :]
        shared = (e + r)[:, None] * (e + r)[None, :]
        return (e + e * e * both / cross) / shared, (g[:, None] + g[None, :]) / both


def decompose(M: FloatArray, e: float) -> Spectrum:
    """The spectrum of M."""
    U, sigma, Vt = np.linalg.svd(M)
    return Spectrum(U, sigma, Vt, e)
