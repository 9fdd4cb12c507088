"""The prediction over a range of imbalance ratios: the paper's minority-angle curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError
from lawscope.result import Result
from lawscope.section import Lines, Section
from lawscope.theory.layer_peeled import two_groups
from lawscope.theory.layer_peeled.groups import check_energy, check_length
from lawscope.theory.layer_peeled.pair import Pair, solve_pair
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.peeled import ABSENT, Peeled
from lawscope.whole_number import whole_number

if TYPE_CHECKING:
    import pandas as pd


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
        import pandas as pd

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
        return f"the smallest classes collapse from a ratio of {self.threshold:.4g}"


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
    except (TypeError, ValueError):
        wanted = np.full(1, np.nan)
    if wanted.ndim != 1 or not (wanted.size and np.isfinite(wanted).all() and (wanted >= 1).all()):
        raise LawscopeError("ratios must be numbers of at least 1 in a row, e.g. [1, 10, 100].")
    E_W = check_energy("weight_energy", weight_energy)
    E_H = check_energy("feature_energy", feature_energy)
    model = Model(*check_split(classes, majority), E_W, E_H, loss)
    if loss == "cross_entropy":
        return _solve_together(wanted, model)
    points = [model.at(ratio) for ratio in wanted]
    smallest = [point.groups[-1] for point in points]
    return PeelSweep(
        wanted,
        np.array([g.cosine for g in smallest]),
        tuple(g.phase for g in smallest),
        np.array([point.loss for point in points]),
        np.array([point.gap / max(point.loss, 1e-300) for point in points]),
        model,
    )


def _solve_together(ratios: FloatArray, model: Model) -> PeelSweep:
    """Solve all ratios as one computation; one whose gap is not small on its own."""
    A, K = float(model.majority), float(model.classes)
    B = K - A
    tau = K * check_length(math.sqrt(model.weight_energy) * math.sqrt(model.feature_energy))
    share = 1 / (A + B / ratios)
    one = np.ones(len(ratios))
    pair = Pair(A * one, B * one, share, share / ratios, tau)
    with np.errstate(all="ignore"):
        found = solve_pair(pair, np)
        relative = found.gap / found.loss
        spread, within = np.hypot(found.m_major, found.m_minor) * A / K, (B - 1) * found.a_minor
        gone = (spread + within) / B <= ABSENT * tau / K
        cosines = np.where(gone | (B == 1), np.nan, (spread - found.a_minor) / (spread + within))
    merged = pair.alpha_minor <= found.price * (1 + 1e-9)
    phases = np.where(gone, "vanished", np.where(merged, "collapsed", "separated")).tolist()
    losses = found.loss
    for i in np.flatnonzero(~(relative <= two_groups.GOOD)):
        alone = model.at(ratios[i])
        cosines[i], phases[i] = alone.groups[-1].cosine, alone.groups[-1].phase
        losses[i], relative[i] = alone.loss, alone.gap / alone.loss
    return PeelSweep(ratios, cosines, tuple(phases), losses, relative, model)


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
