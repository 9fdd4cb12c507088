"""The Layer-Peeled prediction for a class histogram: a frozen result with its certificate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lawscope.arrays import FloatArray, IntArray
from lawscope.errors import LawscopeError
from lawscope.formatting import number
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import HeatMap, KeyNumber, Section, Table
from lawscope.theory.layer_peeled.groups import LOSS_SETTINGS, Loss, find_minority
from lawscope.theory.layer_peeled.solve import Solution, solve_counts
from lawscope.theory.layer_peeled.two_groups import Optimum, Pair

# Up to so many different sizes thresholds are searched without being asked for.
QUICK = 100
# Shown in a table and in a picture.
MANY_GROUPS, MANY_CLASSES = 12, 100
# A classifier this much shorter than the root mean square has vanished.
ABSENT = 1e-6
# A collapsed group has the cosine 1; below this one the price is lost in rounding.
APART = 0.99


@dataclass(frozen=True)
class PeeledGroup:
    """Classes of one size.

    Attributes:
        count: samples per class, oversampling included.
        classes: how many classes.
        cosine: between the classifiers of two of them; NaN for one class or vanished ones.
        phase: "separated", "collapsed" (all classifiers equal: the loss a class carries is at most
            the price μ of the constraint; for a group of one class, a twin of it would not be
            distinguished from it) or "vanished" (the classifiers are zero).
    """

    count: float
    classes: int
    cosine: float
    phase: str


@dataclass(frozen=True, eq=False, repr=False)
class Peeled(Result):
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

    schema: ClassVar[str] = "lawscope.peeled/1"
    derived: ClassVar[tuple[str, ...]] = ("ratio", "minority_cosine")
    counts: FloatArray
    loss: float
    gap: float
    groups: tuple[PeeledGroup, ...]
    weight_energy: float
    feature_energy: float
    loss_name: str
    price: float
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """R, the largest count over the smallest."""
        return float(self.counts.max() / self.counts.min())

    @property
    def tau(self) -> float:
        """τ = K·√(E_W·E_H), the bound on the nuclear norm of the logits."""
        return len(self.counts) * math.sqrt(self.weight_energy) * math.sqrt(self.feature_energy)

    @property
    def minority(self) -> IntArray:
        """The smallest classes; all of them where none is clearly small, see ``find_minority``."""
        return find_minority(self.counts)

    @cached_property
    def minority_cosine(self) -> float:
        """Mean cosine between the classifiers of two ``minority`` classes; NaN if undefined."""
        if len(self.minority) < 2:
            return math.nan
        # Pairs are counted by group, so that a hundred thousand classes cost nothing.
        member = self._solution.grouping.member[self.minority]
        groups, members = np.unique(member, return_counts=True)
        found = self._group_cosines()[np.ix_(groups, groups)]
        pairs = np.outer(members, members) - np.diag(members)
        return float((found * pairs).sum() / pairs.sum())

    @cached_property
    def threshold(self) -> float | None:
        """R₀: largest over smallest count at which the smallest group collapses, or None."""
        from lawscope.theory.layer_peeled.thresholds import find_collapse_ratio

        return find_collapse_ratio(self)

    @cached_property
    def vanishing(self) -> float | None:
        """R₁: the ratio beyond which the smallest group's classifiers are zero, or None."""
        from lawscope.theory.layer_peeled.thresholds import find_vanishing_ratio

        return find_vanishing_ratio(self)

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
        grouping, program, (point, _, _) = self._solution
        member = grouping.member
        Z = _between(point.M, point.a, program.sizes)[member[:, None], member[None, :]]
        Z[np.diag_indices(len(member))] += point.a[member]
        return Z

    @property
    def cosines(self) -> FloatArray:
        """Cosines between classifiers, NaN where one has vanished, shape (K, K)."""
        member, between = self._solution.grouping.member, self._group_cosines()
        found = between[member[:, None], member[None, :]]
        own = np.where(np.isnan(between.diagonal()), np.nan, 1.0)
        found[np.diag_indices(len(member))] = own[member]
        return found

    def weights(self, p: int | None = None) -> FloatArray:
        """Return W of a global minimiser, one classifier per row, shape (K, p)."""
        scale = (self.weight_energy / self.feature_energy) ** 0.25
        return np.asarray(self._factors(p)[1] * scale)

    def features(self, p: int | None = None) -> FloatArray:
        """Return H of the same minimiser, the feature of every class per row, shape (K, p)."""
        scale = (self.feature_energy / self.weight_energy) ** 0.25
        return np.asarray(self._factors(p)[0] * scale)

    def table(self) -> pd.DataFrame:
        """Return one row per group."""
        return pd.DataFrame([vars(g) for g in self.groups])

    def section(self) -> Section:
        """Return the groups, the certificate, and the cosines between classifiers."""
        exact, half = f"optimal, certified to {_gap(self)}", MANY_GROUPS // 2
        rows = [[f"{g.count:g}", str(g.classes), number(g.cosine), g.phase] for g in self.groups]
        if len(rows) > MANY_GROUPS:
            rows[half:-half] = [["…"] * 4]
        order = np.argsort(-self.counts, kind="stable")[:MANY_CLASSES]
        names, cosines = [f"{self.counts[k]:g}" for k in order], self.cosines[np.ix_(order, order)]
        title = "Cosine between classifiers"
        title += ", largest classes first" * (len(self.groups) > 1)
        return Section(
            title="Layer-Peeled Model",
            headline=str(self),
            numbers=[
                KeyNumber("loss", number(self.loss, 4), exact),
                KeyNumber("R", number(self.ratio), "largest class over smallest"),
                KeyNumber("E_W", number(self.weight_energy), "energy of the classifiers"),
                KeyNumber("E_H", number(self.feature_energy), "energy of the features"),
            ],
            charts=[HeatMap(title, names, names, cosines, -1.0, 1.0, "cosine")],
            tables=[Table("Groups", ["samples", "classes", "cosine", "phase"], rows, main=True)],
            findings=self._findings(),
            papers=("layer_peeled",),
        )

    def _findings(self) -> list[str]:
        said = []
        if len(self.groups) > MANY_GROUPS:
            ends = f"{MANY_GROUPS // 2} largest and {MANY_GROUPS // 2} smallest"
            said.append(f"The table has the {ends} of {len(self.groups)} sizes.")
        if any(g.classes == 1 and g.phase != "vanished" for g in self.groups):
            said.append(
                "A class alone in its size has no cosine (–), since there is no second classifier "
                "to compare with; its phase says whether a twin would be distinguished from it."
            )
        if any(g.phase == "vanished" for g in self.groups):
            said.append("Vanished classifiers are zero, so they have no cosine (–).")
        return said

    def __str__(self) -> str:
        phases = ", ".join(f"{g.classes}×{g.count:g} {g.phase}" for g in self.groups[:6])
        more = " …" if len(self.groups) > 6 else ""
        return f"Layer-Peeled Model: loss {number(self.loss)} (gap {_gap(self)}); {phases}{more}"

    @property
    def _loss(self) -> Loss:
        return Loss(self.loss_name, **{name: self.settings[name] for name in LOSS_SETTINGS})

    @cached_property
    def _solution(self) -> Solution:
        return solve_counts(self.counts, (self.weight_energy, self.feature_energy), self._loss)

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
        """Return the cosine between classes of each two groups, NaN where one vanished, (G, G).

        WWᵀ ∝ (ZᵀZ)^½, whose blocks are those of T = (MᵀM)^½ and a.
        """
        _, program, (point, _, _) = self._solution
        a = np.abs(point.a)
        between = _between(root_gram(point.M), a, program.sizes)
        squares = between.diagonal() + a
        gone = squares <= ABSENT * program.tau / program.classes
        squares = np.where(gone, np.nan, squares)
        # The root of the product, so that a collapsed group has exactly 1.
        lengths = np.sqrt(squares[:, None] * squares[None, :])
        return np.asarray(np.clip(between / lengths, -1, 1))


def _gap(found: Peeled) -> str:
    # Floats cannot do better than this.
    return number(max(found.gap, 1e-16), 1)


def pair_rows(pair: Pair, counts: tuple[float, float], found: Optimum) -> list[tuple[float, ...]]:
    """Return what ``describe_groups`` needs; the diagonal of (MᵀM)^½ is ‖m‖·K_o/K."""
    A, B, alpha_A, alpha_B, _ = pair
    length = math.hypot(found.m_major, found.m_minor) / (A + B)
    return [
        (counts[0], A, alpha_A, found.a_major, length * B),
        (counts[1], B, alpha_B, found.a_minor, length * A),
    ]


def describe_groups(
    rows: Iterable[tuple[float, ...]], mean_square: float, price: float
) -> tuple[PeeledGroup, ...]:
    """Return cosine and phase of each group from its count, K_g, α_g(1 − ε), a_g and T_gg."""
    found = []
    for count, size, alpha, a, spread in rows:
        cosine, length = math.nan, spread + (size - 1) * a
        if length / size <= ABSENT * mean_square:
            phase = "vanished"
        else:
            if size > 1:
                cosine = (spread - a) / length
            merged = alpha <= price * (1 + 1e-9) and not cosine < APART
            phase = "collapsed" if merged else "separated"
        found.append(PeeledGroup(count, int(size), cosine, phase))
    return tuple(found)


def _between(M: FloatArray, a: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return b of the blocks b_gh·11ᵀ, from M and a."""
    root = np.sqrt(sizes)
    return np.asarray(M / (root[:, None] * root[None, :]) - np.diag(a / sizes))


def root_gram(M: FloatArray) -> FloatArray:
    """Return T = (MᵀM)^½."""
    _, sigma, Vt = np.linalg.svd(M)
    return np.asarray((Vt.T * sigma) @ Vt)
