"""The answer of a local search: the best of several starts, and no certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lawscope.axes import given_or_new
from lawscope.errors import LawscopeError
from lawscope.theory.layer_peeled.groups import minority_of
from lawscope.theory.layer_peeled.local_search import Minimum, Stack

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
EQUAL = 1e-8  # losses nearer than this are the same
GONE = 1e-6  # a classifier this much shorter than the root mean square has no direction


@dataclass(frozen=True, eq=False)
class LocalPeeled:
    """The best local minimum found. A better one may exist: nothing certifies it.

    Attributes:
        counts: samples per class, shape (K,).
        losses: of all starts, shape (S,): the first near neural collapse, the others at random.
        minority_cosines: mean cosine between the classifiers of two minority classes at the minimum
            of each start, shape (S,).
        layers: weights of the best minimum, the first layer first.
        features: of the best minimum, one row per class, shape (K, p).
        collapsed_loss: the least loss found among configurations with neural collapse, equal for
            all classes, under the same bounds.
        settings: everything that was asked for.
    """

    counts: FloatArray
    losses: FloatArray
    minority_cosines: FloatArray
    layers: tuple[FloatArray, ...]
    features: FloatArray
    collapsed_loss: float
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """The least of all starts."""
        return float(self.losses.min())

    @property
    def certified(self) -> bool:
        """False: these programs are not convex, and nothing bounds the loss from below."""
        return False

    @property
    def weights(self) -> FloatArray:
        """The last layer, one classifier per row, shape (K, p)."""
        return self.layers[-1]

    @property
    def minority_cosine(self) -> float:
        """Mean cosine between the classifiers of two minority classes; NaN if undefined."""
        return float(self.minority_cosines[int(self.losses.argmin())])

    @property
    def below_collapsed(self) -> bool:
        """Is the best loss below that of neural collapse, by more than rounding?"""
        return self.loss < self.collapsed_loss * (1 - EQUAL)

    @cached_property
    def cosines(self) -> FloatArray:
        """Cosines between classifiers, NaN where one is zero, shape (K, K)."""
        return cosines_of(self.weights)

    def table(self) -> pd.DataFrame:
        """One row per start."""
        import pandas as pd

        return pd.DataFrame(
            {
                "start": np.arange(len(self.losses)),
                "loss": self.losses,
                "minority_cosine": self.minority_cosines,
                "below_collapsed": self.losses < self.collapsed_loss * (1 - EQUAL),
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the loss of every start, the least first, and that of neural collapse."""
        ax = given_or_new(ax)
        ax.plot(np.arange(1, len(self.losses) + 1), np.sort(self.losses), "o-", label="found")
        ax.axhline(self.collapsed_loss, color="grey", linestyle="--", label="neural collapse")
        ax.set_xlabel("start, the best first")
        ax.set_ylabel("loss (not certified)")
        ax.legend()
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values; what is not a finite number becomes None."""
        cosines = [None if math.isnan(c) else float(c) for c in self.minority_cosines]
        return {
            "model": "layer-peeled, local search",
            "certified": self.certified,
            "loss": self.loss,
            "losses": self.losses.tolist(),
            "collapsed_loss": self.collapsed_loss,
            "minority_cosine": cosines[int(self.losses.argmin())],
            "minority_cosines": cosines,
            "counts": self.counts.tolist(),
            "settings": dict(self.settings),
        }

    def __str__(self) -> str:
        side = "below" if self.below_collapsed else "not below"
        return (
            f"local minimum: loss {self.loss:.6g}, the best of {len(self.losses)} starts, not "
            f"certified; {side} neural collapse at {self.collapsed_loss:.6g}"
        )


def search(
    stack: Stack,
    counts: FloatArray,
    collapsed: tuple[float, list[FloatArray]],
    settings: dict[str, Any],
) -> LocalPeeled:
    """Search from ``settings["starts"]`` starts, the first near collapse."""
    collapsed_loss, near = collapsed
    minima = stack.search(near, settings["starts"], settings["seed"])
    minority = minority_of(counts)
    best = min(minima, key=lambda minimum: minimum.loss)
    return LocalPeeled(
        counts,
        np.array([minimum.loss for minimum in minima]),
        np.array([_mean_cosine(minimum, minority) for minimum in minima]),
        best.weights,
        best.features,
        collapsed_loss,
        {"counts": counts.tolist(), **settings},
    )


def check_starts(starts: int) -> int:
    """At least one start."""
    if starts < 1:
        raise LawscopeError(f"starts is {starts}; make at least one, e.g. 8.")
    return int(starts)


def check_dimension(dimension: int | None, classes: int) -> int:
    """At least K − 1 features, or K without a wish."""
    if dimension is not None and dimension < classes - 1:
        raise LawscopeError(
            f"dimension is {dimension} for {classes} classes; give at least {classes - 1}, which a "
            "simplex of them needs."
        )
    return classes if dimension is None else int(dimension)


def cosines_of(weights: FloatArray) -> FloatArray:
    """Cosines between the rows, NaN where one is zero."""
    lengths = np.linalg.norm(weights, axis=1)
    lengths[lengths <= GONE * np.sqrt((lengths**2).mean())] = np.nan
    rows = weights / lengths[:, None]
    return np.asarray(np.clip(rows @ rows.T, -1, 1))


def _mean_cosine(minimum: Minimum, minority: NDArray[np.int64]) -> float:
    if len(minority) < 2:
        return math.nan
    cosines = cosines_of(minimum.weights[-1])[np.ix_(minority, minority)]
    return float(cosines[np.triu_indices(len(minority), 1)].mean())
