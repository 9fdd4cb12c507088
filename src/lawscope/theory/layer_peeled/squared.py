"""The squared loss ½·Σ α_k‖z_k − e_k‖²: the optimum is diagonal and found by water-filling."""

from __future__ import annotations

import numpy as np

from lawscope.theory.layer_peeled.program import Point, Program, Solved


def solve_squared(program: Program) -> Solved:
    """Z = diag((1 − μ/α_k)₊) with Σ z_k = τ, or Z = I where τ ≥ K.

    Γ = diag(α_k(z_k − 1)) is diagonal, so −Γ ∈ μ·∂‖Z‖_* reads α_k(1 − z_k) = μ where z_k > 0 and
    α_k ≤ μ elsewhere.
    """
    sizes, alpha, tau = program.sizes, program.alpha, program.tau
    price = 0.0
    if tau < program.classes:
        order = np.argsort(-alpha)
        kept = np.cumsum(sizes[order])
        inverse = np.cumsum(sizes[order] / alpha[order])
        prices = (kept - tau) / inverse
        # The largest set of classes whose smallest weight is still above its price.
        count = int(np.flatnonzero(alpha[order] > prices)[-1])
        price = float(prices[count])
    z = np.maximum(1 - price / alpha, 0.0)
    slope = alpha * (z - 1)
    loss = 0.5 * float(sizes @ (alpha * (1 - z) ** 2))
    bound = float(sizes @ (slope * z)) + tau * float(np.abs(slope).max())
    blank = np.zeros((len(z), len(z)))
    point = Point(z, np.diag(z), loss, (sizes - 1) * slope, np.diag(slope), blank)
    return Solved(point, max(bound, 0.0) if price else 0.0, 0)
