"""Landscapes with a mirror, solved: where weight decay makes the symmetric point the minimum.

All losses are L₀ + γ‖θ‖². torch's ``weight_decay`` λ adds λθ to the gradient, so γ = λ/2 (of SGD
and Adam; the decay of AdamW is not such a penalty). The derivations: docs/symmetry-theory.md.
"""

from __future__ import annotations

from math import sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.theory.arguments import read_array, read_number
from lawscope.whole_number import whole_number

Kind = Literal["square", "product"]


class Minimum(NamedTuple):
    """The global minimum of a landscape.

    Attributes:
        strength: the square of each weight; 0 where the minimum is the symmetric point.
        loss: the value there, decay included.
    """

    strength: float
    loss: float


class DepthTransition(NamedTuple):
    """A first-order transition: the output at the minimum jumps to zero.

    Attributes:
        coexistence: γ above which zero is the global minimum.
        spinodal: γ above which zero is the only minimum.
        coexistence_share: of the fit at γ = 0, what is left of the product of the weights in the
            other minimum at coexistence.
        spinodal_share: the same at the spinodal, where that minimum ceases to exist.
    """

    coexistence: float
    spinodal: float
    coexistence_share: float
    spinodal_share: float


@checked
def critical_decay(kind: Kind, x: ArrayLike, y: ArrayLike) -> float:
    """Return γ_c, from which on the symmetric point is the global minimum.

    "square", mirror w → −w (Ziyin et al. 2024)::

        L(w) = (w²x − y)² + γw²,   γ_c = 2xy

    "product", rescaling u → cu, w → w/c, with the mirror (u, w) → −(u, w)::

        L(u, w) = (uwx − y)² + γ(u² + w²),   γ_c = |xy|

    Given samples the losses are means over them and xy stands for E[xy]. Where the square cannot
    fit at all, E[xy] ≤ 0, the symmetric point is the minimum at every γ and γ_c = 0. torch's
    ``weight_decay`` is 2γ.

    Args:
        kind: "square" or "product".
        x: the input, a number or samples, shape (n,).
        y: the target, of the same shape.

    Returns:
        γ_c ≥ 0.

    Raises:
        LawscopeError: the kind is not known, or x and y are not finite or of different shape.

    Example:
        >>> critical_decay("square", x=2.0, y=3.0), critical_decay("product", x=2.0, y=-3.0)
        (12.0, 6.0)
    """
    _, xy, _ = _read_moments(x, y)
    return _critical_decay(kind, xy)


@checked
def find_minimum(kind: Kind, x: ArrayLike, y: ArrayLike, gamma: float) -> Minimum:
    """Find the global minimum of the landscapes of ``critical_decay``.

    ::

        "square":   w²       = (γ_c − γ)₊/(2x²)
        "product":  u² = w²  = (γ_c − γ)₊/x²

    Both leave the loss y² − (γ_c − γ)₊²/(c·x²), c = 4 for the square and 1 for the product
    (Ziyin et al. 2024). Given samples, x², xy and y² are means. torch's ``weight_decay`` is 2γ.

    Args:
        kind: "square" or "product".
        x: the input, a number or samples, shape (n,).
        y: the target, of the same shape.
        gamma: γ ≥ 0.

    Returns:
        The strength of the weights and the loss.

    Raises:
        LawscopeError: as for ``critical_decay``, or γ is negative.

    Example:
        >>> find_minimum("square", x=1.0, y=1.0, gamma=1.0)
        Minimum(strength=0.5, loss=0.75)
        >>> find_minimum("product", x=1.0, y=1.0, gamma=1.0)
        Minimum(strength=0.0, loss=1.0)
    """
    xx, xy, yy = _read_moments(x, y)
    excess = max(_critical_decay(kind, xy) - read_number("gamma", gamma), 0.0)
    if not excess:
        return Minimum(0.0, yy)
    if kind == "square":
        return Minimum(excess / (2 * xx), yy - excess**2 / (4 * xx))
    return Minimum(excess / xx, yy - excess**2 / xx)


def depth_transition(depth: int, x: ArrayLike = 1.0, y: ArrayLike = 1.0) -> DepthTransition:
    """Return where a product of three or more weights collapses, and where it cannot return.

    ::

        L(w) = (x·w₁⋯w_D − y)² + γ Σw_i²

    Weights of equal size have the output q = x·w^D, stationary where
    γ = (y − q)·q^(1−2/D)·x^(2/D). At coexistence L equals L(0), q = y(D−2)/(D−1); at the spinodal γ
    is largest, q = y(D−2)/(2D−2) (symmetry: Ziyin et al. 2024; transition: derived in
    docs/symmetry-theory.md). Between the two a trained network stays where it is although zero is
    better; zero is a minimum at every γ > 0. torch's ``weight_decay`` is 2γ.

    Args:
        depth: D ≥ 3; for D = 2 the transition is continuous, see ``critical_decay``.
        x: the input, a number or samples, shape (n,).
        y: the target, of the same shape.

    Returns:
        γ of coexistence and of the spinodal, and the share of the fit left at each.

    Raises:
        LawscopeError: the depth is below 3, or x and y are not finite or of different shape.

    Example:
        >>> found = depth_transition(4)
        >>> round(found.coexistence, 6), round(found.spinodal, 6)
        (0.272166, 0.3849)
    """
    D = whole_number("depth", depth, 3, "has no jump, see critical_decay for two weights")
    xx, xy, _ = _read_moments(x, y)
    # Only the size matters: a sign of x or y moves into one weight. Samples act as one of them.
    size = sqrt(xx)
    target = abs(xy) / size if size else 0.0

    def decay_at(share: float) -> float:
        q = share * target
        return float((target - q) * q ** (1 - 2 / D) * size ** (2 / D))

    coexistence, spinodal = (D - 2) / (D - 1), (D - 2) / (2 * D - 2)
    return DepthTransition(decay_at(coexistence), decay_at(spinodal), coexistence, spinodal)


def soft_threshold(M: ArrayLike, gamma: float) -> FloatArray:
    """Return the product UW that minimises ‖UW − M‖² + γ(‖U‖² + ‖W‖²).

    With M = P·diag(σ)·Qᵀ::

        UW = P·diag((σ − γ)₊)·Qᵀ

    so that weight decay removes every mode of σ ≤ γ: rotation symmetry makes low rank
    (Ziyin et al. 2024; the nuclear norm of Srebro, Rennie & Jaakkola 2004). The inner width must be
    at least the number of modes left. torch's ``weight_decay`` is 2γ.

    Args:
        M: the target, shape (m, n).
        gamma: γ ≥ 0.

    Returns:
        UW, shape (m, n).

    Raises:
        LawscopeError: M is not a matrix of finite numbers, or γ is negative.

    Example:
        >>> soft_threshold([[3, 0], [0, 1]], 1.0)
        array([[2., 0.],
               [0., 0.]])
    """
    left, sigma, right = np.linalg.svd(read_array("M", M, 2), full_matrices=False)
    kept = np.maximum(sigma - read_number("gamma", gamma), 0.0)
    return np.asarray((left * kept) @ right)


def _critical_decay(kind: Kind, xy: float) -> float:
    if kind == "square":
        return max(2 * xy, 0.0)
    if kind == "product":
        return abs(xy)
    raise LawscopeError(f"No landscape is named {kind!r}; choose 'square' or 'product'.")


def _read_moments(x: ArrayLike, y: ArrayLike) -> tuple[float, float, float]:
    """Return E[x²], E[xy] and E[y²] of a number each or of samples."""
    inputs, targets = read_array("x", x, 0, 1), read_array("y", y, 0, 1)
    if inputs.shape != targets.shape:
        raise LawscopeError(
            f"x has {inputs.size} and y has {targets.size} values; give one target per input."
        )
    products = (inputs * inputs, inputs * targets, targets * targets)
    xx, xy, yy = (float(each.mean()) for each in products)
    return xx, xy, yy
