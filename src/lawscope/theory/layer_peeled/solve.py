"""Solve the convex program: closed forms where there are any, splitting elsewhere."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.theory.layer_peeled.groups import Grouping, Loss, check_length, group
from lawscope.theory.layer_peeled.program import (
    Blocks,
    Point,
    Program,
    Solved,
    evaluate,
    gap,
    nuclear_norm,
)
from lawscope.theory.layer_peeled.proximal import cut_length
from lawscope.theory.layer_peeled.splitting import split
from lawscope.theory.layer_peeled.two_groups import solve_few

TOLERANCE = 1e-10
# Of the share of the lightest group, by which a smoothed loss may miss.
LIGHT = 1e-3


class Solution(NamedTuple):
    """The groups of a class histogram, their program and its optimum."""

    grouping: Grouping
    program: Program
    solved: Solved


def compute_tau(classes: int, energies: tuple[float, float], loss: str) -> float:
    """Return τ = K·√(E_W·E_H), checked where logits may leave the floats."""
    length = math.sqrt(energies[0]) * math.sqrt(energies[1])
    return classes * (length if loss == "mse" else check_length(length))


def solve_counts(counts: FloatArray, energies: tuple[float, float], loss: Loss) -> Solution:
    """Solve the Layer-Peeled Model for checked counts."""
    tau, grouping = compute_tau(len(counts), energies, loss.name), group(counts, loss)
    program = Program(grouping.sizes, grouping.alpha, grouping.offsets, loss.smoothing, tau)
    if loss.name == "mse":
        return Solution(grouping, program, solve_squared(program))
    few = len(program.sizes) <= 2 and loss.name in ("cross_entropy", "class_weighted")
    return Solution(grouping, program, (few and solve_few(program)) or solve(program))


def solve(program: Program, tolerance: float = TOLERANCE) -> Solved:
    """Solve a reduced program and certify the optimum."""
    if (free := _solve_unconstrained(program)) is not None:
        return free
    if program.smoothing:
        # A smoothed loss is never small: a gap relative to it would not see the smallest classes.
        tolerance = min(tolerance, LIGHT * float((program.sizes * program.alpha).min()))
    return split(program, begin(program), tolerance=tolerance)


def _solve_unconstrained(program: Program) -> Solved | None:
    """Return the finite minimiser under label smoothing; None when it lies outside τ.

    There p is the target: z + δ = log(1 + K(1 − ε)/ε) for the own class and 0 for the others; in
    a pinned group the target of the own class is shared by all K_g.
    """
    if not program.smoothing:
        return None
    K, root = program.classes, np.sqrt(program.sizes)
    odds = K * (1 - program.smoothing) / program.smoothing
    margin = np.log1p(np.where(program.held, odds / program.sizes, odds))
    strength = np.where(program.held, program.sizes * margin, margin)
    a = np.where(program.copies > 0, margin, 0.0)
    centre = np.eye(len(root)) - np.outer(root, root) / K
    M = (np.diag(strength) - np.outer(root, root * program.offsets)) @ centre
    if nuclear_norm(program, a, M) > program.tau:
        return None
    # Γ = 0 there by construction, up to rounding: the certificate says so and costs nothing.
    point = evaluate(program, a, M)
    return Solved(point, gap(program, point), 0)


def begin(program: Program) -> Blocks:
    """Return water-filling, brought onto the constraint unless that makes the loss worse.

    Z = diag(a)(I − 11ᵀ/K), where each class is alone against K − 1 equal rivals: its margin a has
    α(1 − ε − p + q) = μ, p its own probability and q that of a rival; μ is chosen so that the
    margins add up to τ.
    """
    K, log_alpha, root = program.classes, np.log(program.alpha), np.sqrt(program.sizes)

    def margins(log_mu: float) -> FloatArray:
        # log(1 + K·s/(1 − s)) with s = 1 − ε − μ/α the lead of the own class.
        behind = program.smoothing + np.exp(np.minimum(log_mu - log_alpha, 0.0))
        return np.asarray(np.log1p(K * np.maximum(1 - behind, 0.0) / behind))

    # By bisection, since smoothed margins may not add up to τ for any μ.
    low, high = float(log_alpha.min()) - 2 * program.tau / K - 40, float(log_alpha.max())
    for _ in range(80):
        middle = (low + high) / 2
        spent = float(program.sizes @ margins(middle))
        low, high = (middle, high) if spent > program.tau else (low, middle)
    a = margins((low + high) / 2)
    M = np.diag(a) - np.outer(root * a, root) / K
    a = np.where(program.copies > 0, a, 0.0)
    scale = program.tau / nuclear_norm(program, a, M)
    onto = a * scale, M * scale
    if scale < 1 or evaluate(program, *onto).loss < evaluate(program, a, M).loss:
        return onto
    return a, M


def solve_squared(program: Program) -> Solved:
    """Solve for ½·Σ α_k‖z_k − e_k‖²: Z = diag((1 − μ/α_k)₊) with Σ z_k = τ, or Z = I.

    Γ = diag(α_k(z_k − 1)) is diagonal, so −Γ ∈ μ·∂‖Z‖_* reads α_k(1 − z_k) = μ where z_k > 0 and
    α_k ≤ μ elsewhere.
    """
    sizes, alpha, tau = program.sizes, program.alpha, program.tau
    # Σ K_k(1 − μ/α_k)₊ = τ
    price = cut_length(alpha, sizes / alpha, tau) if tau < program.classes else 0.0
    z = np.maximum(1 - price / alpha, 0.0)
    slope = alpha * (z - 1)
    loss = 0.5 * float(sizes @ (alpha * (1 - z) ** 2))
    bound = float(sizes @ (slope * z)) + tau * float(np.abs(slope).max())
    point = Point(z, np.diag(z), loss, (sizes - 1) * slope, np.diag(slope))
    return Solved(point, max(bound, 0.0) if price else 0.0, 0)
