"""Solve the Layer-Peeled Model for a class histogram."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeWarning
from lawscope.theory.layer_peeled.groups import (
    LOSS_SETTINGS,
    Loss,
    check_counts,
    check_energy,
    choose_loss,
    oversample,
)
from lawscope.theory.layer_peeled.peeled import Peeled, describe_groups, pair_rows, root_gram
from lawscope.theory.layer_peeled.program import slope_norm
from lawscope.theory.layer_peeled.solve import compute_tau, solve_counts
from lawscope.theory.layer_peeled.two_groups import solve_pair, two_sizes

# A relative gap above this one is worth a warning.
RELIABLE = 1e-6


@checked
def peel(
    counts: ArrayLike,
    weight_energy: float = 1.0,
    feature_energy: float = 5.0,
    loss: str = "cross_entropy",
    oversampling: float | Sequence[float] | None = None,
    *,
    smoothing: float | None = None,
    adjustment: float | None = None,
    class_weights: Sequence[float] | None = None,
) -> Peeled:
    """Solve the Layer-Peeled Model for any class histogram.

    min Σ (n_k/N)·ℓ(W h_k, k) subject to (1/K)Σ‖w_k‖² ≤ E_W and (1/K)Σ‖h_k‖² ≤ E_H (Fang, He, Long
    and Su 2021), through its nuclear-norm form; docs/layer-peeled.md derives it.

    Args:
        counts: samples per class: two or more positive numbers.
        weight_energy: E_W.
        feature_energy: E_H.
        loss: "cross_entropy", "class_weighted", "logit_adjusted", "label_smoothed" or "mse".
        oversampling: a rate for the smallest classes, or one per class.
        smoothing: ε of the label-smoothed loss, 0.1 without it.
        adjustment: t of the logit-adjusted loss, softmax(z + t·log(n/N)), 1 without it.
        class_weights: of the class-weighted loss; 1/n_k without them.

    Returns:
        The optimum with its certificate.

    Raises:
        LawscopeError: counts, energies, the loss or a rate make no sense, or a setting belongs to
            another loss.

    Example:
        >>> found = peel([100, 100, 100])
        >>> round(found.groups[0].cosine, 9)
        -0.5
    """
    given = check_counts(counts)
    chosen = choose_loss(loss, smoothing, adjustment, class_weights)
    E_W = check_energy("weight_energy", weight_energy)
    E_H = check_energy("feature_energy", feature_energy)
    drawn = oversample(given, oversampling)
    settings = {
        "counts": given.tolist(),
        "oversampling": None if oversampling is None else np.asarray(oversampling, float).tolist(),
        **{name: getattr(chosen, name) for name in LOSS_SETTINGS},
    }
    result = predict(drawn, (E_W, E_H), chosen, settings)
    if result.gap > RELIABLE * result.loss:
        warnings.warn(
            f"The solver stopped at a relative gap of {result.gap / result.loss:.1e}: the loss may "
            f"be too large by that much. Round the counts to fewer than the {len(result.groups)} "
            "sizes they have.",
            LawscopeWarning,
            stacklevel=3,  # beside the check of the arguments
        )
    return result


def predict(
    counts: FloatArray, energies: tuple[float, float], loss: Loss, settings: dict[str, Any]
) -> Peeled:
    """Return the prediction for checked counts."""
    tau = compute_tau(len(counts), energies, loss.name)
    pair = two_sizes(counts, tau) if loss.name == "cross_entropy" else None
    if pair is not None and (found := solve_pair(pair[0])) is not None:
        # Two sizes need no arrays: they are made when logits or classifiers are asked for.
        groups = describe_groups(pair_rows(*pair, found), tau / len(counts), found.price)
        numbers = counts, found.loss, found.gap, groups
        return Peeled(*numbers, *energies, loss.name, found.price, settings)
    solution = solve_counts(counts, energies, loss)
    grouping, program, (point, gap, _) = solution
    price = slope_norm(program, point)
    alpha, spread = program.alpha * (1 - program.smoothing), root_gram(point.M).diagonal()
    columns = (grouping.counts, program.sizes, alpha, abs(point.a), spread)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    groups = describe_groups(rows, tau / len(counts), price)
    result = Peeled(counts, point.loss, gap, groups, *energies, loss.name, price, settings)
    vars(result)["_solution"] = solution  # of the cached property: nothing is solved twice
    return result
