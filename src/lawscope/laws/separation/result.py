"""What a measurement of the law of data separation says: numbers, verdict, advice, picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from lawscope.arrays import FloatArray, IntArray
from lawscope.formatting import fixed, many, name_station, number, one_of
from lawscope.laws.base import LawResult
from lawscope.laws.learned import has_learned
from lawscope.laws.line import LineFit
from lawscope.laws.population import Population
from lawscope.lazy import pd
from lawscope.section import Section


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Separation(LawResult):
    """Separation fuzziness D_l at every station of a network, and the law fitted to it.

    Attributes:
        stations: names of the L stations in the order the data meets them.
        layers: the linear or convolutional layer that each station completes, or empty.
        values: D_l = Tr(SSw SSb⁺) of these samples, shape (L,).
        classwise: D_l^k = Tr(SSw^k SSb⁺) with SSw^k normalised by n_k, shape (L, K);
            Σ_k π_k D_l^k = D_l, with π_k = n_k/n, or 1/K under ``weighting="class"``.
        classes: the K labels, sorted.
        counts: samples per class, shape (K,).
        class_names: names for ``classes`` where the data gave them, else the labels as text.
        dims: number of features at each station.
        ranks: rank of SSb at each station; K − 1 unless class means are dependent.
        fit: the line through log D_l. It and ``verdict`` are of these samples, exactly.
        granularity: what a station stands for ("layers", "blocks", "chosen").
        granularities: the fit of every granularity that was measured along the way.
        population: D̂, ρ, r and the verdict for the population that the samples were drawn from,
            with their intervals; None without uncertainty, or with too few samples for any.
        accuracy: share of these samples whose largest output is their label; NaN where the output
            is not one score per class.
    """

    schema: ClassVar[str] = "lawscope.separation/2"
    derived: ClassVar[tuple[str, ...]] = ("reduction", "sensitivity", "least_sensitivity")
    stations: tuple[str, ...]
    layers: tuple[str, ...]
    values: FloatArray
    classwise: FloatArray
    classes: IntArray
    counts: IntArray
    class_names: tuple[str, ...]
    dims: tuple[int, ...]
    ranks: tuple[int, ...]
    fit: LineFit
    granularity: str
    granularities: dict[str, LineFit] = field(default_factory=dict)
    population: Population | None = None
    accuracy: float = math.nan
    control: Separation | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The stations as people see them: after the layer that each completes."""
        return tuple(map(name_station, self.stations, self.layers))

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

    @property
    def learned(self) -> bool | None:
        """Whether the network is known to have learned its data, or not to; else None.

        By its accuracy where it is known, see :func:`~lawscope.laws.learned.has_learned`; otherwise
        it has learned where its last D is surely below that of the untrained network.
        """
        other = self.control
        untrained = math.nan if other is None else other.accuracy
        learned = has_learned(self.accuracy, self.counts, untrained)
        if learned is None and other is not None and self.population and other.population:
            ours, theirs = self.population.interval[-1], other.population.interval[-1]
            return True if ours[1] < theirs[0] else None
        return learned

    def table(self) -> pd.DataFrame:
        """Return one row per station: D, what it keeps, the fit, and D̂ of the population."""
        found, none = self.population, np.full((len(self.values), 2), np.nan)
        ends = none if found is None else found.interval
        return pd.DataFrame(
            {
                "station": list(self.stations),
                "completes": list(self.layers),
                "features": list(self.dims),
                "D": self.values,
                "ratio": np.concatenate([[np.nan], self.ratios]),
                "fitted": self.fit.predict(np.arange(len(self.values), dtype=np.float64)),
                "residual": self.fit.residuals,
                "rank": list(self.ranks),
                "population": none[:, 0] if found is None else found.values,
                "low": ends[:, 0],
                "high": ends[:, 1],
            }
        )

    def section(self) -> Section:
        from lawscope.laws.separation.section import section_of

        return section_of(self)

    def __str__(self) -> str:
        beyond = (
            "" if self.population is None else f" (in the population: {self.population.verdict})"
        )
        return (
            f"law of data separation over {many(len(self.stations), one_of(self.granularity))}: "
            f"{self.verdict}{beyond}; ρ = {fixed(self.fit.rho, 3)}, "
            f"r = {fixed(self.fit.pearson, 3)}, half-life {number(self.fit.half_life)}"
        )
