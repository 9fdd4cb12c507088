"""The straight line log D_l = intercept + slope·l that the laws are about, and its intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.formatting import between, fixed, many, number
from lawscope.laws.base import Answer
from lawscope.section import Chart, Curve, KeyNumber

# Between which a number lies in any case.
LIMITS = {"rho": (0.0, math.inf), "half_life": (0.0, math.inf), "pearson": (-1.0, 1.0)}


@dataclass(frozen=True, eq=False)
class Replicates:
    """A measured curve measured again without each fold of the data."""

    curves: FloatArray  # log D without fold f in row f, shape (F, L)

    def interval(
        self, statistic: Callable[[FloatArray], FloatArray], curve: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the 95 % interval of ``statistic(curve)``, corrected for bias to first order.

        Pseudo-values p_f = F·θ − (F−1)·θ₍₋f₎ have mean θ minus its estimated bias and standard
        error sd(p)/√F; the interval is mean ± t₍F−1₎ · standard error. D is biased low when classes
        are small (noise in the class means inflates SSb), so the interval need not be centred on
        the measured value. Both ends have the shape of the statistic, and NaN where it has.
        """
        from scipy.stats import t

        again, folds = np.stack([statistic(row) for row in self.curves]), len(self.curves)
        pseudo = folds * statistic(curve) - (folds - 1) * again
        centre, error = pseudo.mean(axis=0), pseudo.std(axis=0, ddof=1) / np.sqrt(folds)
        width = float(t.ppf(0.975, folds - 1)) * error
        return centre - width, centre + width

    def of_values(self, curve: FloatArray) -> FloatArray:
        """Return the 95 % interval of the values whose logarithms are ``curve``, shape (L, 2)."""
        return np.exp(np.stack(self.interval(lambda c: c, curve), axis=1))


@dataclass(frozen=True, eq=False, repr=False)
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
        """The fitted fall of log D from the first station to the last."""
        return -self.slope * (len(self.residuals) - 1)

    def predict(self, index: FloatArray) -> FloatArray:
        """Return the fitted D at module index ``index``."""
        return np.asarray(np.exp(self.intercept + self.slope * index), dtype=np.float64)

    def __str__(self) -> str:
        return (
            f"line through {many(len(self.residuals), 'station')}: ρ = {fixed(self.rho, 3)}, "
            f"r = {fixed(self.pearson, 3)}, half-life {number(self.half_life)}"
        )

    def __repr__(self) -> str:
        return f"<LineFit: {self}>"


def fit_line(values: FloatArray, replicates: Replicates | None = None) -> LineFit:
    """Fit log D_l ≈ log D_0 + l·log ρ to D per station, with the intervals of ``replicates``.

    Where D is not a positive number it has no logarithm, and the fit is not a number either.
    """
    log_values = log_or_nan(values)
    slope, intercept, pearson = line_numbers(log_values)
    return LineFit(
        slope=slope,
        intercept=intercept,
        pearson=pearson,
        rho=math.exp(slope),
        half_life=half_life(slope),
        residuals=log_values - (intercept + slope * np.arange(len(values))),
        interval={} if replicates is None else _intervals(log_values, replicates),
    )


def log_or_nan(values: FloatArray) -> FloatArray:
    """Return the natural logarithm where there is one, NaN elsewhere, without numpy's warnings."""
    positive = np.isfinite(values) & (values > 0)
    return np.log(np.where(positive, values, np.nan))


def line_numbers(log_values: FloatArray) -> tuple[float, float, float]:
    """Return slope, intercept and Pearson correlation of log D against its index."""
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
    """Return ln 2 / ln(1/ρ), infinite when D does not fall."""
    return math.log(2) / -slope if slope < 0 else (math.nan if slope != slope else math.inf)


def residual_shares(curve: FloatArray, left_out: int = 0) -> FloatArray:
    """Return distances from the line through all but the last few, as shares of its fall."""
    index, used = np.arange(len(curve)), len(curve) - left_out
    slope, intercept = np.polyfit(index[:used], curve[:used], 1)
    fall = max(abs(slope) * (len(curve) - 1), 1e-300)
    return np.asarray((curve - intercept - slope * index) / fall)


def judge_straightness(fit: LineFit, limit: float, unit: str) -> Answer:
    """Return whether the Pearson correlation is certainly below its limit."""
    low, high = fit.interval["pearson"]
    said = f"r = {fixed(fit.pearson, 3)} [{fixed(low, 3)}, {fixed(high, 3)}]"
    if high <= limit:
        return True, f"{said} is below {limit}"
    if low > limit:
        return False, f"{said} is above {limit}: the progress per {unit} is uneven"
    return None, f"{said} does not settle whether it is below {limit}"


def _intervals(log_values: FloatArray, replicates: Replicates) -> dict[str, tuple[float, float]]:
    """Return intervals found on the scale where each number is most nearly normal."""

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


def key_number(
    fit: LineFit, control: LineFit | None, name: str, symbol: str, decimals: int, meaning: str
) -> KeyNumber:
    """Return one number of a fit with its interval, that of the control beside it where known."""
    beside = math.nan if control is None else getattr(control, name)
    return KeyNumber(
        symbol,
        fixed(getattr(fit, name), decimals),
        meaning,
        between(fit.interval.get(name), lambda end: fixed(end, decimals), limits=LIMITS[name]),
        "" if math.isnan(beside) else fixed(beside, decimals),
    )


def line_charts(
    fit: LineFit, control: tuple[FloatArray, LineFit] | None, first: int = 0, **own: Any
) -> list[Chart]:
    """Return a curve with its line, that of the control beside it, and distances from the line.

    The line begins at station ``first``; the other arguments are those of :class:`Curve`.
    """
    index = np.arange(len(own["values"]), dtype=np.float64)

    def line(fitted: LineFit) -> FloatArray | None:
        if math.isnan(fitted.slope):
            return None
        return np.where(index < first, np.nan, fitted.predict(index - first))

    if control is not None:
        own |= {"control": control[0], "control_fitted": line(control[1])}
    curve = Curve(fitted=line(fit), **own)
    if curve.fitted is None or not np.isfinite(curve.fitted).any():
        return [curve]
    base, symbol = log_or_nan(curve.fitted), f"log {curve.symbol}"
    residuals = Curve(
        title="Distance from the line",
        symbol=f"{symbol} − line",
        quantity=f"{symbol} − fitted line",
        unit=curve.unit,
        stations=curve.stations,
        values=log_or_nan(curve.values) - base,
        interval=None if curve.interval is None else log_or_nan(curve.interval) - base[:, None],
        estimate=None if curve.estimate is None else log_or_nan(curve.estimate) - base,
        fitted=np.where(np.isnan(base), np.nan, 0.0),
        log=False,
        note="0.1 is about 10 % above the line.",
    )
    return [curve, residuals]
