"""Before any training: will these class sizes collapse, and what would prevent it?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lawscope.arrays import FloatArray, IntArray, refuse_masked
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.formatting import number
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import Lines, Section, Table
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.thresholds import collapse_floor

# E_H at E_W = 1; only the product matters. 5 is the paper's; strong weight decay is below it,
# weak weight decay and long training above.
FEATURE_ENERGIES = (1.0, 5.0, 25.0, 100.0)


@dataclass(frozen=True)
class EnergyOutlook:
    """What one pair of energies makes of the class sizes."""

    weight_energy: float  # E_W
    feature_energy: float  # E_H
    phase: str  # of the smallest classes: "separated", "collapsed" or "vanished"
    collapsed: int  # how many classes are not separated
    minority_cosine: float  # predicted between minority classifiers; NaN where undefined
    # Ratio of the largest class to a smaller one from which that one collapses, the others lifted
    # onto the same bar; None where this data stays below it.
    threshold: float | None
    rate: float  # how much more often the smallest classes must be sampled, 1 where they need not


@dataclass(frozen=True, eq=False, repr=False)
class CollapseOutlook(Result):
    """The outlook for class sizes over typical energies.

    Attributes:
        classes: labels, sorted, shape (K,).
        counts: samples per class, shape (K,).
        outlooks: one per pair of energies, the smallest energy first.
    """

    schema: ClassVar[str] = "lawscope.collapse_outlook/1"
    derived: ClassVar[tuple[str, ...]] = ("ratio",)
    classes: IntArray
    counts: IntArray
    outlooks: tuple[EnergyOutlook, ...]

    @property
    def ratio(self) -> float:
        """The largest count over the smallest."""
        return float(self.counts.max() / self.counts.min())

    @property
    def advice(self) -> tuple[str, ...]:
        """What to expect, in sentences."""
        bad = [o for o in self.outlooks if o.collapsed]
        said, ratio = f"{len(self.counts)} classes", number(self.ratio)
        said += f", the largest {ratio} times the smallest" if self.ratio > 1 else " of equal size"
        if not bad:
            return (f"{said}: no class collapses at any of the energies looked at.",)
        worst = bad[-1]
        return (
            f"{said}: at energies of E_W·E_H = {worst.weight_energy * worst.feature_energy:g} and "
            f"less, {worst.collapsed} or more classes lose their own classifier.",
            f"There, sample the smallest classes more than {worst.rate:.3g} times as often "
            "(lawscope.oversampling_weights), or keep the energies up: less weight decay, longer "
            "training.",
        )

    def table(self) -> pd.DataFrame:
        """Return one row per pair of energies."""
        return pd.DataFrame([vars(o) for o in self.outlooks])

    def section(self) -> Section:
        """Return the outlook over energies."""
        energies = np.array([o.weight_energy * o.feature_energy for o in self.outlooks])
        cosines = np.array([[o.minority_cosine for o in self.outlooks]])
        rows = [
            [number(e), o.phase, number(o.minority_cosine), number(o.rate)]
            for e, o in zip(energies, self.outlooks, strict=True)
        ]
        title, axis = "Predicted cosine between minority classifiers", "energy E_W·E_H"
        names = ["minority cosine"]
        return Section(
            title="Outlook before training",
            headline=self.advice[0],
            charts=[Lines(title, names, cosines, energies, axis, "cosine", log_x=True)],
            tables=[Table("Energies", ["E_W·E_H", "phase", "cosine", "rate needed"], rows)],
            advice=self.advice[1:],
            papers=("layer_peeled",),
        )

    def __str__(self) -> str:
        return " ".join(self.advice)


def collapse_outlook(labels: Any) -> CollapseOutlook:
    """Say before any training whether classes of these sizes will collapse, and when.

    The Layer-Peeled Model is solved for the class sizes at E_W = 1 and E_H = 1, 5, 25 and 100:
    only the product matters, 5 is the paper's choice, strong weight decay goes below it, long
    training with little of it above. After training, ``ls.collapse`` uses the measured energies.

    Args:
        labels: integer class of every sample, shape (n,): a list, an array or a tensor.

    Returns:
        The outlook; ``.table()`` has one row per energy.

    Raises:
        LawscopeError: no integers, NaN, or fewer than two classes.

    Example:
        >>> report = collapse_outlook([0] * 500 + [1] * 500 + [2] * 5 + [3] * 5)
        >>> [outlook.phase for outlook in report.outlooks]
        ['collapsed', 'collapsed', 'separated', 'separated']
    """
    refuse_masked(labels)
    try:
        given = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise LawscopeError("labels are not a list; give integers, like [0, 0, 1].") from error
    if given.ndim != 1 or not len(given):
        raise LawscopeError(
            f"labels has shape {given.shape}; give one integer per sample, like [0, 0, 1]."
        )
    if given.dtype.kind not in "iub":
        raise LawscopeError(
            f"labels are {given.dtype}, but classes are integers; encode them as class numbers."
        )
    classes, counts = np.unique(given.astype(np.int64), return_counts=True)
    if len(classes) < 2:
        raise LawscopeError(
            f"All {int(counts.sum())} labels are {classes[0]}; collapse needs two or more classes."
        )
    sizes = counts.astype(np.float64)
    return CollapseOutlook(classes, counts, tuple(_outlook(sizes, e) for e in FEATURE_ENERGIES))


def _outlook(counts: FloatArray, energy: float) -> EnergyOutlook:
    with warnings.catch_warnings(action="ignore", category=LawscopeWarning):
        found = peel(counts, 1.0, energy)
    lost = sum(g.classes for g in found.groups if g.phase != "separated")
    threshold, rate = None, 1.0
    if lost:
        floor = collapse_floor(counts, 1.0, energy, precision=1e-3)
        threshold, rate = float(counts.max() / floor), floor / float(counts.min())
    if len(found.groups) == 2:
        threshold = found.threshold
    phase, cosine = found.groups[-1].phase, found.minority_cosine
    return EnergyOutlook(1.0, energy, phase, lost, cosine, threshold, rate)
