"""What the samples say about the population they were drawn from: D̂, ρ and r with intervals.

D of a sample is biased low: the noise of the class means adds to SSb. With SSw over n_k − 1, 1/D is
nearly linear in 1/n, so the jackknife is of that, over folds of unequal size (Busing et al. 1999).
Where even the weakest contrast of the class means is not certain, D has no upper end.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lawscope.arrays import BoolArray, FloatArray
from lawscope.laws.base import Verdict
from lawscope.laws.line import LineFit, fit_line, half_life, log_or_nan
from lawscope.statistics.class_scatter import ClassFuzziness

Curve = Callable[[FloatArray], FloatArray]  # of log D per station

LEVEL = 0.95
# Standard errors by which the weakest class contrast must be positive.
CERTAIN = 2.4
# D̂ and D differ by more than this: the samples are too few for a statement beyond themselves.
SETTLED = 0.2
MIN_SETTLED = 3
DRAWS, SEED = 2000, 0
# Standard errors of the weakest contrast, and by how many times the samples must grow (median)
# until it is certain.
GROWTH = ((1.5, 1.2), (0.5, 1.7), (-0.5, 2.4), (-1.5, 3.7), (-3.0, 5.6), (-math.inf, 10.0))


@dataclass(frozen=True, eq=False)
class Estimate:
    """A jackknife: ``influence`` (F, L) has the covariance ``influence.T @ influence``."""

    centre: FloatArray
    influence: FloatArray

    @property
    def error(self) -> FloatArray:
        return np.asarray(np.linalg.norm(self.influence, axis=0))


def jackknife(values: FloatArray, ratios: FloatArray, growth: FloatArray) -> Estimate:
    """Estimate what θ tends to with unlimited samples, from ``values`` (1 + F, L).

    The first row is of all samples, the others leave out a share 1/h_f each, whereby noise grows
    by g_f. Where θ is linear in the noise, each fold says p_f = θ − (θ₍₋f₎ − θ)/(g_f − 1). The
    estimate m is their mean with weights 1/h_f, its squared error the mean of
    (p_f − m)² (g_f − 1)² (h_f − 1). With g_f = h_f/(h_f − 1) it is that of Busing et al. 1999.
    """
    h, noise, folds = ratios[:, None], growth[:, None] - 1, len(ratios)
    pseudo = values[0] - (values[1:] - values[0]) / noise
    centre = np.average(pseudo, axis=0, weights=1 / ratios)
    return Estimate(centre, (pseudo - centre) * noise * np.sqrt((h - 1) / folds))


@dataclass(frozen=True, eq=False)
class LineEnds:
    """95 % ends of what is read off the line through log D."""

    slope: tuple[float, float]
    pearson: tuple[float, float]
    least_share: FloatArray  # of each residual in the fall of the line, jointly for all stations
    most_share: FloatArray  # and one by one


def find_line_ends(inverse: Estimate, index: FloatArray) -> LineEnds:
    """Return the ends for stations whose 1/D is known to be positive.

    With y = log D̂ the line has the slope s = Σ c_l y_l. Its residuals in units of the fall,
    w = e/(s √Sxx), have the length tan φ, and r = ±cos φ. A length is biased up by noise, so that
    its ends are those of two methods together: the lengths that would not have been surprised by
    ours (:func:`_invert`), and a bias-corrected percentile interval (:func:`_correct`).
    """
    x = index - index.mean()
    size = math.sqrt(x @ x)
    y, influence = -np.log(inverse.centre), -inverse.influence / inverse.centre
    slope, slope_influence = float(y @ x) / size**2, influence @ x / size**2
    half = _quantile(inverse.influence, 0.5 + LEVEL / 2) * float(np.linalg.norm(slope_influence))
    bends = _residuals(y, x) / (slope * size)
    bends_influence = _residuals(influence, x) / (slope * size)
    bends_influence -= np.outer(slope_influence / slope, bends)
    pearson = (-1.0, 1.0)
    if abs(slope) > half:
        angles = np.array([_invert(bends, bends_influence), _correct(inverse, x)])
        ends = math.copysign(1, slope) * np.cos([angles[:, 0].min(), angles[:, 1].max()])
        pearson = (float(ends.min()), float(ends.max()))
    in_falls = size / np.ptp(index)
    shares, error = np.abs(bends) * in_falls, np.linalg.norm(bends_influence, axis=0) * in_falls
    jointly = 1 - (1 - LEVEL) / 2 / len(index)
    return LineEnds(
        (slope - half, slope + half),
        pearson,
        shares - _quantile(inverse.influence, jointly) * error,
        shares + _quantile(inverse.influence, 0.5 + LEVEL / 2) * error,
    )


def _residuals(y: FloatArray, x: FloatArray) -> FloatArray:
    """Return what a line leaves of each row of ``y``; ``x`` is centred."""
    return np.asarray(y - y.mean(axis=-1, keepdims=True) - (y @ x / (x @ x))[..., None] * x)


def _quantile(influence: FloatArray, level: float) -> float:
    from scipy.stats import t

    return float(t.ppf(level, len(influence) - 1))


def _draw(influence: FloatArray) -> FloatArray:
    """Draw errors from the multivariate t that belongs to an influence, (DRAWS, L)."""
    folds, random = len(influence), np.random.default_rng(SEED)
    normal = random.standard_normal((DRAWS, folds))
    scale = np.sqrt((folds - 1) / random.chisquare(folds - 1, (DRAWS, 1)))
    return np.asarray(normal * scale @ influence)


def _invert(bends: FloatArray, influence: FloatArray) -> tuple[float, float]:
    """Return the angles of all lengths for which the measured length is in the middle 95 %."""
    length = float(np.linalg.norm(bends))
    errors = _draw(influence)
    along, squares = errors @ bends / max(length, 1e-300), np.square(errors).sum(axis=1)
    longest = length + 6 * math.sqrt(squares.mean())
    lengths = np.linspace(0, longest, 400)[:, None]
    drawn = np.sqrt(np.maximum(lengths**2 + 2 * lengths * along + squares, 0))
    tail = (1 - LEVEL) / 2
    likely = ((drawn >= length).mean(axis=1) > tail) & ((drawn <= length).mean(axis=1) > tail)
    kept = lengths[likely] if likely.any() else np.array([[length]])
    return math.atan(kept.min()), math.atan(kept.max())


def _correct(inverse: Estimate, x: FloatArray) -> tuple[float, float]:
    """Return the bias-corrected percentile interval (Efron 1981) of the angle."""
    from scipy.stats import norm

    def angle(curves: FloatArray) -> FloatArray:
        falls = np.abs(curves @ x) / math.sqrt(x @ x)
        return np.asarray(np.arctan2(np.linalg.norm(_residuals(curves, x), axis=-1), falls))

    drawn = inverse.centre + _draw(inverse.influence)
    positive = (drawn > 0).all(axis=1)
    angles = np.where(positive, angle(-np.log(np.where(drawn > 0, drawn, 1))), math.pi / 2)
    below = float((angles <= angle(-np.log(inverse.centre))).mean())
    bias = norm.ppf(np.clip(below, 1 / DRAWS, 1 - 1 / DRAWS))
    width = norm.ppf(0.5 + LEVEL / 2)
    low, high = (float(norm.cdf(2 * bias + end)) for end in (-width, width))
    # So few draws lie below that zero, the straight line, is among the likely.
    least = 0.0 if low < 2 / DRAWS else float(np.quantile(angles, low))
    return least, float(np.quantile(angles, high))


@dataclass(frozen=True, eq=False, repr=False)
class Population:
    """What would be measured on unlimited samples, as far as these samples say it.

    Attributes:
        values: D̂ of each station, shape (L,); infinite where 1/D may be 0.
        interval: its 95 % interval, shape (L, 2); the upper end is infinite where some classes
            cannot be told apart with these samples.
        settled: whether a station has an upper end, and D̂ and D differ by at most a fifth.
        fit: the line through log D̂. Where a station has no upper end its numbers are not known
            (NaN), and its intervals are one-sided.
        shares: 95 % ends of each residual in units of the fall, shape (L, 2).
        influence: of every fold on log D̂, shape (F, L), NaN where D has no upper end; its squares
            add up to the squared error.
        needed: samples per class (of the smallest class) that would settle every station, at
            least; None where all are settled.
        verdict: of the law in the population.
        reason: the sentence behind it.
    """

    values: FloatArray
    interval: FloatArray
    settled: BoolArray
    fit: LineFit
    shares: FloatArray
    influence: FloatArray
    needed: int | None
    verdict: Verdict = "cannot be told"
    reason: str = ""

    def interval_of(self, statistic: Curve) -> tuple[FloatArray, FloatArray]:
        """Return the 95 % interval of what a function reads off log D̂, NaN where it is open."""
        curve = np.where(np.isfinite(self.interval[:, 1]), log_or_nan(self.values), np.nan)
        value = statistic(curve)
        if not len(self.influence):
            return value, value
        moved = np.stack([statistic(curve + fold) - value for fold in self.influence])
        half = _quantile(self.influence, 0.5 + LEVEL / 2) * np.linalg.norm(moved, axis=0)
        return value - half, value + half

    def __str__(self) -> str:
        needed = "" if self.needed is None else f"; {self.needed} samples or more per class needed"
        return f"population: {self.verdict}{needed}"

    def __repr__(self) -> str:
        return f"<Population: {self}>"


def estimate_population(parts: Sequence[ClassFuzziness]) -> Population | None:
    """Estimate D, ρ and r of the population from every station of the same samples.

    None where there are too few samples for any interval, or D has no logarithm.
    """
    values = np.array([part.value for part in parts])
    unbiased = np.stack([part.unbiased for part in parts], axis=1)
    contrasts = np.stack([part.contrasts for part in parts], axis=1)
    ratios, growth, samples = parts[0].ratios, parts[0].growth, int(parts[0].counts.min())
    curves = log_or_nan(np.vstack([values, unbiased]))
    if len(ratios) < 2 or not (np.isfinite(curves).all() and np.isfinite(ratios).all()):
        return None
    inverse = jackknife(1 / unbiased, ratios, growth)
    width = _quantile(inverse.influence, 0.5 + LEVEL / 2) * inverse.error
    with np.errstate(divide="ignore", invalid="ignore"):
        weakest = jackknife(contrasts, ratios, growth)
        certainty = weakest.centre / weakest.error
        closed = (certainty > CERTAIN) & (inverse.centre > width)
        estimates = np.where(inverse.centre > 0, 1 / inverse.centre, np.inf)
        low = 1 / (np.maximum(inverse.centre, 0) + width)
        high = np.where(closed, 1 / (inverse.centre - width), np.inf)
        short = estimates / values - 1
        settled = closed & (np.abs(1 - values / estimates) <= SETTLED)
    ends = _ends_with_open(inverse, closed, low)
    fit = fit_line(np.where(closed, estimates, np.nan))
    slope, pearson = ends.slope, ends.pearson
    interval = {
        "slope": slope,
        "pearson": pearson,
        "rho": (math.exp(slope[0]), math.exp(slope[1])),
        "half_life": (half_life(slope[0]), half_life(slope[1])),
    }
    return Population(
        values=estimates,
        interval=np.stack([low, high], axis=1),
        settled=settled,
        fit=dataclasses.replace(fit, interval=interval),
        shares=np.stack([ends.least_share, ends.most_share], axis=1),
        influence=np.where(closed, -inverse.influence / inverse.centre, np.nan),
        needed=None if settled.all() else _find_needed(short, certainty, closed, samples),
    )


def _find_needed(short: FloatArray, certainty: FloatArray, closed: BoolArray, samples: int) -> int:
    """Return how many samples of the smallest class would do, at least.

    The bias of 1/D falls as 1/n: D is within a fifth of D̂ with n·4(D̂/D − 1) samples. Until the
    weakest contrast is certain the samples must grow by a factor that was found by simulation.
    """
    growth = [next(f for least, f in GROWTH if z >= least) for z in np.nan_to_num(certainty)]
    factors = np.where(closed, 1.0, growth)
    bias = (1 / SETTLED - 1) * np.where(np.isfinite(short), short, 0)
    return math.ceil(samples * max(1.0, float(np.maximum(bias, factors).max())))


def _ends_with_open(inverse: Estimate, closed: BoolArray, low: FloatArray) -> LineEnds:
    """Return the ends of the line where some stations have no upper end: D in [low, ∞) there.

    The slope is Σ c_l log D_l: with open stations on the left of the middle only, where c_l < 0,
    it has an upper end, and on the right only a lower one. r is quasi-convex where it is negative,
    so that its largest value lies where all open D are at their lower ends, or where one of them
    grows without bound; its least value is that of the straightest line through the others.
    """
    index = np.arange(len(closed), dtype=np.float64)
    x, unknown = index - index.mean(), np.full(len(index), np.nan)
    slope, pearson = [-math.inf, math.inf], [-1.0, 1.0]
    if len(index) < MIN_SETTLED:
        return LineEnds((-math.inf, math.inf), (-1.0, 1.0), unknown, unknown)
    if closed.all():
        return find_line_ends(inverse, index)
    known = Estimate(inverse.centre[closed], inverse.influence[:, closed])
    weights = x / (x @ x)
    if closed.any() and ((x[~closed] < 0).all() or (x[~closed] > 0).all()):
        error = np.linalg.norm(known.influence / known.centre @ weights[closed])
        bound = weights[~closed] @ np.log(low[~closed]) - weights[closed] @ np.log(known.centre)
        width = _quantile(inverse.influence, 0.5 + LEVEL / 2) * float(error)
        left = bool((x[~closed] < 0).all())
        slope[left] = float(bound) + (width if left else -width)
    if closed.sum() >= MIN_SETTLED:
        stretch = x[closed] - x[closed].mean()
        straightest = min(find_line_ends(known, index[closed]).pearson[0], 0)
        pearson[0] = -math.sqrt(1 - (stretch @ stretch) / (x @ x) * (1 - straightest**2))
        if slope[1] < 0:
            lowest = Estimate(
                np.where(closed, inverse.centre, 1 / low), np.where(closed, inverse.influence, 0)
            )
            rays = x[~closed] / math.sqrt((x @ x) * (1 - 1 / len(x)))
            pearson[1] = max(find_line_ends(lowest, index).pearson[1], float(rays.max()))
    return LineEnds((slope[0], slope[1]), (pearson[0], pearson[1]), unknown, unknown)


def as_population(values: FloatArray, fit: LineFit, verdict: Verdict, reason: str) -> Population:
    """Return what is known where the samples are all there are: D itself, without an error."""
    length = len(values)
    ends = {name: (getattr(fit, name),) * 2 for name in ("slope", "pearson", "rho", "half_life")}
    return Population(
        values=values,
        interval=np.stack([values, values], axis=1),
        settled=np.ones(length, dtype=bool),
        fit=dataclasses.replace(fit, interval=ends),
        shares=np.full((length, 2), np.nan),
        influence=np.empty((0, length)),
        needed=None,
        verdict=verdict,
        reason=reason,
    )
