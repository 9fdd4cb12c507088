"""A layer in the singular basis of its weight, decomposed once for any number of moments."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from lawscope.arrays import FloatArray

Measure = Literal["pearson", "cosine"]


class Projected(NamedTuple):
    """Moments of a layer, and what they are on its r singular directions, shape (r, r)."""

    H_a: FloatArray
    G_b: FloatArray
    H: FloatArray  # Vᵀ·H_a·V
    G: FloatArray  # Uᵀ·G_b·U


class Form(NamedTuple):
    """What an alignment asks of a matrix: ‖A‖², and ⟨A, 1·1ᵀ⟩/d for Pearson, else 0."""

    size: float
    mean: float


class SingularLayer:
    """A weight W = U·S·Vᵀ, decomposed once for the moments of all folds.

    What the layer makes of them, H_b = W·H_a·Wᵀ and G_a = Wᵀ·G_b·W, is never computed::

        ⟨H_a, G_a⟩ = ⟨H_b, G_b⟩ = ⟨S·H·S, G⟩,    ‖H_b‖ = ‖S·H·S‖,    ‖G_a‖ = ‖S·G·S‖
        ⟨G_a, Z_a⟩ = ⟨G_b, W·Z_a·Wᵀ⟩,            ⟨H_b, Z_b⟩ = ⟨H_a, Wᵀ·Z_b·W⟩

    Args:
        weight: W, shape (d_b, d_a), not zero.
        change: what W has learned, of which Z_a and Z_b are then.
        measure: of two matrices.
    """

    def __init__(
        self, weight: FloatArray, change: FloatArray | None = None, measure: Measure = "pearson"
    ) -> None:
        self.weight, self.change, self.measure = weight, change, measure
        self.U, self.s, self.Vt = np.linalg.svd(weight)
        acting = weight if change is None else change
        self.Z_a, self.Z_b = acting.T @ acting, acting @ acting.T
        ones = (np.ones(d) if measure == "pearson" else None for d in weight.shape)
        self.ones_b, self.ones_a = ones
        self.form_Z_a, self.form_Z_b = (
            form_of(self.Z_a, self.ones_a),
            form_of(self.Z_b, self.ones_b),
        )

    @cached_property
    def z_a_passed(self) -> FloatArray:
        """W·Z_a·Wᵀ."""
        return np.asarray(self.weight @ self.Z_a @ self.weight.T)

    @cached_property
    def z_b_passed(self) -> FloatArray:
        """Wᵀ·Z_b·W."""
        return np.asarray(self.weight.T @ self.z_b_weighted)

    @cached_property
    def z_b_weighted(self) -> FloatArray:
        """Z_b·W."""
        return np.asarray(self.Z_b @ self.weight)

    def project(self, H_a: FloatArray, G_b: FloatArray) -> Projected:
        """Return the moments with what they are on the singular directions."""
        U, Vt = self.U[:, : len(self.s)], self.Vt[: len(self.s)]
        return Projected(H_a, G_b, Vt @ H_a @ Vt.T, U.T @ G_b @ U)

    def align(
        self, moments: Projected, H_b: FloatArray | None = None, G_a: FloatArray | None = None
    ) -> dict[str, float]:
        """Return the alignments by relation; H_b and G_a are given where they were measured.

        A side of a single unit has none.
        """
        W, s = self.weight, self.s
        H_a, G_b, H, G = moments
        SHS, SGS = s[:, None] * H * s, s[:, None] * G * s
        derived = float(np.vdot(SHS, G))  # ⟨H_a, G_a⟩, which is ⟨H_b, G_b⟩
        found: dict[str, float] = {}
        if len(W.T) > 1:
            if G_a is None:
                before = None if self.ones_a is None else W @ self.ones_a
                back = Form(float(np.vdot(SGS, SGS)), _mean(G_b, before, len(W.T)))
                HG, GZ = derived, float(np.vdot(G_b, self.z_a_passed))
            else:
                back = form_of(G_a, self.ones_a)
                HG, GZ = float(np.vdot(H_a, G_a)), float(np.vdot(G_a, self.Z_a))
            own, Z = form_of(H_a, self.ones_a), self.form_Z_a
            found["backward RGA"] = cosine(HG, own, back)
            found["backward RWA"] = cosine(float(np.vdot(H_a, self.Z_a)), own, Z)
            found["backward GWA"] = cosine(GZ, back, Z)
        if len(W) > 1:
            if H_b is None:
                before = None if self.ones_b is None else W.T @ self.ones_b
                made = Form(float(np.vdot(SHS, SHS)), _mean(H_a, before, len(W)))
                HG, HZ = derived, float(np.vdot(H_a, self.z_b_passed))
            else:
                made = form_of(H_b, self.ones_b)
                HG, HZ = float(np.vdot(H_b, G_b)), float(np.vdot(H_b, self.Z_b))
            own, Z = form_of(G_b, self.ones_b), self.form_Z_b
            found["forward RGA"] = cosine(HG, made, own)
            found["forward RWA"] = cosine(HZ, made, Z)
            found["forward GWA"] = cosine(float(np.vdot(G_b, self.Z_b)), own, Z)
        return found


def form_of(A: FloatArray, axis: FloatArray | None) -> Form:
    """Return what an alignment asks of A; ``axis`` is the vector of ones in the basis of A."""
    return Form(float(np.vdot(A, A)), _mean(A, axis, len(A)))


def cosine(product: float, one: Form, other: Form) -> float:
    """Compute ⟨A, B⟩/(‖A‖‖B‖), where what lies along 1·1ᵀ is taken from each."""
    AA, BB = one.size - one.mean**2, other.size - other.mean**2
    if min(AA, BB) <= 0:
        return 0.0
    return float(np.clip((product - one.mean * other.mean) / math.sqrt(AA * BB), -1, 1))


def _mean(A: FloatArray, axis: FloatArray | None, size: int) -> float:
    """Return ⟨A, axis·axisᵀ⟩/size, or 0 without an axis."""
    return 0.0 if axis is None else float(axis @ A @ axis) / size
