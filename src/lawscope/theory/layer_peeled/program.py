"""The Layer-Peeled Model reduced to groups of equal classes: loss, gradient, certificate.

The K×K logits of the optimum are Z_gg = a_g·I + b_gg·11ᵀ and Z_gh = b_gh·11ᵀ. In the orthonormal
basis of group means these are K_g − 1 copies of a_g for every group and one G×G matrix M with
M_gg = a_g + K_g·b_gg and M_gh = √(K_g·K_h)·b_gh, so ‖Z‖_* = Σ(K_g−1)|a_g| + ‖M‖_*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lawscope.arrays import FloatArray

# (a, M): what is left of Z, shapes (G,) and (G, G).
Blocks = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Program:
    """min Σ K_g·α_g·ℓ_g(Z) subject to ‖Z‖_* ≤ τ, for G groups of equal classes.

    ℓ is the cross-entropy of softmax(z + δ) against (1 − ε)·e_k + ε/K; Σ K_g·α_g = 1.
    """

    sizes: FloatArray  # K_g, shape (G,) like α and δ
    alpha: FloatArray
    offsets: FloatArray  # δ
    smoothing: float  # ε
    tau: float
    pinned: tuple[int, ...] = ()  # groups whose a is held at zero, as on thresholds

    @cached_property
    def classes(self) -> float:
        """K."""
        return float(self.sizes.sum())

    @cached_property
    def copies(self) -> FloatArray:
        """How often a_g occurs among the singular values: K_g − 1, or 0 where a is pinned."""
        found = self.sizes - 1
        found[list(self.pinned)] = 0
        return found

    @cached_property
    def held(self) -> NDArray[np.bool_]:
        """Where a group of several classes is held together, shape (G,)."""
        return np.asarray((self.sizes > 1) & (self.copies == 0))


@dataclass(frozen=True, eq=False)
class Point:
    """A place (a, M) with its loss f and gradient Γ."""

    a: FloatArray
    M: FloatArray
    loss: float
    grad_a: FloatArray  # ∂f/∂a_g: K_g − 1 times the within-group eigenvalue of Γ
    grad_m: FloatArray  # ∂f/∂M: Γ in the basis of group means


class Solved(NamedTuple):
    """A point inside the constraint, its certificate, and the steps it took to find."""

    point: Point
    gap: float
    steps: int


def evaluate(program: Program, a: FloatArray, M: FloatArray) -> Point:
    """Compute the loss and its gradient."""
    sizes, eps = program.sizes, program.smoothing / program.classes
    rivals = np.broadcast_to(sizes, M.shape).copy()
    np.fill_diagonal(rivals, sizes - 1)
    root = np.sqrt(sizes)
    # The logit of a rival in group h minus the own logit in group g, shape (G, G).
    own_logit = a * (1 - 1 / sizes) + M.diagonal() / sizes + program.offsets
    away = M / np.outer(root, root) + (program.offsets[None, :] - own_logit[:, None])
    np.fill_diagonal(away, -a)
    losses, chance = cross_entropy(away, rivals)
    if eps:
        losses = losses - eps * (rivals * away).sum(axis=1)
    slope = chance - eps * rivals
    outer = slope.sum(axis=1) - slope.diagonal()
    # With multiplicity: Σ over the K_g − 1 copies of the within-group mode.
    grad_a = -program.alpha * (sizes * slope.diagonal() + (sizes - 1) * outer)
    grad_a = np.where(program.copies > 0, grad_a, 0.0)
    grad_m = program.alpha[:, None] * slope * (root[:, None] / root[None, :])
    np.fill_diagonal(grad_m, -program.alpha * outer)
    return Point(a, M, float(sizes * program.alpha @ losses), grad_a, grad_m)


def cross_entropy(away: FloatArray, rivals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return −log p of the own class by row, and the chances of rivals, ``rivals`` of each kind.

    All from the difference of a rival's logit to the own one: losses like e^−100 keep their digits.
    """
    top = np.maximum(away.max(axis=1), 0.0)
    mass = rivals * np.exp(away - top[:, None])
    own, total = np.exp(-top), mass.sum(axis=1)
    losses = np.where(top > 0, top + np.log(own + total), np.log1p(total))
    return losses, mass / (own + total)[:, None]


def nuclear_norm(program: Program, a: FloatArray, M: FloatArray) -> float:
    """Compute ‖Z‖_* = Σ(K_g − 1)|a_g| + ‖M‖_*."""
    return float(program.copies @ np.abs(a)) + float(np.linalg.svd(M, compute_uv=False).sum())


def modes(program: Program, point: Point) -> FloatArray:
    """Return within-group singular values of −Γ, zero for groups of one class, shape (G,)."""
    copies = program.copies
    return np.where(copies > 0, -point.grad_a / np.maximum(copies, 1), 0.0)


def slope_norm(program: Program, point: Point) -> float:
    """Compute ‖Γ‖₂, which is the price μ of the constraint at the optimum."""
    within = float(np.abs(modes(program, point)).max())
    return max(within, float(np.linalg.norm(point.grad_m, 2)))


def gap(program: Program, point: Point) -> float:
    """Bound how far above the optimum a feasible point is: ⟨Γ, Z⟩ + τ‖Γ‖₂ ≥ f(Z) − f*.

    For convex f and any feasible Z′, f(Z′) ≥ f(Z) + ⟨Γ, Z′ − Z⟩ ≥ f(Z) − ⟨Γ, Z⟩ − τ‖Γ‖₂.
    """
    return max(program.tau * slope_norm(program, point) - work(point), 0.0)


def work(point: Point) -> float:
    """Compute −⟨Γ, Z⟩: what the loss gains along Z."""
    return -float(point.grad_a @ point.a) - float(np.vdot(point.grad_m, point.M))
