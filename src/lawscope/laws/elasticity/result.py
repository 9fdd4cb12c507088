"""What a measurement of local elasticity says: numbers, verdict, picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lawscope.arrays import FloatArray, IntArray
from lawscope.formatting import fixed
from lawscope.laws.base import LawResult
from lawscope.laws.learned import has_learned
from lawscope.section import Section
from lawscope.statistics.class_pairs import PairGap

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Elasticity(LawResult):
    """How far a step on one sample moves samples of its own class and of others.

    Each of the first five has ``same``, ``other``, ``gap`` = same − other, and the 95 %
    ``interval`` of these by name.

    Attributes:
        relative: |Δf(x′)|/|Δf(x)| of a step on x.
        signed: ⟨Δf(x′), Δf(x)⟩/|Δf(x)|².
        kernel: K(x, x′)/√(K(x, x)K(x′, x′)) of gradients of the logits.
        linear: the relative similarity of a linear classifier on the same probes, or None where
            inputs are not numbers.
        excess: relative less linear, pair by pair, or None.
        classwise: mean relative similarity of steps on class k (row) to samples of class l.
        classes: labels of the data, sorted, shape (K,).
        counts: samples of each in the data.
        class_names: names for ``classes``.
        probed: positions in ``classes`` of those that were probed; the order of ``classwise``.
        probes: used of each of these.
        accuracy: on the data, NaN where the output does not score these classes.
        nonlinearity: largest |Δ(η) − 2Δ(η/2)|/|Δ(η)| of the first probe of each class; without a
            rate 2Δ(η/2) is what the gradients say.
        one_by_one: why gradients of single samples were not computed together, or empty.
    """

    schema: ClassVar[str] = "lawscope.elasticity/1"
    relative: PairGap
    signed: PairGap
    kernel: PairGap
    linear: PairGap | None
    excess: PairGap | None
    classwise: FloatArray
    classes: IntArray
    counts: IntArray
    class_names: tuple[str, ...]
    probed: IntArray
    probes: IntArray
    accuracy: float
    nonlinearity: float
    one_by_one: str
    control: Elasticity | None = None

    @property
    def similarities(self) -> dict[str, PairGap]:
        """The kinds of similarity by name, that of the linear classifier last."""
        found = {"relative": self.relative, "signed": self.signed, "kernel": self.kernel}
        return found if self.linear is None else {**found, "linear classifier": self.linear}

    @property
    def learned(self) -> bool | None:
        """Whether the network has learned its data; None where the accuracy is not known."""
        untrained = math.nan if self.control is None else self.control.accuracy
        return has_learned(self.accuracy, self.counts, untrained)

    def table(self) -> pd.DataFrame:
        """Return one row per similarity: same, other, gap, and the interval of the gap."""
        import pandas as pd

        rows = []
        for name, found in self.similarities.items():
            low, high = found.interval.get("gap", (math.nan, math.nan))
            rows.append((name, found.same, found.other, found.gap, low, high))
        return pd.DataFrame(rows, columns=["similarity", "same", "other", "gap", "low", "high"])

    def section(self) -> Section:
        from lawscope.laws.elasticity.section import section_of

        return section_of(self)

    def __str__(self) -> str:
        gap = self.relative
        return (
            f"local elasticity: {self.verdict}; gap {fixed(gap.gap, 3)} (same class "
            f"{fixed(gap.same, 3)}, others {fixed(gap.other, 3)})"
        )
