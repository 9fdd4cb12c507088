"""What a measurement of the law of data separation says: numbers, verdict, advice, picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lawscope.axes import given_or_new
from lawscope.laws.line import LineFit
from lawscope.laws.uncertainty import Replicates

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
Verdict = Literal["holds", "does not hold", "cannot be told"]


@dataclass(frozen=True, eq=False)
class Separation:
    """Separation fuzziness D_l at every station of a network, and the law fitted to it.

    Attributes:
        stations: names of the L stations in the order the data meets them.
        values: D_l = Tr(SSw SSb⁺), shape (L,).
        interval: 95 % interval of each D_l, shape (L, 2), or None without uncertainty. It is
            corrected for the small-sample bias of D, so it need not be centred on ``values``.
        classwise: D_l^k = Tr(SSw^k SSb⁺) with SSw^k normalised by n_k, shape (L, K);
            Σ_k π_k D_l^k = D_l, with π_k = n_k/n, or 1/K under ``weighting="class"``.
        classes: the K labels, sorted.
        counts: samples per class, shape (K,).
        class_names: names for ``classes`` where the data gave them, else the labels as text.
        dims: number of features at each station.
        ranks: rank of SSb at each station; K − 1 unless class means are dependent.
        fit: the line through log D_l.
        verdict: whether the law holds, by the rule in ``lawscope.laws.verdict``.
        reason: the sentence behind the verdict.
        advice: plain sentences, the most important first.
        granularity: what a station stands for ("layers", "blocks", "chosen").
        granularities: the fit of every granularity that was measured along the way.
        settings: how it was measured (samples, passes, strategy, pooling, weighting, …).
        warnings: what deserves a look, as sentences.
        replicates: the curve of log D measured again on parts of the data, from which any number
            read off the curve gets its interval; None without uncertainty.
    """

    stations: tuple[str, ...]
    values: FloatArray
    interval: FloatArray | None
    classwise: FloatArray
    classes: NDArray[np.int64]
    counts: NDArray[np.int64]
    class_names: tuple[str, ...]
    dims: tuple[int, ...]
    ranks: tuple[int, ...]
    fit: LineFit
    verdict: Verdict
    reason: str
    advice: tuple[str, ...]
    granularity: str
    granularities: dict[str, LineFit] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    replicates: Replicates | None = None

    @property
    def ratios(self) -> FloatArray:
        """D_{l+1}/D_l, what each module keeps of the fuzziness it is given, shape (L−1,)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # D may be 0 or undefined
            return np.asarray(self.values[1:] / self.values[:-1])

    @property
    def reduction(self) -> float:
        """R = Π D_{l+1}/D_l = D_last/D_first, what the whole network keeps."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(self.values[-1] / self.values[0])

    @property
    def sensitivity(self) -> float:
        """Σ D_l/D_{l+1}: to first order R moves by R·Σ(D_l/D_{l+1})·ε (003, "Training").

        A change ε of every module's ratio moves the reduction by that much; for a given R the
        sum is least when all ratios are equal, which is when the law holds.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.sum(1 / self.ratios))

    @property
    def least_sensitivity(self) -> float:
        """The smallest ``sensitivity`` a network of this depth and reduction can have."""
        steps = len(self.values) - 1
        return steps * self.reduction ** (-1 / steps) if steps and self.reduction > 0 else math.nan

    def table(self) -> pd.DataFrame:
        """One row per station: D, its interval, what the station keeps, the fit."""
        import pandas as pd

        low, high = (
            (self.interval[:, 0], self.interval[:, 1])
            if self.interval is not None
            else (np.full(len(self.values), np.nan),) * 2
        )
        return pd.DataFrame(
            {
                "station": list(self.stations),
                "features": list(self.dims),
                "D": self.values,
                "low": low,
                "high": high,
                "ratio": np.concatenate([[np.nan], self.ratios]),
                "fitted": self.fit.predict(np.arange(len(self.values), dtype=np.float64)),
                "residual": self.fit.residuals,
                "rank": list(self.ranks),
            }
        )

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw D against the module index on a log scale with the fitted line.

        Args:
            ax: where to draw; a new figure without it.
            label: legend entry; r and ρ without it.

        Returns:
            The axes drawn on.
        """
        ax = given_or_new(ax)
        index = np.arange(len(self.values), dtype=np.float64)
        text = label or f"r = {self.fit.pearson:.3f}, ρ = {self.fit.rho:.3f}"
        (points,) = ax.plot(index, self.values, "o", label=text)
        ax.plot(index, self.fit.predict(index), "-", color=points.get_color(), alpha=0.6)
        if self.interval is not None:
            ax.vlines(
                index, self.interval[:, 0], self.interval[:, 1], color=points.get_color(), alpha=0.6
            )
        ax.set_yscale("log")
        ax.set_xlabel(f"{self.granularity} index l")
        ax.set_ylabel("separation fuzziness D")
        ax.legend()
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values; what is not a finite number becomes None."""
        document: dict[str, Any] = finite(
            {
                "law": "separation",
                "stations": list(self.stations),
                "values": self.values.tolist(),
                "interval": None if self.interval is None else self.interval.tolist(),
                "classwise": self.classwise.tolist(),
                "classes": self.classes.tolist(),
                "class_names": list(self.class_names),
                "counts": self.counts.tolist(),
                "dims": list(self.dims),
                "ranks": list(self.ranks),
                "fit": self.fit.to_dict(),
                "reduction": self.reduction,
                "sensitivity": self.sensitivity,
                "least_sensitivity": self.least_sensitivity,
                "verdict": self.verdict,
                "reason": self.reason,
                "advice": list(self.advice),
                "granularity": self.granularity,
                "granularities": {k: f.to_dict() for k, f in self.granularities.items()},
                "settings": dict(self.settings),
                "warnings": list(self.warnings),
            }
        )
        return document

    def __str__(self) -> str:
        ends = self.fit.interval.get("rho")
        between = f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else ""
        return (
            f"law of data separation over {len(self.stations)} {self.granularity}: "
            f"{self.verdict}; ρ = {self.fit.rho:.3f}{between}, r = {self.fit.pearson:.4f}, "
            f"half-life {self.fit.half_life:.2f}"
        )


def finite(value: Any) -> Any:
    """The same structure with NaN and infinities as None, which is what JSON can say."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
