"""Linear models of latent spaces: which modes survive, and how strong they are.

A latent space can be rotated without changing the loss, so modes are lost one by one: dimensional
collapse in contrastive learning, posterior collapse in variational autoencoders. The derivations:
docs/symmetry-theory.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import BoolArray, FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.theory.arguments import read_number, read_spectrum


@dataclass(frozen=True, eq=False)
class ContrastiveModes:
    """The global minimum of a linear contrastive model.

    Attributes:
        surviving: whether a mode is left, shape (d,).
        strengths: the eigenvalues of WᵀW, 0 for lost modes, shape (d,).
    """

    surviving: BoolArray
    strengths: FloatArray


@dataclass(frozen=True, eq=False)
class VaeModes:
    """The global minimum of a linear β-VAE.

    Attributes:
        surviving: whether a mode is left, shape (d,).
        strengths: u_i², squared singular values of the decoder, 0 for lost modes, shape (d,).
        encoder_strengths: w_i², squared singular values of the encoder, shape (d,).
        variances: of the encoder, 1 for lost modes where they are learned, shape (d,).
        threshold: the eigenvalue that a mode must exceed.
    """

    surviving: BoolArray
    strengths: FloatArray
    encoder_strengths: FloatArray
    variances: FloatArray
    threshold: float


@checked
def contrastive_modes(
    signal: ArrayLike,
    augmentation: ArrayLike,
    gamma: float,
    similarity: Literal["l2", "inner"] = "l2",
) -> ContrastiveModes:
    """Compute the modes that linear contrastive learning keeps under weight decay.

    With f(x) = Wx, two views x, x′ = s + ε of a sample s and a view χ of another::

        L(W) = −E sim(f(x), f(x′)) + E_x log E_χ exp sim(f(x), f(χ)) + γ‖W‖²

    where s ~ N(0, A) and ε ~ N(0, C) with common eigenvectors and eigenvalues a_i and c_i, and
    sim(f, g) is −|f − g|²/2 for "l2" and f·g for "inner". For both, mode i is lost iff a_i ≤ γ.
    Else the eigenvalue b of WᵀW is::

        "inner":  b = (a − γ)/(a + c)²
        "l2":     b = (1/t − 1)/(a + c),   t = (√(1 + 8(c + γ)/(a + c)) − 1)/2

    Both are exact for Gaussian data (model: Ziyin, Lubana, Ueda & Tanaka 2023). W must have at
    least as many rows as modes survive. torch's ``weight_decay`` is 2γ.

    Args:
        signal: a_i, shape (d,).
        augmentation: c_i, shape (d,).
        gamma: γ ≥ 0.
        similarity: "l2" or "inner".

    Returns:
        Which modes survive, and b_i.

    Raises:
        LawscopeError: eigenvalues are negative or of different number, γ is negative, the
            similarity is not known, or the loss has no minimum ("l2" without augmentation and
            decay).

    Example:
        >>> found = contrastive_modes([2.0, 1.0, 0.5], [0.0, 1.0, 0.5], 1.0, similarity="inner")
        >>> found.surviving.tolist(), found.strengths.tolist()
        ([True, False, False], [0.25, 0.0, 0.0])
    """
    a, c = read_spectrum("signal", signal), read_spectrum("augmentation", augmentation)
    decay = read_number("gamma", gamma)
    if a.shape != c.shape:
        raise LawscopeError(
            f"signal has {len(a)} and augmentation {len(c)} values; give one of each per mode."
        )
    surviving = a > decay
    total, strengths = (a + c)[surviving], np.zeros_like(a)
    if similarity == "inner":
        strengths[surviving] = (a[surviving] - decay) / total**2
    elif similarity == "l2":
        cost = c[surviving] + decay
        if not cost.all():
            raise LawscopeError(
                "Without augmentation and decay a mode grows for ever; give gamma > 0."
            )
        # t = 1/(1 + (a + c)·b), written without the difference of near numbers.
        t = 4 * cost / total / (np.sqrt(1 + 8 * cost / total) + 1)
        strengths[surviving] = (1 / t - 1) / total
    else:
        raise LawscopeError(f"No similarity is named {similarity!r}; choose 'l2' or 'inner'.")
    return ContrastiveModes(surviving, strengths)


def vae_modes(
    eigenvalues: ArrayLike, beta: float, noise: float, encoder_variance: float | None = None
) -> VaeModes:
    """Compute the modes that a linear β-VAE keeps.

    Encoder z ~ N(Wᵀx, diag σ²), decoder x ~ N(Uz, η²I), prior N(0, I)::

        L = E|x − Uz|²/(2η²) + β·E KL

    On a mode of the data's covariance with eigenvalue λ, b = βη²::

        learned σ²:     kept iff λ > b,     u² = λ − b,          w² = u²/λ²,          σ² = b/λ
        fixed σ² = e²:  kept iff λ > b·e²,  u² = √(λb)/e − b,    w² = u²/(u² + b)²

    (Wang & Ziyin 2022; β = 1 and learned variance is the probabilistic PCA of Tipping & Bishop
    1999.) There must be at least as many latent variables as modes survive.

    Args:
        eigenvalues: λ_i of the covariance of the (centred) data, shape (d,).
        beta: β > 0.
        noise: η > 0, the standard deviation of the decoder.
        encoder_variance: e² > 0 if fixed, or None if learned.

    Returns:
        Which modes survive, the strengths of decoder and encoder, the variances, the threshold.

    Raises:
        LawscopeError: an eigenvalue is negative, or β, η or e² is not positive.

    Example:
        >>> found = vae_modes([4.0, 1.0, 0.5], beta=1.0, noise=1.0)
        >>> found.surviving.tolist(), found.strengths.tolist()
        ([True, False, False], [3.0, 0.0, 0.0])
        >>> vae_modes([4.0, 1.0, 0.5], beta=1.0, noise=1.0, encoder_variance=0.25).threshold
        0.25
    """
    values = read_spectrum("eigenvalues", eigenvalues)
    b = read_number("beta", beta, positive=True) * read_number("noise", noise, positive=True) ** 2
    if encoder_variance is None:
        threshold, variances = b, b / np.maximum(values, b)
        excess = values - b
    else:
        e2 = read_number("encoder_variance", encoder_variance, positive=True)
        threshold, variances = b * e2, np.full_like(values, e2)
        excess = np.sqrt(values * b / e2) - b
    # At the threshold itself the square root may round to either side.
    strengths = np.where(values > threshold, np.maximum(excess, 0.0), 0.0)
    encoder = strengths / (strengths + b) ** 2
    return VaeModes(values > threshold, strengths, encoder, variances, threshold)
