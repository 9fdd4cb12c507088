"""What a measurement of the law of data separation says: numbers, verdict, advice, picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lawscope.arrays import FloatArray, IntArray
from lawscope.laws.base import LawResult
from lawscope.laws.line import LineFit, Replicates
from lawscope.section import Section

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Separation(LawResult):
    """Separation fuzziness D_l at every station of a network, and the law fitted to it.

    Attributes:
        stations: names of the L stations in the order the data meets them.
        layers: the linear or convolutional layer that each station completes, or empty.
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
        granularity: what a station stands for ("layers", "blocks", "chosen").
        granularities: the fit of every granularity that was measured along the way.
        replicates: the curve of log D measured again on parts of the data, from which any number
            read off the curve gets its interval; None without uncertainty.
    """

    schema: ClassVar[str] = "lawscope.separation/1"
    derived: ClassVar[tuple[str, ...]] = ("reduction", "sensitivity", "least_sensitivity")
    stations: tuple[str, ...]
    layers: tuple[str, ...]
    values: FloatArray
    interval: FloatArray | None
    classwise: FloatArray
    classes: IntArray
    counts: IntArray
    class_names: tuple[str, ...]
    dims: tuple[int, ...]
    ranks: tuple[int, ...]
    fit: LineFit
    granularity: str
    granularities: dict[str, LineFit] = field(default_factory=dict)
    replicates: Replicates | None = None
    control: Separation | None = None

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
        """Σ D_l/D_{l+1}: to first order R moves by R·Σ(D_l/D_{l+1})·ε (He & Su 2023, "Training").

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
        """Return one row per station: D, its interval, what the station keeps, the fit."""
        import pandas as pd

        none = np.full((len(self.values), 2), np.nan)
        ends = none if self.interval is None else self.interval
        return pd.DataFrame(
            {
                "station": list(self.stations),
                "features": list(self.dims),
                "D": self.values,
                "low": ends[:, 0],
                "high": ends[:, 1],
                "ratio": np.concatenate([[np.nan], self.ratios]),
                "fitted": self.fit.predict(np.arange(len(self.values), dtype=np.float64)),
                "residual": self.fit.residuals,
                "rank": list(self.ranks),
            }
        )

    def section(self) -> Section:
        from lawscope.laws.separation.section import section_of

        return section_of(self)

    def __str__(self) -> str:
        ends = self.fit.interval.get("rho")
        between = f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else ""
        return (
            f"law of data separation over {len(self.stations)} {self.granularity}: "
            f"{self.verdict}; ρ = {self.fit.rho:.3f}{between}, r = {self.fit.pearson:.4f}, "
            f"half-life {self.fit.half_life:.2f}"
        )
