"""The straight line log D_l = intercept + slope·l that the laws are about."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lawscope.laws.uncertainty import Replicates

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LineFit:
    """A least-squares line through (l, log D_l), with what the papers read off it.

    Attributes:
        slope: change of log D per module.
        intercept: fitted log D at l = 0.
        pearson: correlation of l and log D_l; −1 is a perfect fall.
        rho: decay ratio exp(slope), the factor each module keeps of D.
        half_life: modules needed to halve D, ln 2 / ln(1/ρ); infinite when D does not fall.
        residuals: log D_l − (intercept + slope·l), one per station.
        interval: 95 % interval of each number above by its name, empty without uncertainty.
    """

    slope: float
    intercept: float
    pearson: float
    rho: float
    half_life: float
    residuals: FloatArray
    interval: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def drop(self) -> float:
        """Fitted fall of log D from the first station to the last."""
        return -self.slope * (len(self.residuals) - 1)

    def predict(self, index: FloatArray) -> FloatArray:
        """Fitted D at module index ``index``."""
        return np.asarray(np.exp(self.intercept + self.slope * index), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """The fit as JSON-ready numbers."""
        return {
            "pearson": self.pearson,
            "rho": self.rho,
            "half_life": self.half_life,
            "slope": self.slope,
            "intercept": self.intercept,
            "residuals": self.residuals.tolist(),
            "interval": {name: list(ends) for name, ends in self.interval.items()},
        }


def fit_line(values: FloatArray, replicates: Replicates | None = None) -> LineFit:
    """Fit log D_l ≈ log D_0 + l·log ρ (003, the law of equi-separation).

    Args:
        values: D per station, shape (L,). A station where D is not a positive number has no
            logarithm, and the fit is then not a number either.
        replicates: re-measured log D, one row per replicate, for the intervals.

    Returns:
        The fit; its intervals are those of ``replicates``.

    Example:
        >>> fit = fit_line(np.array([8.0, 4.0, 2.0, 1.0]))
        >>> round(fit.rho, 12), round(fit.half_life, 12), round(fit.pearson, 12)
        (0.5, 1.0, -1.0)
    """
    log_values = log_or_nan(values)
    slope, intercept, pearson = line_numbers(log_values)
    index = np.arange(len(values))
    interval: dict[str, tuple[float, float]] = {}
    if replicates is not None:
        interval = _intervals(log_values, replicates)
    return LineFit(
        slope=slope,
        intercept=intercept,
        pearson=pearson,
        rho=math.exp(slope),
        half_life=half_life(slope),
        residuals=log_values - (intercept + slope * index),
        interval=interval,
    )


def log_or_nan(values: FloatArray) -> FloatArray:
    """Natural logarithm where there is one, NaN elsewhere, without numpy's warnings."""
    positive = np.isfinite(values) & (values > 0)
    return np.log(np.where(positive, values, np.nan))


def line_numbers(log_values: FloatArray) -> tuple[float, float, float]:
    """Slope, intercept and Pearson correlation of one curve of log D against its index."""
    index = np.arange(len(log_values), dtype=np.float64)
    if len(index) < 2:
        return math.nan, math.nan, math.nan
    centred, deviation = index - index.mean(), log_values - log_values.mean()
    slope = float(centred @ deviation / (centred @ centred))
    intercept = float(log_values.mean() - slope * index.mean())
    spread = math.sqrt(float(centred @ centred) * float(deviation @ deviation))
    pearson = float(centred @ deviation) / spread if spread > 0 else math.nan
    return slope, intercept, max(-1.0, min(1.0, pearson)) if pearson == pearson else math.nan


def half_life(slope: float) -> float:
    """Modules needed to halve D: ln 2 / ln(1/ρ), infinite when D does not fall."""
    return math.log(2) / -slope if slope < 0 else (math.nan if slope != slope else math.inf)


def _intervals(log_values: FloatArray, replicates: Replicates) -> dict[str, tuple[float, float]]:
    """Intervals on the scale where each number is most nearly normal, mapped back."""

    def numbers(curve: FloatArray) -> FloatArray:
        slope, intercept, pearson = line_numbers(curve)
        # Fisher's z; a perfect line has none, so it is kept a rounding error away from ±1.
        z = np.arctanh(np.clip(pearson, -1 + 1e-15, 1 - 1e-15))
        return np.array([slope, intercept, z])

    low, high = replicates.interval(numbers, log_values)
    slope_low, slope_high = float(low[0]), float(high[0])
    return {
        "slope": (slope_low, slope_high),
        "intercept": (float(low[1]), float(high[1])),
        "pearson": (math.tanh(low[2]), math.tanh(high[2])),
        "rho": (math.exp(slope_low), math.exp(slope_high)),
        "half_life": (half_life(slope_low), half_life(slope_high)),
    }
