"""Solving the Layer-Peeled Model for a class histogram."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lawscope.errors import LawscopeWarning
from lawscope.theory.layer_peeled.groups import (
    Loss,
    check_counts,
    check_energy,
    check_length,
    choose_loss,
    group,
    oversampled,
)
from lawscope.theory.layer_peeled.peeled import Peeled
from lawscope.theory.layer_peeled.phases import describe, pair_rows, root_gram
from lawscope.theory.layer_peeled.program import Program, Solved, slope_norm
from lawscope.theory.layer_peeled.solve import solve
from lawscope.theory.layer_peeled.squared import solve_squared
from lawscope.theory.layer_peeled.two_groups import (
    Details,
    details,
    solve_few,
    solve_floats,
    two_sizes,
)

FloatArray = NDArray[np.float64]
RELIABLE = 1e-6  # a relative gap above this is told


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
    energies = (
        check_energy("weight_energy", weight_energy),
        check_energy("feature_energy", feature_energy),
    )
    drawn = oversampled(given, oversampling)
    settings = {
        "counts": given.tolist(),
        "oversampling": None if oversampling is None else np.asarray(oversampling, float).tolist(),
        "smoothing": chosen.smoothing,
        "adjustment": chosen.adjustment,
        "class_weights": None if chosen.class_weights is None else list(chosen.class_weights),
    }
    result = solve_counts(drawn, energies, chosen, settings)
    if result.gap > RELIABLE * result.loss:
        warnings.warn(
            f"The solver stopped at a relative gap of {result.gap / result.loss:.1e}: the loss may "
            f"be too large by that much. Round the counts to fewer than the {len(result.groups)} "
            "sizes they have.",
            LawscopeWarning,
            stacklevel=2,
        )
    return result


def solve_counts(
    counts: FloatArray, energies: tuple[float, float], loss: Loss, settings: dict[str, Any]
) -> Peeled:
    """The prediction for checked counts."""
    squared = loss.name == "mse"
    length = math.sqrt(energies[0]) * math.sqrt(energies[1])
    tau = len(counts) * (length if squared else check_length(length))
    pair = two_sizes(counts, tau) if loss.name == "cross_entropy" else None
    found = None if pair is None else solve_floats(pair[0])
    if pair is not None and found is not None:
        groups = describe(pair_rows(*pair, found), tau / len(counts), found.price)
        price, make = found.price, partial(details, counts, loss, pair[0], found)
        optimum = found.loss, found.gap
    else:
        grouping = group(counts, loss)
        program = Program(grouping.sizes, grouping.alpha, grouping.offsets, loss.smoothing, tau)
        solved = solve_squared(program) if squared else _solve(program, loss)
        price = slope_norm(program, solved.point)
        spread, a = root_gram(solved.point.M).diagonal(), abs(solved.point.a)
        alpha = program.alpha * (1 - program.smoothing)
        columns = (grouping.counts, program.sizes, alpha, a, spread)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        groups = describe(rows, tau / len(counts), price)
        make, optimum = partial(Details, grouping, program, solved), (solved.point.loss, solved.gap)
    return Peeled(
        counts, *optimum, groups, *energies, loss.name, price, settings, _loss=loss, _make=make
    )


def _solve(program: Program, loss: Loss) -> Solved:
    few = None
    if len(program.sizes) <= 2 and loss.name in ("cross_entropy", "class_weighted"):
        few = solve_few(program)
    return solve(program) if few is None else few
