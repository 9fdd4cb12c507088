"""The Layer-Peeled Model with another norm on the features: local minima and collapse."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.theory.layer_peeled.groups import (
    check_counts,
    check_energy,
    check_length,
    check_number,
)
from lawscope.theory.layer_peeled.local_search import LocalPeeled, Stack, check_search, search

LARGEST_Q = 100.0


@checked
def peel_q_norm(
    counts: ArrayLike,
    q: float = 3.0,
    weight_energy: float = 1.0,
    feature_energy: float = 5.0,
    dimension: int | None = None,
    starts: int = 8,
    seed: int = 0,
) -> LocalPeeled:
    """Search local minima of the model with (1/K)Σ‖h_k‖_q^q ≤ E_H. Not certified.

    Features of one class may be taken equal as before, ‖·‖_q^q being convex. For K ≥ 3 and q ≠ 2
    the minimiser of equal classes has no neural collapse (Fang, He, Long and Su 2021). Axes matter
    here: for q > 2 more dimensions make long features cheap, and the loss falls with them.

    Args:
        counts: samples per class: two or more positive numbers.
        q: exponent, above 1.
        weight_energy: E_W, bound on the mean squared norm of a classifier.
        feature_energy: E_H, bound on the mean ‖h‖_q^q.
        dimension: p, at least K − 1; K if None.
        starts: local searches, the first from near neural collapse, the others from random points.
        seed: of the starts.

    Returns:
        The best minimum, the losses of all starts and the least loss with neural collapse.

    Raises:
        LawscopeError: counts, energies, q, dimension or starts make no sense.

    Example:
        >>> found = peel_q_norm([1, 1, 1], q=2, starts=2)
        >>> round(found.loss, 6), round(found.collapsed_loss, 6), found.certified
        (0.067548, 0.067548, False)
    """
    given = check_counts(counts)
    q = check_number("q", q)
    if not 1 < q <= LARGEST_Q:
        raise LawscopeError(
            f"q is {q:g}; it must be above 1, since up to 1 features of one class need not be "
            f"equal, and at most {LARGEST_Q:g}, since powers leave the floats: e.g. 3."
        )
    E_W = check_energy("weight_energy", weight_energy)
    E_H = check_energy("feature_energy", feature_energy)
    K = len(given)
    starts, p = check_search(starts, dimension, seed, K)
    spread = max(1.0, p ** (0.5 - 1 / q))  # how much longer a vector of all axes may be
    check_length(math.sqrt(E_W) * E_H ** (1 / q) * spread)
    settings = {"q": q, "weight_energy": E_W, "feature_energy": E_H}
    settings |= {"dimension": p, "starts": starts, "seed": seed}
    simplex = smallest_simplex(K, p, q, starts, seed)
    stack = Stack(given, p, (K * E_H, K * E_W), q)
    return search(stack, collapsed_loss(simplex, q, E_W, E_H), [simplex, simplex], settings)


def collapsed_loss(
    simplex: FloatArray, q: float, weight_energy: float, feature_energy: float
) -> float:
    """Compute the loss with h_k and w_k along the rows m_k of a simplex of unit vectors.

    With S = Σ‖m_k‖_q^q, features have length (K·E_H/S)^(1/q), and the own logit leads by
    √E_W·(K·E_H/S)^(1/q)·K/(K − 1) in every class, whatever the counts.
    """
    K = len(simplex)
    length = (K * feature_energy / float((np.abs(simplex) ** q).sum())) ** (1 / q)
    lead = math.sqrt(weight_energy) * length * K / (K - 1)
    return math.log1p((K - 1) * math.exp(-lead))


def smallest_simplex(classes: int, dimension: int, q: float, starts: int, seed: int) -> FloatArray:
    """Return the rotated simplex of unit vectors with the least Σ‖m_k‖_q^q found, (K, p)."""
    centre = np.eye(classes) - 1 / classes
    basis = np.linalg.svd(centre)[0][:, : classes - 1] * math.sqrt(classes / (classes - 1))
    shape = dimension, classes - 1

    def size(flat: FloatArray) -> tuple[float, FloatArray]:
        # The frame nearest to X = UΣVᵀ is UVᵀ.
        U, sigma, Vt = np.linalg.svd(flat.reshape(shape), full_matrices=False)
        rows = basis @ (U @ Vt).T
        slope = q * (np.sign(rows) * np.abs(rows) ** (q - 1)).T @ basis
        turned = U.T @ slope @ Vt.T
        inside = (turned - turned.T) / (sigma[:, None] + sigma[None, :])
        outside = (slope @ Vt.T - U @ turned) / sigma
        return float((np.abs(rows) ** q).sum()), ((U @ inside + outside) @ Vt).ravel()

    rng = np.random.default_rng(seed)
    begun = rng.standard_normal((starts, dimension * (classes - 1)))
    found = [minimize(size, x, jac=True, method="L-BFGS-B") for x in begun]
    best = min(found, key=lambda one: one.fun).x.reshape(shape)
    U, _, Vt = np.linalg.svd(best, full_matrices=False)
    return np.asarray(basis @ (U @ Vt).T)
