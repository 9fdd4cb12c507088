"""Where gradient noise brings a network along a continuous symmetry.

Gradient flow conserves θᵀAθ for every symmetry θ → e^{λA}θ of the loss, A symmetric. A step of SGD
moves it by η²Tr[A·E ggᵀ] on average, towards the one point of the orbit where this is zero
(Ziyin, Wang, Li & Wu 2024). Weight decay moves these points and is not included. The derivations:
docs/symmetry-theory.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError
from lawscope.theory.arguments import (
    NEGLIGIBLE,
    read_array,
    read_covariance,
    read_spectrum,
    read_symmetric,
)
from lawscope.whole_number import whole_number


@dataclass(frozen=True, eq=False)
class DeepLinear:
    """A deep linear network at the noise equilibrium of SGD.

    Attributes:
        interior_scale: a, the singular value of every interior layer.
        norms: ‖W_i‖_F of W₁ … W_D, of the directions that carry the map, shape (D,).
        layers: W₁ … W_D, as narrow as the rank r of the map: (r, d_in), (r, r) …, (d_out, r);
            unique up to a rotation of each interior space.
    """

    interior_scale: float
    norms: FloatArray
    layers: tuple[FloatArray, ...]


@dataclass(frozen=True, eq=False)
class RankOne:
    """The rank-one model at the noise equilibrium of SGD.

    Attributes:
        charge: |w|² − u², incoming minus outgoing as everywhere here; gradient flow conserves it.
        outgoing: u.
        incoming: w, shape (d,).
        trace: trace of the Hessian, the least on the orbit.
        sharpness: largest eigenvalue of the Hessian.
    """

    charge: float
    outgoing: float
    incoming: FloatArray
    trace: float
    sharpness: float


def deep_linear(
    V: ArrayLike, input_covariance: ArrayLike, noise_covariance: ArrayLike, depth: int
) -> DeepLinear:
    """Compute the factors of V = W_D⋯W₁ at which SGD comes to rest.

    Loss |W_D⋯W₁x − y|² with residuals of covariance Σ_ε, independent of x with E[xxᵀ] = Σ_x.
    Interior layers are a times orthogonal matrices, and with Ṽ = √Σ_ε·V·√Σ_x::

        a^D = ‖Ṽ‖_*/√(TrΣ_x·TrΣ_ε),   ‖W₁√Σ_x‖ = a√TrΣ_x,   ‖√Σ_ε W_D‖ = a√TrΣ_ε

    (Ziyin, Wang, Li & Wu 2024). Directions of wider layers that do not carry V feel no noise and
    keep what they were initialised with: they are not counted. Inputs that do not vary are not
    seen: W_D⋯W₁ is V on the range of Σ_x.

    Args:
        V: the map, shape (d_out, d_in).
        input_covariance: Σ_x, uncentred, shape (d_in, d_in).
        noise_covariance: Σ_ε, shape (d_out, d_out).
        depth: D ≥ 2.

    Returns:
        The scale of interior layers, the norms of all, and layers that have them.

    Raises:
        LawscopeError: a shape does not fit, a covariance has a negative eigenvalue, V is zero on
            the inputs, or a part of V has no noise, so that no equilibrium exists.

    Example:
        >>> found = deep_linear([[2.0, 0.0], [0.0, 2.0]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], 3)
        >>> round(found.interior_scale, 6), found.norms.round(6).tolist()
        (1.259921, [1.781797, 1.781797, 1.781797])
    """
    D = whole_number("depth", depth, 2, "leaves no layers to balance")
    target = read_array("V", V, 2)
    inputs = read_covariance("input_covariance", input_covariance, target.shape[1])
    noise = read_covariance("noise_covariance", noise_covariance, target.shape[0])
    seen = target @ inputs.power(0.5)
    _, s, right = np.linalg.svd(noise.power(0.5) @ seen, full_matrices=False)
    seen_values = np.linalg.svd(seen, compute_uv=False)
    if seen_values[0] <= NEGLIGIBLE * np.linalg.norm(target) * sqrt(inputs.values[-1]):
        raise LawscopeError("V is zero on these inputs; give a map that does something.")
    rank = _rank(s)
    if rank < _rank(seen_values):
        raise LawscopeError(
            "A part of V has no noise in noise_covariance, so its layers never come to rest; leave "
            "these outputs out."
        )
    s, right = s[:rank], right[:rank]
    nuclear = float(s.sum())
    a = float((nuclear / sqrt(inputs.trace * noise.trace)) ** (1 / D))
    # Singular values of W₁√Σ_x.
    alpha = a * np.sqrt(s * inputs.trace / nuclear)
    first = alpha[:, None] * (right @ inputs.power(-0.5))
    last = seen @ right.T / (alpha * a ** (D - 2))
    layers = (first, *[a * np.eye(rank)] * (D - 2), last)
    return DeepLinear(a, np.array([np.linalg.norm(each) for each in layers]), layers)


def geometric_mean(P: ArrayLike, Q: ArrayLike) -> FloatArray:
    """Return the positive M with M·Q·M = P, the geometric mean of P and Q⁻¹.

    ::

        M = Q^{-1/2}(Q^{1/2} P Q^{1/2})^{1/2} Q^{-1/2}

    For f(x) = UWx the change U → UA⁻¹, W → AW balances the noise, E g_W g_Wᵀ = E g_Uᵀ g_U, iff
    AᵀA = M, where P = E g_W g_Wᵀ = Uᵀ E[|x|²εεᵀ] U and Q = E g_Uᵀ g_U = W E[|ε|²xxᵀ] Wᵀ are those
    before the change (Ziyin, Wang, Li & Wu 2024; the mean: Pusz & Woronowicz 1975). P = UᵀU and
    Q = WWᵀ balance the weights instead. The geometric mean of P and R themselves is
    ``geometric_mean(P, np.linalg.inv(R))``.

    Args:
        P: positive definite, shape (r, r).
        Q: positive definite, shape (r, r).

    Returns:
        M, shape (r, r).

    Raises:
        LawscopeError: P or Q is not symmetric, not of the same size or not positive definite.

    Example:
        >>> geometric_mean([[4.0, 0.0], [0.0, 9.0]], [[1.0, 0.0], [0.0, 4.0]]).round(6)
        array([[2. , 0. ],
               [0. , 1.5]])
    """
    one = read_covariance("P", P)
    other = read_covariance("Q", Q, len(one.values))
    for name, values in (("P", one.values), ("Q", other.values)):
        if values[0] <= NEGLIGIBLE * values[-1]:
            raise LawscopeError(
                f"{name} is singular, so no point of the orbit is balanced; leave out the "
                "directions in which it is zero."
            )
    # With P^{1/2}Q^{1/2} = XSYᵀ it is P^{1/2}·XYᵀ·Q^{-1/2}, which squares no condition number.
    X, _, Yt = np.linalg.svd(one.power(0.5) @ other.power(0.5))
    M = one.power(0.5) @ X @ Yt @ other.power(-0.5)
    return np.asarray((M + M.T) / 2)


def rescaling_fixed_point(generator: ArrayLike, noise: ArrayLike) -> float:
    """Return λ*, how far along a symmetry the noise of SGD carries the weights.

    For a loss with L(e^{λA}θ) = L(θ) the gradient becomes e^{−λA}g, and the drift of the charge
    θᵀAθ vanishes where Tr[A e^{−2λA} Σ] = 0, Σ = E ggᵀ at θ. For A with eigenvalues ±1::

        λ* = ¼ ln(Tr Σ₊/Tr Σ₋)

    with Σ₊ and Σ₋ the noise on its two eigenspaces. The drift falls in λ, so λ* is unique and
    attractive (Ziyin, Wang, Li & Wu 2024, theorem 4.3).

    Args:
        generator: A, symmetric, shape (n, n), or its diagonal, shape (n,).
        noise: Σ, shape (n, n), or its diagonal, shape (n,); a common factor does not matter.

    Returns:
        λ*, such that e^{λ*A}θ is the equilibrium.

    Raises:
        LawscopeError: shapes do not fit, Σ has a negative eigenvalue, or only one sign of A has
            noise: the weights then move for ever (scale invariance: they only grow).

    Example:
        >>> round(rescaling_fixed_point([1, -1], [16.0, 1.0]), 6)
        0.693147
    """
    rates, noises = _diagonalise(generator, noise)
    up, down = (rates > 0) & (noises > 0), (rates < 0) & (noises > 0)
    if not (up.any() and down.any()):
        raise LawscopeError(
            "Only one sign of the generator has noise, so the weights move for ever; an "
            "equilibrium needs noise on both sides."
        )

    def drift(shift: float) -> float:
        """Compute the logarithm of upward over downward drift."""
        exponents = np.log(np.abs(rates[up | down]) * noises[up | down])
        exponents -= 2 * shift * rates[up | down]
        upward = rates[up | down] > 0
        return float(logsumexp(exponents[upward]) - logsumexp(exponents[~upward]))

    # The logarithm falls at a rate between twice the least and twice the largest sum of two rates.
    start = drift(0.0)
    steep = 2 * (rates[up].max() - rates[down].min())
    flat = 2 * (rates[up].min() - rates[down].max())
    near, far = start / steep, start / flat
    if abs(far - near) <= 1e-12 * abs(far):
        return float(near)
    margin = 1e-9 * abs(far)
    low, high = min(near, far) - margin, max(near, far) + margin
    return float(brentq(drift, low, high, xtol=1e-14, rtol=1e-14))


def rank_one(beta: ArrayLike, input_covariance: ArrayLike) -> RankOne:
    """Compute the equilibrium of f(x) = u·wᵀx on a target βᵀx with noise.

    Loss (u·wᵀx − y)², residuals of constant variance, which cancels. The noise balances where
    wᵀΣw = u²TrΣ; with uw = β::

        u⁴ = βᵀΣβ/TrΣ,   C* = |w|² − u²,   Tr H = 4√(βᵀΣβ·TrΣ)

    (Ziyin, Wang, Li & Wu 2024). H = 2E[∇f∇fᵀ] is the Hessian; on the orbit its trace
    2(wᵀΣw + u²TrΣ) is least at this point, so SGD lowers it from every other. Gradient descent is
    stable iff η·sharpness < 2; SGD with batches of one sample iff η·trace < 2 where |∇f|² is the
    same for all samples (in mean square, for small residuals).

    Args:
        beta: β, shape (d,).
        input_covariance: Σ = E[xxᵀ], uncentred, shape (d, d).

    Returns:
        The charge, u > 0 and w, and the trace and largest eigenvalue of the Hessian.

    Raises:
        LawscopeError: a shape does not fit, Σ has a negative eigenvalue, or βᵀx is always zero.

    Example:
        >>> found = rank_one([2.0, 0.0], [[1.0, 0.0], [0.0, 3.0]])
        >>> round(found.charge, 6), round(found.trace, 6)
        (3.0, 16.0)
    """
    target = read_array("beta", beta, 1)
    inputs = read_covariance("input_covariance", input_covariance, len(target))
    sigma = inputs.matrix
    signal = float(target @ sigma @ target)
    if signal <= NEGLIGIBLE * inputs.values[-1] * float(target @ target):
        raise LawscopeError("beta is zero on these inputs; give a target that varies with them.")
    u = (signal / inputs.trace) ** 0.25
    w = target / u
    cross = u * sigma @ w
    first = np.concatenate([[w @ sigma @ w], cross])
    hessian = 2 * np.vstack([first, np.column_stack([cross, u * u * sigma])])
    sharpness = float(np.linalg.eigvalsh(hessian)[-1])
    return RankOne(float(w @ w) - u * u, u, w, float(np.trace(hessian)), sharpness)


def _rank(values: NDArray[np.floating[Any]]) -> int:
    return int((values > NEGLIGIBLE * values[0]).sum())


def _diagonalise(generator: ArrayLike, noise: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues of the generator and the noise along each eigenvector."""
    A = read_array("generator", generator, 1, 2)
    sigma = read_array("noise", noise, 1, 2)
    size = len(A)
    if sigma.ndim == 1:
        read_spectrum("noise", sigma)
        if len(sigma) != size:
            raise LawscopeError(
                f"noise has {len(sigma)} values for {size} weights; give one per weight."
            )
        if A.ndim == 1:
            return A, sigma
        sigma = np.diag(sigma)
    spread = read_covariance("noise", sigma, size).matrix
    if A.ndim == 1:
        return A, spread.diagonal()
    rates, vectors = np.linalg.eigh(read_symmetric("generator", A))
    noises = np.einsum("ij,ik,kj->j", vectors, spread, vectors)
    # Zeros of both come out of the eigenvectors as rounding.
    rounding = size * np.finfo(np.float64).eps
    rates[np.abs(rates) <= rounding * np.abs(rates).max()] = 0.0
    noises[noises <= rounding * noises.sum()] = 0.0
    return rates, noises
