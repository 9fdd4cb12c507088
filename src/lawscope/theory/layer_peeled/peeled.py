"""The Layer-Peeled prediction for a class histogram: a frozen result with its certificate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.theory.layer_peeled.groups import (
    Grouping,
    Loss,
    check_counts,
    check_energy,
    check_length,
    choose_loss,
    group,
    minority_of,
    oversampled,
)
from lawscope.theory.layer_peeled.phases import (
    ABSENT,
    PeeledGroup,
    describe,
    pair_rows,
    root_gram,
)
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
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(4.5, 4), layout="constrained")
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


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
