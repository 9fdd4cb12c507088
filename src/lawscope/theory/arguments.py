"""What the closed forms are asked with: finite numbers, vectors, matrices, covariances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError

# Of the largest entry or eigenvalue: what sums in float32 leave of symmetry and of a zero.
ROUNDING = 1e-6
# Of the largest singular value: below it float64 cannot tell a value from zero.
NEGLIGIBLE = 1e-12
# Products of three such numbers are still floats.
LARGEST = 1e100

_LIKE = ("a finite number like 0.5", "a row of finite numbers like [3, 1]")
_MATRIX = "a matrix of finite numbers like [[2, 0], [0, 1]]"


class Covariance(NamedTuple):
    """A positive semi-definite matrix, its eigenvalues, ascending, and eigenvectors."""

    matrix: FloatArray
    values: FloatArray
    vectors: FloatArray

    def power(self, exponent: float) -> FloatArray:
        """Return the power of the matrix, a negative one on its range, shape (d, d)."""
        alive = self.values > NEGLIGIBLE * self.values[-1]
        powers = np.zeros_like(self.values)
        powers[alive] = self.values[alive] ** exponent
        return np.asarray((self.vectors * powers) @ self.vectors.T)

    @property
    def trace(self) -> float:
        """Σλ_i."""
        return float(self.values.sum())


def read_array(name: str, value: ArrayLike, *dimensions: int) -> FloatArray:
    """Return finite numbers, as many-dimensional as one of ``dimensions`` says."""
    try:
        given = np.asarray(value)
        # Not text, dates or complex numbers, which would be cast.
        found = given.astype(np.float64) if given.dtype.kind in "biufO" else np.full(1, np.nan)
    # Ragged rows, numbers beyond the floats, a tensor with a gradient.
    except (TypeError, ValueError, OverflowError, RuntimeError):
        found = np.full(1, np.nan)
    if found.ndim not in dimensions or not (found.size and np.isfinite(found).all()):
        wanted = " or ".join((*_LIKE, _MATRIX)[each] for each in dimensions)
        raise LawscopeError(f"{name} must be {wanted}.")
    if (size := np.abs(found).max()) > LARGEST:
        raise LawscopeError(f"{name} reaches {size:.3g}; rescale the problem below {LARGEST:g}.")
    return found


def read_number(name: str, value: ArrayLike, *, positive: bool = False) -> float:
    """Return a number that is not negative, or is positive."""
    found = float(read_array(name, value, 0))
    if found < 0 or (positive and not found):
        raise LawscopeError(
            f"{name} is {found:g}; give {'more than' if positive else 'at least'} 0."
        )
    return found


def read_spectrum(name: str, value: ArrayLike) -> FloatArray:
    """Return variances of modes: a row of numbers, none negative."""
    found = read_array(name, value, 1)
    if found.min() < 0:
        raise LawscopeError(f"{name} has the value {found.min():g}; variances are at least 0.")
    return found


def read_symmetric(name: str, value: ArrayLike, size: int | None = None) -> FloatArray:
    """Return a symmetric matrix, of the given size where one is given."""
    found = read_array(name, value, 2)
    rows, columns = found.shape
    if rows != columns or rows != (size or rows):
        wanted = size or rows
        raise LawscopeError(f"{name} is {rows}×{columns}; it must be {wanted}×{wanted}.")
    turned = found.T.copy()  # once, since reading a large matrix by columns is slow
    if np.abs(found - turned).max() > ROUNDING * np.abs(found).max():
        raise LawscopeError(f"{name} is not symmetric; give ({name} + {name}ᵀ)/2 if it should be.")
    turned += found
    turned /= 2
    return turned


def read_covariance(name: str, value: ArrayLike, size: int | None = None) -> Covariance:
    """Return a positive semi-definite matrix that is not zero."""
    matrix = read_symmetric(name, value, size)
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < -ROUNDING * np.abs(values).max():
        raise LawscopeError(
            f"{name} has the eigenvalue {values[0]:.3g}; a covariance has none below 0: compute it "
            "as E[x xᵀ]."
        )
    if values[-1] <= 0:
        raise LawscopeError(f"{name} is zero; the equilibrium needs data and noise that vary.")
    return Covariance(matrix, np.maximum(values, 0.0), vectors)
