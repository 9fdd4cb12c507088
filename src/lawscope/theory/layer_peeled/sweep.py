"""The prediction over a range of imbalance ratios: the paper's minority-angle curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lawscope.axes import given_or_new
from lawscope.errors import LawscopeError
from lawscope.theory.layer_peeled import two_groups
from lawscope.theory.layer_peeled.groups import check_energy, check_length, check_number
from lawscope.theory.layer_peeled.pair import solve_pair
from lawscope.theory.layer_peeled.pair_newton import Pair
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.peeled import Peeled
from lawscope.theory.layer_peeled.phases import ABSENT

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]


class Model(NamedTuple):
    """What stays the same over a sweep: K, K_A, E_W, E_H and the loss."""

    classes: int
    majority: int
    weight_energy: float
    feature_energy: float
    loss: str

    def at(self, ratio: float) -> Peeled:
        """The prediction at one ratio."""
        counts = two_group_counts(self.classes, self.majority, ratio)
        return peel(counts, self.weight_energy, self.feature_energy, self.loss)


@dataclass(frozen=True, eq=False)
class PeelSweep:
    """The minority at every ratio.

    Attributes:
        ratios: R = n_A/n_B, shape (S,).
        cosines: between two minority classifiers, NaN where they vanished, shape (S,).
        phases: of the minority.
        losses: the optimal value, shape (S,).
        gaps: relative dual gap, shape (S,).
        model: what stays the same.
    """

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
        """One row per ratio."""
        import pandas as pd

        return pd.DataFrame(
            {
                "ratio": self.ratios,
                "cosine": self.cosines,
                "phase": self.phases,
                "loss": self.losses,
                "relative_gap": self.gaps,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values; what is not a number becomes None."""
        rows = self.table().to_dict("records")
        points = [{k: None if v != v else v for k, v in row.items()} for row in rows]
        return {
            "model": "layer-peeled sweep",
            **self.model._asdict(),
            "threshold_ratio": self.threshold,
            "points": points,
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the minority cosine against R."""
        ax = given_or_new(ax)
        ax.plot(self.ratios, self.cosines, "o-", markersize=3)
        ax.set_xscale("log")
        ax.set_xlabel("imbalance ratio R")
        ax.set_ylabel("cosine between minority classifiers")
        return ax


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
    wanted = _checked(ratios)
    check_split(classes, majority)
    model = Model(
        int(classes),
        int(majority),
        check_energy("weight_energy", weight_energy),
        check_energy("feature_energy", feature_energy),
        loss,
    )
    if loss == "cross_entropy":
        return _at_once(wanted, model)
    return _told(wanted, [model.at(ratio) for ratio in wanted], model)


def _checked(ratios: ArrayLike) -> FloatArray:
    """One row of ratios of at least 1."""
    try:
        found = np.atleast_1d(np.asarray(ratios, dtype=np.float64))
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if found.ndim != 1 or not (found.size and np.isfinite(found).all() and (found >= 1).all()):
        raise LawscopeError("ratios must be numbers of at least 1 in a row, e.g. [1, 10, 100].")
    return found


def _at_once(ratios: FloatArray, model: Model) -> PeelSweep:
    """All ratios as one computation; a ratio whose gap is not small is solved on its own."""
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
    names = np.where(gone, "vanished", np.where(merged, "collapsed", "separated")).tolist()
    losses, phases = found.loss, list(names)
    for i in np.flatnonzero(~(relative <= two_groups.GOOD)):
        alone = model.at(ratios[i])
        cosines[i], phases[i] = alone.groups[-1].cosine, alone.groups[-1].phase
        losses[i], relative[i] = alone.loss, alone.gap / alone.loss
    return PeelSweep(ratios, cosines, tuple(phases), losses, relative, model)


def _told(ratios: FloatArray, points: list[Peeled], model: Model) -> PeelSweep:
    """The minority of predictions made one by one."""
    minorities = [point.groups[-1] for point in points]
    return PeelSweep(
        ratios,
        np.array([g.cosine for g in minorities]),
        tuple(g.phase for g in minorities),
        np.array([point.loss for point in points]),
        np.array([point.gap / max(point.loss, 1e-300) for point in points]),
        model,
    )


def check_split(classes: int, majority: int) -> None:
    """K ≥ 2 and 1 ≤ K_A < K, both whole."""
    for name, value in (("classes", classes), ("majority", majority)):
        if not check_number(name, value).is_integer():
            raise LawscopeError(f"{name} is {value:g}; classes are counted, e.g. 10.")
    if classes < 2 or not 1 <= majority < classes:
        raise LawscopeError(
            f"{majority} majority classes of {classes}: choose between 1 and {max(classes - 1, 1)} "
            "of at least 2."
        )


def two_group_counts(classes: int, majority: int, ratio: float) -> FloatArray:
    """K_A counts of R and K − K_A counts of 1."""
    return np.repeat([float(ratio), 1.0], [majority, classes - majority])
