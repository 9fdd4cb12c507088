"""What a measurement of the law of next-token prediction says: numbers, verdict, picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lawscope.axes import given_or_new
from lawscope.laws.line import LineFit
from lawscope.laws.separation_result import Verdict, finite
from lawscope.laws.uncertainty import Replicates

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NextToken:
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
        verdict: whether the law holds, by the rule in ``lawscope.laws.next_token_verdict``.
        reason: the sentence behind the verdict.
        advice: plain sentences, the most important first.
        final_norm: the kind of the model's final norm: "LayerNorm", "RMSNorm" or "none".
        control: the same measurement of the untrained network, or None.
        others: the results of further targets by name.
        settings: how it was measured.
        warnings: what deserves a look, as sentences.
        replicates: log PR of the blocks without each fold, or None.
    """

    blocks: tuple[str, ...]
    target: str
    pr: FloatArray
    pr_adjusted: FloatArray
    pr_cv: FloatArray
    pr_onehot: FloatArray
    onehot_error: FloatArray
    rank: NDArray[np.int64]
    condition: FloatArray
    n: int
    d: int
    fit: LineFit
    verdict: Verdict
    reason: str
    advice: tuple[str, ...]
    final_norm: str
    control: NextToken | None = None
    others: dict[str, NextToken] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    replicates: Replicates | None = None

    @property
    def targets(self) -> dict[str, NextToken]:
        """The result of every target by name, this one first."""
        return {self.target: self, **self.others}

    @property
    def ratio(self) -> float:
        """PR of the last block over PR of the first, what the whole stack keeps."""
        with np.errstate(divide="ignore", invalid="ignore"):  # PR may be 0 or undefined
            return float(self.pr[-1] / self.pr[1])

    def table(self) -> pd.DataFrame:
        """One row per block, the embedding first."""
        import pandas as pd

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

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw PR against the block on a log scale, its line, and the untrained control.

        Args:
            ax: where to draw; a new figure without it.
            label: legend entry; r and ρ without it.

        Returns:
            The axes drawn on.
        """
        ax = given_or_new(ax)
        index = np.arange(len(self.pr), dtype=np.float64)
        text = label or f"r = {self.fit.pearson:.3f}, ρ = {self.fit.rho:.4f}"
        (points,) = ax.plot(index[1:], self.pr[1:], "o", label=text)
        color = points.get_color()
        ax.plot(index[:1], self.pr[:1], "o", mfc="none", color=color)
        ax.plot(index[1:], self.fit.predict(index[1:] - 1), "-", color=color, alpha=0.6)
        if self.control is not None:
            said = f"untrained, r = {self.control.fit.pearson:.3f}"
            ax.plot(index, self.control.pr, ".", color="0.6", label=said)
        ax.set_yscale("log")
        ax.set_xlabel("block (0 is the embedding)")
        ax.set_ylabel(f"prediction residual, {self.target} token")
        ax.legend()
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values; what is not a finite number becomes None."""
        document: dict[str, Any] = finite(
            {
                "law": "next_token",
                "blocks": list(self.blocks),
                "target": self.target,
                "pr": self.pr.tolist(),
                "pr_adjusted": self.pr_adjusted.tolist(),
                "pr_cv": self.pr_cv.tolist(),
                "pr_onehot": self.pr_onehot.tolist(),
                "onehot_error": self.onehot_error.tolist(),
                "rank": self.rank.tolist(),
                "condition": self.condition.tolist(),
                "n": self.n,
                "d": self.d,
                "ratio": self.ratio,
                "fit": self.fit.to_dict(),
                "verdict": self.verdict,
                "reason": self.reason,
                "advice": list(self.advice),
                "final_norm": self.final_norm,
                "control": None if self.control is None else self.control.to_dict(),
                "others": {name: other.to_dict() for name, other in self.others.items()},
                "settings": dict(self.settings),
                "warnings": list(self.warnings),
            }
        )
        return document

    def save(self, path: str | Path, name: str | None = None) -> Path:
        """Write the page as one self-contained HTML file.

        Args:
            path: the file; missing folders are made.
            name: what was measured, for the title; the class of the model by default.

        Returns:
            The path that was written.
        """
        from lawscope.laws.language_report import LanguageReport
        from lawscope.laws.scan import versions

        title = name or str(self.settings.get("model", "language model"))
        return LanguageReport(title, self, versions=versions()).save(path)

    def __str__(self) -> str:
        ends = self.fit.interval.get("pearson")
        between = f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else ""
        return (
            f"law of next-token prediction over {len(self.blocks) - 1} blocks: {self.verdict}; "
            f"r = {self.fit.pearson:.4f}{between}, ρ = {self.fit.rho:.4f}, PR "
            f"{self.pr[1]:.4f} → {self.pr[-1]:.4f}, {self.n} tokens"
        )
