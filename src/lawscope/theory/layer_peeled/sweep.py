"""The prediction over a range of imbalance ratios: the paper's minority-angle curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lawscope.errors import LawscopeError
from lawscope.theory.layer_peeled.peeled import Peeled, peel

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PeelSweep:
    """One solved program per ratio.

    Attributes:
        ratios: R = n_A/n_B, shape (S,).
        points: the prediction at each.
    """

    ratios: FloatArray
    points: tuple[Peeled, ...]

    @property
    def cosines(self) -> FloatArray:
        """Cosine between two minority classifiers at each ratio, NaN where they vanished."""
        return np.array([point.groups[-1].cosine for point in self.points])

    @property
    def gaps(self) -> FloatArray:
        """Relative dual gap at each ratio."""
        return np.array([point.gap / point.loss for point in self.points])

    @property
    def threshold(self) -> float | None:
        """R₀."""
        return next((p.threshold for p in self.points if len(p.groups) > 1), None)

    def table(self) -> pd.DataFrame:
        """One row per ratio."""
        import pandas as pd

        return pd.DataFrame(
            {
                "ratio": self.ratios,
                "cosine": self.cosines,
                "phase": [point.groups[-1].phase for point in self.points],
                "loss": [point.loss for point in self.points],
                "relative_gap": self.gaps,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the minority cosine against R."""
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
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
    wanted = np.atleast_1d(np.asarray(ratios, dtype=np.float64))
    if not (np.isfinite(wanted).all() and (wanted >= 1).all()):
        raise LawscopeError("ratios must be numbers of at least 1, e.g. [1, 10, 100].")
    check_split(classes, majority)
    points = tuple(
        peel(two_group_counts(classes, majority, ratio), weight_energy, feature_energy, loss)
        for ratio in wanted
    )
    return PeelSweep(wanted, points)


def check_split(classes: int, majority: int) -> None:
    """K ≥ 2 and 1 ≤ K_A < K."""
    if classes < 2 or not 1 <= majority < classes:
        raise LawscopeError(
            f"{majority} majority classes of {classes}: choose between 1 and {max(classes - 1, 1)} "
            "of at least 2."
        )


def two_group_counts(classes: int, majority: int, ratio: float) -> FloatArray:
    """K_A counts of R and K − K_A counts of 1."""
    return np.repeat([float(ratio), 1.0], [majority, classes - majority])
