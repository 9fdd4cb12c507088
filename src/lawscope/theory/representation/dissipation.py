"""Fluctuation and dissipation: what stationarity of a noisy, decaying process says of a layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from lawscope.errors import LawscopeError
from lawscope.theory.arguments import read_array, read_number, read_symmetric
from lawscope.theory.representation.layer import read_moment


@dataclass(frozen=True)
class StationaryFit:
    """The best constants of Z + c₁·A = c₂·B.

    Attributes:
        plus: c₁ ≥ 0.
        minus: c₂ ≥ 0.
        residual: ‖Z + c₁·A − c₂·B‖/‖Z‖, 0 if the relation holds.
    """

    plus: float
    minus: float
    residual: float


def einstein_diffusion(friction: float, second_moment: float, step: float = 0.0) -> float:
    """Compute the diffusion D that keeps ⟨x²⟩ stationary against friction.

    For the overdamped particle ẋ = −μx + √D ξ(t) with unit white noise ⟨ξ(t)ξ(t′)⟩ = δ(t − t′)::

        D = 2μ⟨x²⟩            in continuous time
        D = μ(2 − μh)⟨x²⟩     for x ← (1 − μh)x + √(Dh) ξ, steps of length h

    D = μ⟨x²⟩, as it is often written, means noise of twice that strength, ⟨ξξ⟩ = 2δ.

    Args:
        friction: μ > 0.
        second_moment: ⟨x²⟩ at stationarity.
        step: h, with μh < 2; 0 is continuous time.

    Returns:
        D.

    Raises:
        LawscopeError: a negative number, or a step so long that the particle runs away.

    Example:
        >>> einstein_diffusion(0.5, 2.0), einstein_diffusion(0.5, 2.0, step=1.0)
        (2.0, 1.5)
    """
    mu = read_number("friction", friction, positive=True)
    moment = read_number("second_moment", second_moment)
    h = read_number("step", step)
    if mu * h >= 2:
        raise LawscopeError(
            f"friction·step is {mu * h:g}; the particle is stationary only below 2: take a shorter "
            "step."
        )
    return mu * (2 - mu * h) * moment


def fluctuation_dissipation(
    cross: ArrayLike,
    Z: ArrayLike,
    decay: float,
    *,
    learning_rate: float = 0.0,
    noise: ArrayLike | None = None,
    drift: ArrayLike | None = None,
) -> float:
    """Compute how far a layer is from the balance of fluctuation and dissipation.

    SGD moves W by ΔW = −ηF with F = ∇_W ℓ + λW, hence exactly, step by step and on average::

        C + Cᵀ = −2λZ + η·E[FFᵀ] − E[ΔZ]/η,    C = E[g_b h_bᵀ],  Z = WWᵀ

    At stationarity the drift E[ΔZ] is zero. Where the noise is small besides, −C ∝ Z: this says
    that the weights have come to rest, and nothing more.

    Args:
        cross: C, shape (d_b, d_b), averaged over time as the others.
        Z: WWᵀ, shape (d_b, d_b).
        decay: λ > 0, added to the gradient as λW.
        learning_rate: η, with the noise.
        noise: E[FFᵀ], shape (d_b, d_b); left out, the noise counts as zero.
        drift: E[ΔZ]/η, shape (d_b, d_b); left out, the layer counts as stationary.

    Returns:
        ‖C + Cᵀ + 2λZ − ηE[FFᵀ] + E[ΔZ]/η‖/‖2λZ‖, 0 where the two sides balance.

    Raises:
        LawscopeError: shapes do not fit, no decay, Z is zero, or a noise without its learning rate.

    Example:
        >>> fluctuation_dissipation([[-0.1, 0], [0, -0.4]], [[1, 0], [0, 4]], 0.1)
        0.0
    """
    moment = read_moment("Z", Z)
    size = len(moment)
    C = read_array("cross", cross, 2)
    if C.shape != moment.shape:
        raise LawscopeError(
            f"cross is {C.shape[0]}×{C.shape[1]}; it must be {size}×{size} like Z: E[g_b h_bᵀ]."
        )
    dissipation = 2 * read_number("decay", decay, positive=True) * moment
    rest = C + C.T + dissipation
    if noise is not None:
        eta = read_number("learning_rate", learning_rate, positive=True)
        rest -= eta * read_symmetric("noise", noise, size)
    if drift is not None:
        rest += read_symmetric("drift", drift, size)
    return float(np.linalg.norm(rest) / np.linalg.norm(dissipation))


def fit_stationary(Z: ArrayLike, plus: ArrayLike, minus: ArrayLike) -> StationaryFit:
    """Fit Z + c₁·A = c₂·B with c₁, c₂ ≥ 0, the form of Theorem 1 of Ziyin, Chuang et al. (2024).

    Forward Z_b + c₁·G_b = c₂·H_b, so A = G_b and B = H_b; backward Z_a + c₃·H_a = c₄·G_a. By least
    squares over all entries.

    Args:
        Z: WWᵀ or WᵀW, shape (d, d).
        plus: A, on the side of Z, shape (d, d).
        minus: B, shape (d, d).

    Returns:
        The constants and what is left, of the size of Z: 1 if nothing is explained.

    Raises:
        LawscopeError: not symmetric matrices of one size, or a zero one.

    Example:
        >>> fit_stationary([[1, 0], [0, 2]], [[1, 0], [0, 0]], [[1, 0], [0, 1]]).residual
        0.0
    """
    target = read_moment("Z", Z)
    added, scaled = read_moment("plus", plus, len(target)), read_moment("minus", minus, len(target))
    # Columns of one size, so that neither constant is lost in the other's rounding.
    norms = [float(np.linalg.norm(each)) for each in (added, scaled)]
    columns = np.stack([-added.ravel() / norms[0], scaled.ravel() / norms[1]], axis=1)
    size = float(np.linalg.norm(target))
    constants, rest = nnls(columns, target.ravel() / size)
    return StationaryFit(
        float(constants[0] * size / norms[0]), float(constants[1] * size / norms[1]), float(rest)
    )
