"""The m-Layer-Peeled Model: the last m layers as variables, local minima without certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.theory.layer_peeled.groups import check_counts, check_energy, check_length
from lawscope.theory.layer_peeled.local_search import LocalPeeled, Stack, check_search, search


@checked
def peel_layers(
    counts: ArrayLike,
    energies: Sequence[float] = (1.0, 1.0, 5.0),
    activation: str | None = None,
    dimension: int | None = None,
    starts: int = 8,
    seed: int = 0,
) -> LocalPeeled:
    """Search local minima of the m-Layer-Peeled Model. Not certified.

    min Σ (n_k/N)·ℓ(W_m σ(… σ(W_1 h_k)), k) subject to (1/K)‖W_i‖² ≤ E_i and (1/K)Σ‖h_k‖² ≤ E_H. One
    bound (1/K)Σ‖W_i‖² ≤ E_W for all layers, as the paper has it, is the same with E_i = E_W/m: the
    logits are homogeneous in every layer, so the best shares are equal.

    Args:
        counts: samples per class: two or more positive numbers.
        energies: E_m of the last weights, …, E_1, and E_H of the features: two or more.
        activation: None for linear layers, or "relu".
        dimension: p, features and hidden units, at least K − 1; K if None.
        starts: local searches, the first from near neural collapse, the others from random points.
        seed: of the starts.

    Returns:
        The best minimum, the losses of all starts and the loss with neural collapse.

    Raises:
        LawscopeError: counts, energies, activation, dimension or starts make no sense.

    Example:
        >>> found = peel_layers([1, 1, 1], energies=(1, 5), starts=2)
        >>> round(found.loss, 6), found.certified
        (0.067548, False)
    """
    given = check_counts(counts)
    listed: list[Any] = list(energies) if hasattr(energies, "__iter__") else [energies]
    allowed = [check_energy(f"energies[{i}]", e) for i, e in enumerate(listed)]
    if len(allowed) < 2:
        raise LawscopeError(
            f"energies has {len(allowed)} value(s); give one per layer and one for the features, "
            "e.g. (1, 1, 5)."
        )
    check_length(math.prod(math.sqrt(e) for e in allowed))
    if activation not in (None, "relu"):
        raise LawscopeError(f"activation is {activation!r}; choose None or 'relu'.")
    K = len(given)
    starts, p = check_search(starts, dimension, seed, K)
    if activation == "relu" and p < K:
        raise LawscopeError(
            f"dimension is {p}; with ReLU a unit per class needs at least {K} of them."
        )
    settings: dict[str, Any] = {"energies": allowed, "activation": activation}
    settings |= {"dimension": p, "starts": starts, "seed": seed}
    bounds = tuple(K * energy for energy in reversed(allowed))
    stack = Stack(given, p, bounds, relu=activation == "relu")
    least = collapsed_loss(K, allowed, relu=stack.relu)
    return search(stack, least, collapsed_blocks(stack), settings)


def collapsed_loss(classes: int, energies: Sequence[float], *, relu: bool) -> float:
    """Compute the loss with neural collapse in every layer.

    Linear: all singular values of all matrices equal, so Z = a(I − 11ᵀ/K) with
    a = (K/(K − 1))^((m+1)/2)·√ΠE. With ReLU: hidden units are not negative, so that classes can be
    orthogonal at best; one unit per class and a simplex as last layer give a = (K/(K − 1))^½·√ΠE
    (with one layer nothing is hidden, and a is as above).
    """
    ratio = classes / (classes - 1)
    power = 0.5 if relu and len(energies) > 2 else len(energies) / 2
    lead = ratio**power * math.prod(math.sqrt(e) for e in energies)
    return math.log1p((classes - 1) * math.exp(-lead))


def collapsed_blocks(stack: Stack) -> list[FloatArray]:
    """Return features and weights with neural collapse, up to their scale."""
    K, p, hidden = len(stack.counts), stack.width, len(stack.bounds) - 2
    centre = np.eye(K) - 1 / K
    if p < K:
        simplex = np.linalg.svd(centre)[0][:, :p]
        return [simplex, *[np.eye(p)] * hidden, simplex]
    units = np.eye(K, p)
    simplex = centre @ units
    if stack.relu and hidden:
        return [units, *[units.T @ units] * hidden, simplex]
    return [simplex, *[simplex.T @ simplex] * hidden, simplex]
