"""Power laws between the spectra of a layer: in W's singular basis, and of H against G."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError
from lawscope.theory.arguments import read_number
from lawscope.theory.representation.layer import read_layer, read_moment

# Standard deviation of ln z below which a slope against ln z says nothing.
FLAT = 0.05
LEAST_DIRECTIONS = 3
CUT = 1e-3  # the smallest value in a fit, of the largest


@dataclass(frozen=True)
class Exponents:
    """How H_a and G_b go with the squared singular values z of W.

    Attributes:
        p: H_a ~ z^p, so H_b ~ z^{p+1}.
        q: G_b ~ z^q, so G_a ~ z^{q+1}.
        r2_p: R² of the line behind p; 1 where H_a is exactly constant.
        r2_q: R² of the line behind q.
        commutator_h: how far H_a and WᵀW are from commuting, 0 to 1, on the directions of the fit.
        commutator_g: the same for G_b and WWᵀ.
        directions: number of singular directions in the fit.
        spread: standard deviation of ln z over them.
    """

    p: float
    q: float
    r2_p: float
    r2_q: float
    commutator_h: float
    commutator_g: float
    directions: int
    spread: float

    @property
    def alpha(self) -> float:
        """The forward exponent (p+1)/q of H_b ~ G_b^α; infinite where q = 0."""
        return (self.p + 1) / self.q if self.q else math.copysign(math.inf, self.p + 1)


class Line(NamedTuple):
    """A least-squares line: slope and R², which is 1 if what is fitted is constant."""

    slope: float
    r2: float


@dataclass(frozen=True)
class SpectralFit:
    """The exponent α of λ_H ∝ λ_G^α, three times.

    Sorted eigenvalues of any two smooth spectra make nearly a line, before training too; only the
    matched ones, both read in the same directions, say that H and G belong together.

    Attributes:
        sorted: eigenvalues of each, both in descending order.
        in_g: H in the eigenvectors of G against the eigenvalues of G.
        in_h: eigenvalues of H against G in the eigenvectors of H.
    """

    sorted: Line
    in_g: Line
    in_h: Line


def fit_exponents(
    weight: ArrayLike, H_a: ArrayLike, G_b: ArrayLike, *, cut: float = CUT
) -> Exponents:
    """Fit H_a ~ z^p and G_b ~ z^q in the singular basis of W.

    With W = Σ s_i u_i v_iᵀ and z_i = s_i²::

        ln(v_iᵀ H_a v_i) = p ln z_i + const,    ln(u_iᵀ G_b u_i) = q ln z_i + const

    over the directions with z_i ≥ cut·z₁ in which both moments are positive. Commutators tell
    whether the moments, projected on these directions, are diagonal there:
    ‖HZ − ZH‖/(√2‖HZ‖) = √(1 − Tr(HZHZ)/‖HZ‖²), 0 if HZ = ZH.

    Args:
        weight: W, shape (d_b, d_a).
        H_a: E[h_a h_aᵀ], shape (d_a, d_a).
        G_b: E[g_b g_bᵀ], shape (d_b, d_b).
        cut: smallest z in the fit, of the largest.

    Returns:
        Exponents with R², commutators and the number of directions.

    Raises:
        LawscopeError: shapes do not fit, fewer than 3 directions are left, or all z are equal, so
            that exponents mean nothing.

    Example:
        >>> import numpy as np
        >>> s = np.array([1.0, 0.5, 0.25, 0.125])
        >>> found = fit_exponents(np.diag(s), np.diag(s**2), np.diag(s**4), cut=1e-4)
        >>> round(found.p, 6), round(found.q, 6), round(found.alpha, 6)
        (1.0, 2.0, 1.0)
    """
    W, inputs, gradients = read_layer(weight, H_a, G_b)
    smallest = _read_cut(cut)
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    return fit_projected(s**2, Vt @ inputs @ Vt.T, U.T @ gradients @ U, smallest)


def fit_projected(z: FloatArray, H: FloatArray, G: FloatArray, cut: float = CUT) -> Exponents:
    """Fit the exponents, as :func:`fit_exponents` does, of moments on the singular directions."""
    h, g = np.diag(H), np.diag(G)
    kept = (z >= cut * z[0]) & _is_positive(h) & _is_positive(g)
    count = int(kept.sum())
    if count < LEAST_DIRECTIONS:
        raise LawscopeError(
            f"{count} singular direction{'s' * (count != 1)} of {len(z)} carr"
            f"{'y' if count != 1 else 'ies'} weight, representation and gradient above "
            f"cut={cut:g}; exponents need at least {LEAST_DIRECTIONS}."
        )
    log_z = np.log(z[kept])
    spread = float(log_z.std())
    if spread < FLAT:
        raise LawscopeError(
            f"The squared singular values of weight differ by {100 * spread:.2g} %, which is too "
            "flat for exponents; compare the alignments themselves."
        )
    law_H, law_G = _fit_line(log_z, np.log(h[kept])), _fit_line(log_z, np.log(g[kept]))
    return Exponents(
        p=law_H.slope,
        q=law_G.slope,
        r2_p=law_H.r2,
        r2_q=law_G.r2,
        commutator_h=_compute_commutator(H[np.ix_(kept, kept)], z[kept]),
        commutator_g=_compute_commutator(G[np.ix_(kept, kept)], z[kept]),
        directions=count,
        spread=spread,
    )


def fit_spectra(H: ArrayLike, G: ArrayLike, *, cut: float = CUT) -> SpectralFit:
    """Fit λ_H ∝ λ_G^α between two moments of the same layer and side.

    Args:
        H: E[h hᵀ], shape (d, d).
        G: E[g gᵀ], shape (d, d).
        cut: smallest eigenvalue in a fit, of the largest, for both matrices.

    Returns:
        α and R² of sorted eigenvalues, in the eigenvectors of G and in those of H.

    Raises:
        LawscopeError: shapes do not fit, a matrix is zero, or fewer than 3 eigenvalues are left
            or all of them are equal.

    Example:
        >>> import numpy as np
        >>> g = np.array([1.0, 0.5, 0.25, 0.125])
        >>> round(fit_spectra(np.diag(g**2), np.diag(g)).in_g.slope, 6)
        2.0
    """
    one = read_moment("H", H)
    other = read_moment("G", G, len(one))
    smallest = _read_cut(cut)
    values_H, vectors_H = _sorted_eigenvalues(one)
    values_G, vectors_G = _sorted_eigenvalues(other)
    H_in_g = np.einsum("di,de,ei->i", vectors_G, one, vectors_G, optimize=True)
    G_in_h = np.einsum("di,de,ei->i", vectors_H, other, vectors_H, optimize=True)
    return SpectralFit(
        sorted=_fit_power(values_G, values_H, smallest),
        in_g=_fit_power(values_G, H_in_g, smallest),
        in_h=_fit_power(G_in_h, values_H, smallest),
    )


def effective_rank99(H: ArrayLike) -> int:
    """Return the number of eigenvectors that hold 99 % of Tr H.

    Args:
        H: E[h hᵀ], shape (d, d).

    Returns:
        From 1 to d.

    Raises:
        LawscopeError: not a symmetric matrix, or zero.

    Example:
        >>> effective_rank99([[98.0, 0, 0], [0, 1.5, 0], [0, 0, 0.5]])
        2
    """
    values = np.linalg.eigvalsh(read_moment("H", H))[::-1]
    held = np.cumsum(np.maximum(values, 0))
    # Rounding must not ask for one more direction.
    return int(np.searchsorted(held, 0.99 * held[-1] * (1 - 1e-12)) + 1)


def _fit_power(x: FloatArray, y: FloatArray, cut: float) -> Line:
    """Fit ln y on ln x over the entries where both are above ``cut`` of their largest."""
    kept = (x > cut * x.max()) & (y > cut * y.max())
    if kept.sum() < LEAST_DIRECTIONS:
        raise LawscopeError(
            f"{int(kept.sum())} of {len(x)} directions carry representation and gradient above "
            f"cut={cut:g}; an exponent needs at least {LEAST_DIRECTIONS}."
        )
    log_x = np.log(x[kept])
    if log_x.std() < FLAT:
        raise LawscopeError(
            "The eigenvalues of G are all equal, which is too flat for an exponent; compare the "
            "alignments themselves."
        )
    return _fit_line(log_x, np.log(y[kept]))


def _fit_line(x: FloatArray, y: FloatArray) -> Line:
    """Fit a line by least squares."""
    dx, dy = x - x.mean(), y - y.mean()
    slope = float(dx @ dy / (dx @ dx))
    total = float(dy @ dy)
    # y varies by rounding alone: the flat line is exact.
    if total <= len(y) * (1e-9 * x.std()) ** 2:
        return Line(0.0, 1.0)
    rest = dy - slope * dx
    return Line(slope, 1 - float(rest @ rest) / total)


def _sorted_eigenvalues(moment: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues, descending, and eigenvectors as columns."""
    values, vectors = np.linalg.eigh(moment)
    return values[::-1], vectors[:, ::-1]


def _compute_commutator(A: FloatArray, z: FloatArray) -> float:
    """Compute ‖AZ − ZA‖/(√2‖AZ‖) for Z = diag(z)."""
    AZ = A * z
    size = np.linalg.norm(AZ)
    return float(np.linalg.norm(AZ - AZ.T) / (math.sqrt(2) * size)) if size else 0.0


def _is_positive(values: FloatArray) -> np.ndarray:
    """Return where a quadratic form is more than rounding."""
    return np.asarray(values > 1e-12 * np.abs(values).max())


def _read_cut(cut: float) -> float:
    """Return the cut, a share below 1."""
    found = read_number("cut", cut, positive=True)
    if found >= 1:
        raise LawscopeError(f"cut is {found:g}; give a share of the largest value like 1e-3.")
    return found
