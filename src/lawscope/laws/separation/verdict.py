"""Does the law hold? A rule on the interval and the residuals, not on r alone."""

from __future__ import annotations

import math

import numpy as np

from lawscope.laws.base import Answer, Verdict, decide
from lawscope.laws.line import LineFit, judge_straightness
from lawscope.laws.uncertainty import Replicates

MIN_STATIONS = 4
STRAIGHT = -0.98
HALVING = math.log(2)
MAX_RESIDUAL = 0.2

# Why a replicate has no logarithm where the whole data has one.
_LACK = {
    "jackknife": "with a fold left out, no class has two",
    "bootstrap": "in some resamples every class is one sample drawn again and again",
}

RULE = (
    "The law holds when three things are certain at the 95 % level: (1) the fitted line falls by "
    "at least a factor of two over the network; (2) the Pearson correlation of log D with the "
    f"index is below {STRAIGHT}; (3) no station leaves the line by more than "
    f"{MAX_RESIDUAL:.0%} of the whole fall. It does not hold when one of them is certainly false. "
    "Otherwise, with fewer than four stations, with a station where D has no logarithm, or "
    "without an interval, it cannot be told."
)


def judge(fit: LineFit, curve: np.ndarray, replicates: Replicates | None) -> tuple[Verdict, str]:
    """Apply :data:`RULE` to log D per station; return the verdict and the sentence behind it."""
    if len(curve) < MIN_STATIONS:
        return "cannot be told", (
            f"{len(curve)} stations are too few to tell a line from a bend; at least "
            f"{MIN_STATIONS} are needed."
        )
    if not np.isfinite(curve).all():
        return "cannot be told", "at some station D is zero or undefined, so it has no logarithm."
    if replicates is None:
        return "cannot be told", "no interval was computed, and r alone does not decide."
    if not np.isfinite(replicates.curves).all():
        lack = _LACK[replicates.kind]
        return "cannot be told", f"the samples are too few for an interval: {lack}."
    straight = judge_straightness(fit, STRAIGHT, "station")
    return decide([_falls(fit), straight, _find_outlier(curve, replicates)])


def _falls(fit: LineFit) -> Answer:
    steps = len(fit.residuals) - 1
    least, most = (-end * steps for end in reversed(fit.interval["slope"]))
    way, ends = ("falls", (least, most)) if fit.drop >= 0 else ("rises", (-most, -least))
    span = f"D {way} by a factor of {math.exp(abs(fit.drop)):.3g} along the line"
    between = f"[{math.exp(ends[0]):.3g}, {math.exp(ends[1]):.3g}]"
    if least >= HALVING:
        return True, f"{span} {between}"
    if most < HALVING:
        less = ", which is less than a halving over the whole network" if way == "falls" else ""
        return False, f"{span} {between}{less}"
    return None, f"{span}, but the interval {between} does not settle whether it halves"


def _find_outlier(curve: np.ndarray, replicates: Replicates) -> Answer:
    """Judge residuals as shares of the fall, by their intervals."""

    def shares(log_values: np.ndarray) -> np.ndarray:
        index = np.arange(len(log_values))
        slope, intercept = np.polyfit(index, log_values, 1)
        fall = max(abs(slope) * (len(index) - 1), 1e-300)
        return np.asarray(np.abs(log_values - intercept - slope * index) / fall)

    measured = shares(curve)
    low, high = replicates.interval(shares, curve)
    worst = int(measured.argmax())
    said = f"the largest residual, at index {worst}, is {measured[worst]:.0%} of the fall"
    if (low > MAX_RESIDUAL).any():
        return False, f"{said}, beyond {MAX_RESIDUAL:.0%}"
    if (np.maximum(measured, high) > MAX_RESIDUAL).any():
        return None, (
            f"{said}, and the intervals do not settle whether all are below {MAX_RESIDUAL:.0%}"
        )
    return True, said
