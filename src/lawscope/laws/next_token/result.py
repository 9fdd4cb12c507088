"""What a measurement of the law of next-token prediction says: numbers, verdict, picture."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from lawscope.arrays import FloatArray, IntArray
from lawscope.formatting import fixed, many
from lawscope.laws.base import LawResult
from lawscope.laws.line import LineFit, Replicates
from lawscope.laws.provenance import Provenance
from lawscope.lazy import pd
from lawscope.section import Section


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NextToken(LawResult):
    """The prediction residual PR = 1 − R² at every block of a language model, and its line.

    Arrays are aligned with ``blocks``: the embedding first, then the L blocks.

    Attributes:
        blocks: "embedding", then the paths of the blocks.
        target: what is predicted: "next", "next-next", "current", "previous" or "masked".
        pr: SSE/SST of least squares with intercept, in sample, shape (L + 1,).
        pr_adjusted: PR·(n − 1)/(n − rank − 1), corrected for the number of features.
        pr_cv: cross-validated: every fold of sequences predicted from the others; NaN with fewer
            than two folds, or when the others have too few tokens.
        pr_onehot: vocabulary-free: the residual for one-hot targets, which is the mean over
            random re-codings of the vocabulary; NaN with ``onehot=False``.
        onehot_error: standard error of ``pr_onehot`` where random codings estimate it, else 0.
        rank: of the centred features.
        condition: of the centred features scaled to unit columns, among ``rank`` directions.
        n: tokens measured.
        d: features of a token.
        fit: the line through log PR of the blocks, the embedding left out; index 0 of the fit is
            the first block.
        final_norm: the kind of the model's final norm: "LayerNorm", "RMSNorm" or "none".
        others: the results of further targets by name.
        replicates: log PR of the blocks without each fold, or None.
    """

    schema: ClassVar[str] = "lawscope.next_token/1"
    derived: ClassVar[tuple[str, ...]] = ("ratio",)
    blocks: tuple[str, ...]
    target: str
    pr: FloatArray
    pr_adjusted: FloatArray
    pr_cv: FloatArray
    pr_onehot: FloatArray
    onehot_error: FloatArray
    rank: IntArray
    condition: FloatArray
    n: int
    d: int
    fit: LineFit
    final_norm: str
    others: dict[str, NextToken] = field(default_factory=dict)
    replicates: Replicates | None = None
    control: NextToken | None = None

    @property
    def targets(self) -> dict[str, NextToken]:
        """The result of every target by name, this one first."""
        return {self.target: self, **self.others}

    @property
    def learned(self) -> bool | None:
        """Whether the last block predicts surely better than that of the untrained network.

        None without such a network, or without intervals.
        """
        other = self.control
        if other is None or self.replicates is None or other.replicates is None:
            return None
        ours, theirs = (
            found.replicates.of_values(np.log(found.pr[1:]))[-1]
            for found in (self, other)
            if found.replicates is not None
        )
        return bool(ours[1] < theirs[0])

    @property
    def ratio(self) -> float:
        """PR of the last block over PR of the first, what the whole stack keeps."""
        with np.errstate(divide="ignore", invalid="ignore"):  # PR may be 0 or undefined
            return float(self.pr[-1] / self.pr[1])

    def table(self) -> pd.DataFrame:
        """Return one row per block, the embedding first."""
        index = np.arange(len(self.pr), dtype=np.float64)
        fitted = self.fit.predict(index - 1)
        fitted[0] = np.nan
        return pd.DataFrame(
            {
                "block": list(self.blocks),
                "PR": self.pr,
                "adjusted": self.pr_adjusted,
                "cross-validated": self.pr_cv,
                "one-hot": self.pr_onehot,
                "fitted": fitted,
                "residual": np.concatenate([[np.nan], self.fit.residuals]),
                "rank": self.rank,
                "condition": self.condition,
            }
        )

    def measured_on(self, provenance: Provenance) -> NextToken:
        others = {name: other.measured_on(provenance) for name, other in self.others.items()}
        return replace(self, provenance=provenance, others=others)

    def section(self) -> Section:
        from lawscope.laws.next_token.section import section_of

        return section_of(self)

    def __str__(self) -> str:
        ends = self.fit.interval.get("pearson")
        between = f" [{fixed(ends[0], 3)}, {fixed(ends[1], 3)}]" if ends else ""
        return (
            f"law of next-token prediction over {many(len(self.blocks) - 1, 'block')}: "
            f"{self.verdict}; r = {fixed(self.fit.pearson, 3)}{between}, "
            f"ρ = {fixed(self.fit.rho, 3)}, PR {fixed(self.pr[1], 3)} → {fixed(self.pr[-1], 3)}, "
            f"{many(self.n, 'token')}"
        )
