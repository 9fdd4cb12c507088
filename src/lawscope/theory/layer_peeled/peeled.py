"""The Layer-Peeled prediction for a class histogram: a frozen result with its certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lawscope.axes import SQUARE, given_or_new
from lawscope.errors import LawscopeError
from lawscope.theory.layer_peeled.groups import (
    Grouping,
    Loss,
    minority_of,
)
from lawscope.theory.layer_peeled.phases import (
    ABSENT,
    PeeledGroup,
    root_gram,
)
from lawscope.theory.layer_peeled.program import Program, Solved
from lawscope.theory.layer_peeled.two_groups import (
    Details,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
QUICK = 100  # different sizes for which thresholds are searched unasked


@dataclass(frozen=True, eq=False)
class Peeled:
    """The global optimum of the Layer-Peeled Model.

    Attributes:
        counts: samples per class, oversampling included, in the order given, shape (K,).
        loss: the optimal value.
        gap: dual certificate: no point is better than ``loss − gap``.
        groups: classes of one size, the largest first.
        weight_energy: E_W, bound on the mean squared norm of a classifier.
        feature_energy: E_H, bound on the mean squared norm of a feature.
        loss_name: which loss.
        price: μ = ‖Γ‖₂, what one unit of ‖Z‖_* is worth.
        settings: everything that was asked for.
    """

    counts: FloatArray
    loss: float
    gap: float
    groups: tuple[PeeledGroup, ...]
    weight_energy: float
    feature_energy: float
    loss_name: str
    price: float
    settings: dict[str, Any] = field(default_factory=dict)
    _loss: Loss = field(repr=False, kw_only=True)
    _make: Callable[[], Details] = field(repr=False, kw_only=True)

    @property
    def ratio(self) -> float:
        """R, the largest count over the smallest."""
        return float(self.counts.max() / self.counts.min())

    @property
    def minority(self) -> NDArray[np.int64]:
        """The minority: the smallest group or, if that is one class, those below the mean count."""
        return minority_of(self.counts)

    @cached_property
    def minority_cosine(self) -> float:
        """Mean cosine between the classifiers of two ``minority`` classes; NaN if undefined."""
        if len(self.minority) < 2:
            return math.nan
        # Pairs are counted by group, so that a hundred thousand classes cost nothing.
        groups, members = np.unique(self._grouping.member[self.minority], return_counts=True)
        found = self._group_cosines()[np.ix_(groups, groups)]
        pairs = np.outer(members, members) - np.diag(members)
        return float((found * pairs).sum() / pairs.sum())

    @cached_property
    def threshold(self) -> float | None:
        """R₀: largest over smallest count at which the smallest group collapses, or None."""
        from lawscope.theory.layer_peeled.threshold import collapse_ratio

        return collapse_ratio(self)

    @cached_property
    def vanishing(self) -> float | None:
        """R₁: the ratio beyond which the smallest group's classifiers are zero, or None."""
        from lawscope.theory.layer_peeled.threshold import vanishing_ratio

        return vanishing_ratio(self)

    @property
    def quick(self) -> bool:
        """Whether thresholds are found in seconds; with many different sizes it takes minutes."""
        return len(self.groups) <= QUICK

    @property
    def oversampling_needed(self) -> float | None:
        """Rate of the smallest classes above which they do not collapse: R/R₀, at least 1.

        It multiplies ``counts``, in which oversampling that was asked for is already included.
        """
        return None if self.threshold is None else max(1.0, self.ratio / self.threshold)

    @property
    def logits(self) -> FloatArray:
        """Z, row k the logits of class k, shape (K, K)."""
        point, sizes, member = self._solved.point, self._program.sizes, self._grouping.member
        root = np.sqrt(sizes)
        between = point.M / (root[:, None] * root[None, :])
        between[np.diag_indices(len(sizes))] -= point.a / sizes
        Z: FloatArray = between[member[:, None], member[None, :]]
        Z[np.diag_indices(len(member))] += point.a[member]
        return Z

    @property
    def cosines(self) -> FloatArray:
        """Cosines between classifiers, NaN where one has vanished, shape (K, K)."""
        member, between = self._grouping.member, self._group_cosines()
        found = between[member[:, None], member[None, :]]
        own = np.where(np.isnan(between.diagonal()), np.nan, 1.0)
        found[np.diag_indices(len(member))] = own[member]
        return found

    def weights(self, p: int | None = None) -> FloatArray:
        """W of a global minimiser, one classifier per row, shape (K, p)."""
        scale = (self.weight_energy / self.feature_energy) ** 0.25
        return np.asarray(self._factors(p)[1] * scale)

    def features(self, p: int | None = None) -> FloatArray:
        """H of the same minimiser, the feature of every class per row, shape (K, p)."""
        scale = (self.feature_energy / self.weight_energy) ** 0.25
        return np.asarray(self._factors(p)[0] * scale)

    def table(self) -> pd.DataFrame:
        """One row per group."""
        import pandas as pd

        return pd.DataFrame([vars(g) for g in self.groups])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the cosine of every pair of classifiers, the largest classes first."""
        ax = given_or_new(ax, SQUARE)
        order = np.argsort(-self.counts, kind="stable")
        image = ax.imshow(self.cosines[np.ix_(order, order)], vmin=-1, vmax=1, cmap="RdBu_r")
        ax.figure.colorbar(image, ax=ax, label="cosine between classifiers")
        ax.set_xlabel("class, largest first")
        ax.set_ylabel("class, largest first")
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values; what is not a finite number becomes None."""
        document: dict[str, Any] = {
            "model": "layer-peeled",
            "loss": self.loss,
            "gap": self.gap,
            "groups": [{k: _finite(v) for k, v in vars(g).items()} for g in self.groups],
            "minority_cosine": _finite(self.minority_cosine),
            "ratio": self.ratio,
            "threshold_ratio": self.threshold if self.quick else None,
            "vanishing_ratio": self.vanishing if self.quick else None,
            "oversampling_needed": self.oversampling_needed if self.quick else None,
            "thresholds_searched": self.quick,
            "price": self.price,
            "weight_energy": self.weight_energy,
            "feature_energy": self.feature_energy,
            "loss_name": self.loss_name,
            "settings": dict(self.settings),
        }
        return document

    def __str__(self) -> str:
        phases = ", ".join(f"{g.classes}×{g.count:g} {g.phase}" for g in self.groups[:6])
        more = " …" if len(self.groups) > 6 else ""
        return f"Layer-Peeled Model: loss {self.loss:.6g} (gap {self.gap:.1e}); {phases}{more}"

    @cached_property
    def _details(self) -> Details:
        """Made when asked for: a prediction of two sizes is done before its arrays are."""
        return self._make()

    @property
    def _grouping(self) -> Grouping:
        return self._details.grouping

    @property
    def _program(self) -> Program:
        return self._details.program

    @property
    def _solved(self) -> Solved:
        return self._details.solved

    def _factors(self, p: int | None) -> tuple[FloatArray, FloatArray]:
        U, sigma, Vt = np.linalg.svd(self.logits)
        rank = int((sigma > ABSENT * sigma.max()).sum())
        p = len(sigma) if p is None else p
        if p < rank:
            raise LawscopeError(
                f"The optimum has rank {rank}; p = {p} is too small, use p ≥ {rank}."
            )
        kept = min(p, len(sigma))
        root = np.sqrt(sigma[:kept])
        padding = ((0, 0), (0, p - kept))
        return np.pad(U[:, :kept] * root, padding), np.pad(Vt[:kept].T * root, padding)

    def _group_cosines(self) -> FloatArray:
        """Cosine between two classes of each pair of groups, NaN where one vanished, shape (G, G).

        WWᵀ ∝ (ZᵀZ)^½, whose blocks are those of T = (MᵀM)^½ and a.
        """
        point, sizes = self._solved.point, self._program.sizes
        T, a = root_gram(point.M), np.abs(point.a)
        root = np.sqrt(sizes)
        between = T / (root[:, None] * root[None, :])
        between[np.diag_indices(len(a))] -= a / sizes
        squares = between.diagonal() + a
        gone = squares <= ABSENT * self._program.tau / self._program.classes
        squares = np.where(gone, np.nan, squares)
        # The root of the product, so that a collapsed group has exactly 1.
        lengths = np.sqrt(squares[:, None] * squares[None, :])
        return np.asarray(np.clip(between / lengths, -1, 1))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
