"""The prediction over a range of imbalance ratios: the paper's minority-angle curve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import Lines, Section
from lawscope.theory.layer_peeled.groups import check_energy
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.peeled import Peeled, describe_groups, pair_rows
from lawscope.theory.layer_peeled.solve import compute_tau
from lawscope.theory.layer_peeled.two_groups import pair_of_sizes, solve_pair
from lawscope.whole_number import whole_number


class Model(NamedTuple):
    """What stays the same over a sweep: K, K_A, E_W, E_H and the loss."""

    classes: int
    majority: int
    weight_energy: float
    feature_energy: float
    loss: str

    def at(self, ratio: float) -> Peeled:
        """Return the prediction at one ratio."""
        counts = two_group_counts(self.classes, self.majority, ratio)
        return peel(counts, self.weight_energy, self.feature_energy, self.loss)


@dataclass(frozen=True, eq=False, repr=False)
class PeelSweep(Result):
    """The minority at every ratio.

    Attributes:
        ratios: R = n_A/n_B, shape (S,).
        cosines: between two minority classifiers, NaN where they vanished, shape (S,).
        phases: of the minority.
        losses: the optimal value, shape (S,).
        gaps: relative dual gap, shape (S,).
        model: what stays the same.
    """

    schema: ClassVar[str] = "lawscope.peel_sweep/1"
    derived: ClassVar[tuple[str, ...]] = ("threshold",)
    ratios: FloatArray
    cosines: FloatArray
    phases: tuple[str, ...]
    losses: FloatArray
    gaps: FloatArray
    model: Model

    @cached_property
    def points(self) -> tuple[Peeled, ...]:
        """The whole prediction at each ratio."""
        return tuple(self.model.at(ratio) for ratio in self.ratios)

    @cached_property
    def threshold(self) -> float | None:
        """R₀."""
        return self.model.at(2.0).threshold

    def table(self) -> pd.DataFrame:
        """Return one row per ratio."""
        names = ("ratio", "cosine", "phase", "loss", "relative_gap")
        columns = (self.ratios, self.cosines, self.phases, self.losses, self.gaps)
        return pd.DataFrame(dict(zip(names, columns, strict=True)))

    def section(self) -> Section:
        """Return the minority cosine over the ratios."""
        title, axis = "Cosine between minority classifiers", "imbalance ratio R"
        names, cosines = ["minority cosine"], self.cosines[None, :]
        return Section(
            title="Layer-Peeled Model over ratios",
            headline=str(self),
            charts=[Lines(title, names, cosines, self.ratios, axis, "cosine", log_x=True)],
            papers=("layer_peeled",),
        )

    def __str__(self) -> str:
        if self.threshold is None:
            return "the smallest classes do not collapse at any ratio under this loss"
        return f"the smallest classes collapse from a ratio of {self.threshold:.3g}"


@checked
def peel_sweep(
    ratios: ArrayLike,
    classes: int = 10,
    majority: int = 5,
    weight_energy: float = 1.0,
    feature_energy: float = 5.0,
    loss: str = "cross_entropy",
) -> PeelSweep:
    """Solve the two-group model at every imbalance ratio.

    Args:
        ratios: R = n_A/n_B, each at least 1.
        classes: K.
        majority: K_A, between 1 and K − 1.
        weight_energy: E_W.
        feature_energy: E_H.
        loss: as for ``peel``.

    Returns:
        The predictions.

    Example:
        >>> peel_sweep([1, 100]).cosines.round(6).tolist()
        [-0.111111, 1.0]
    """
    try:
        wanted = np.atleast_1d(np.asarray(ratios, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        wanted = np.full(1, np.nan)
    if wanted.ndim != 1 or not (wanted.size and np.isfinite(wanted).all() and (wanted >= 1).all()):
        raise LawscopeError("ratios must be numbers of at least 1 in a row, e.g. [1, 10, 100].")
    E_W = check_energy("weight_energy", weight_energy)
    E_H = check_energy("feature_energy", feature_energy)
    model = Model(*check_split(classes, majority), E_W, E_H, loss)
    rows = [_solve_minority(model, ratio) for ratio in wanted.tolist()]
    cosines, phases, losses, gaps = zip(*rows, strict=True)
    return PeelSweep(wanted, np.array(cosines), phases, np.array(losses), np.array(gaps), model)


def _solve_minority(model: Model, ratio: float) -> tuple[float, str, float, float]:
    """Return cosine and phase of the minority, loss and relative gap at one ratio."""
    if model.loss == "cross_entropy":
        tau = compute_tau(model.classes, (model.weight_energy, model.feature_energy), model.loss)
        # Also at a ratio of 1, where the minority is not a group of its own.
        A, B = float(model.majority), float(model.classes - model.majority)
        pair = pair_of_sizes(A, B, 1 / ratio, tau)
        if (found := solve_pair(pair)) is not None:
            rows = pair_rows(pair, (ratio, 1.0), found)
            _, group = describe_groups(rows, tau / model.classes, found.price)
            return group.cosine, group.phase, found.loss, found.gap / found.loss
    point = model.at(ratio)
    group = point.groups[-1]
    return group.cosine, group.phase, point.loss, point.gap / max(point.loss, 1e-300)


def check_split(classes: int, majority: int) -> tuple[int, int]:
    """Return K ≥ 2 and 1 ≤ K_A < K, both whole."""
    K = whole_number("classes", classes, 2, "cannot be split in two groups")
    A = whole_number("majority", majority, 1, "leaves no majority")
    if A >= K:
        raise LawscopeError(
            f"majority={A} of {K} classes leaves no minority; give at most {K - 1}."
        )
    return K, A


def two_group_counts(classes: int, majority: int, ratio: float) -> FloatArray:
    """Return K_A counts of R and K − K_A counts of 1."""
    return np.repeat([float(ratio), 1.0], [majority, classes - majority])
