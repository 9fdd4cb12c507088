"""Does the law hold, by a rule on intervals and residuals, and what does the curve of D advise?"""

from __future__ import annotations

import math

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.formatting import name_some, one_of
from lawscope.laws.base import Answer, Verdict, decide
from lawscope.laws.line import LineFit, Replicates, judge_straightness, log_or_nan, residual_shares
from lawscope.laws.separation.result import Separation

MIN_STATIONS = 4
STRAIGHT = -0.98
HALVING = math.log(2)
MAX_RESIDUAL = 0.2
IDLE = math.log(0.8)
UNBALANCED = 0.5
STRAIGHTER = 0.01
BIASED = 0.25
IMBALANCED = 5

RULE = (
    "The law holds when three things are certain at the 95 % level: (1) the fitted line falls by "
    "at least a factor of two over the network; (2) the Pearson correlation of log D with the "
    f"index is below {STRAIGHT}; (3) no station leaves the line by more than "
    f"{MAX_RESIDUAL:.0%} of the whole fall. It does not hold when one of them is certainly false. "
    "Otherwise, with fewer than four stations, with a station where D has no logarithm, or "
    "without an interval, it cannot be told."
)


def judge(fit: LineFit, curve: FloatArray, replicates: Replicates | None) -> tuple[Verdict, str]:
    """Apply :data:`RULE` to log D per station; return the verdict and the sentence behind it."""
    if len(curve) < MIN_STATIONS:
        said = f"{len(curve)} stations are too few to tell a line from a bend"
        return "cannot be told", f"{said}; at least {MIN_STATIONS} are needed."
    if not np.isfinite(curve).all():
        return "cannot be told", "at some station D is zero or undefined, so it has no logarithm."
    if replicates is None:
        return "cannot be told", "no interval was computed, and r alone does not decide."
    if not np.isfinite(replicates.curves).all():
        said = "the samples are too few for an interval"
        return "cannot be told", f"{said}: with a fold left out, no class has two."
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


def _find_outlier(curve: FloatArray, replicates: Replicates) -> Answer:
    """Judge residuals as shares of the fall, by their intervals."""
    measured = np.abs(residual_shares(curve))
    low, high = replicates.interval(lambda c: np.abs(residual_shares(c)), curve)
    worst = int(measured.argmax())
    said = f"the largest residual, at index {worst}, is {measured[worst]:.0%} of the fall"
    if (low > MAX_RESIDUAL).any():
        return False, f"{said}, beyond {MAX_RESIDUAL:.0%}"
    if (np.maximum(measured, high) > MAX_RESIDUAL).any():
        said += ", and the intervals do not settle whether all are below"
        return None, f"{said} {MAX_RESIDUAL:.0%}"
    return True, said


def advise(result: Separation) -> tuple[str, ...]:
    """Advise on depth, balance, granularity and sample size; the most important first.

    Every sentence is bound to evidence: to an interval that leaves no doubt about its sign, or to
    a number it quotes. Where the law holds, that is the first sentence.
    """
    fit, replicates, curve = result.fit, result.replicates, log_or_nan(result.values)
    unit, sentences = one_of(result.granularity), list[str]()
    if replicates is not None and not np.isfinite([curve, *replicates.curves]).all():
        replicates = None  # nothing sure can be said
    if replicates is not None and len(curve) > 2:
        sentences += _idle_top(result, curve, replicates)
        if not sentences and result.verdict != "holds":
            sentences += _balance(unit, curve, fit, replicates)
        rises, _ = replicates.interval(np.diff, curve)
        rising = [result.stations[i + 1] for i in np.flatnonzero(rises > 0).tolist()]
        if rising:
            raising = f"{unit} raises" if len(rising) == 1 else f"{unit}s raise"
            sentences.append(f"{len(rising)} {raising} D: {name_some(rising, 3)}.")
    sentences += _granularity(result)
    if result.verdict == "holds":
        sentences.insert(
            0,
            f"The law holds: each {unit} keeps about {fit.rho:.0%} of the fuzziness it is given, "
            f"D halves every {fit.half_life:.1f} {unit}s.",
        )
    if replicates is not None:
        sentences += _samples(curve, replicates, int(result.counts.min()))
    if result.verdict == "does not hold" and not sentences and fit.slope < 0:
        worst = int(np.abs(fit.residuals).argmax())
        sentences.append(
            f"D falls, but unevenly: '{result.stations[worst]}' leaves the line most, with "
            f"{np.exp(fit.residuals[worst]):.2f} times the D that equal progress would give it."
        )
    if not sentences:
        sentences.append(
            "Nothing definite can be advised from this measurement; more stations or more samples "
            "per class would narrow the interval."
        )
    return tuple(sentences)


def _idle_top(result: Separation, curve: FloatArray, replicates: Replicates) -> list[str]:
    """Name stations at the top that together surely keep more than four fifths of D."""
    unit, counts = one_of(result.granularity), result.counts
    low, high = replicates.interval(lambda c: c[-1] - c[:-1], curve)
    if high[0] >= 0 and low[0] > -HALVING:
        first, last = np.exp(curve[[0, -1]])
        said = f"The network does not lower D (from {first:.3g} to {last:.3g})"
        if counts.max() > IMBALANCED * counts.min():
            # Merged means of rare classes make D large however well the others are separated.
            return [
                f"{said}, as if untrained or as if rare classes had merged (there are between "
                f"{counts.min()} and {counts.max()} samples per class): look at the class-wise D "
                "and at ls.collapse before training longer."
            ]
        return [f"{said}, as if untrained: check that the weights were loaded, then train it."]
    beyond = len(curve) - 1
    while beyond > 0 and low[beyond - 1] > IDLE:
        beyond -= 1
    idle = len(curve) - 1 - beyond
    if not idle:
        return []
    change = np.exp([low[beyond], high[beyond]])
    return [
        f"Depth beyond {unit} {beyond} ('{result.stations[beyond]}') does nothing here: the last "
        f"{idle} {unit}{'s' if idle > 1 else ''} multiply D by "
        f"{np.exp(curve[-1] - curve[beyond]):.2f} [{change[0]:.2f}, {change[1]:.2f}]; a shallower "
        "network would separate as well."
    ]


def _balance(unit: str, curve: FloatArray, fit: LineFit, replicates: Replicates) -> list[str]:
    """Compare progress per module in the bottom half with the top half."""
    middle = (len(curve) - 1) // 2
    if middle < 1 or fit.slope >= 0:
        return []

    def progress(c: FloatArray) -> tuple[float, float]:
        return (c[0] - c[middle]) / middle, (c[middle] - c[-1]) / (len(c) - 1 - middle)

    ends = replicates.interval(lambda c: np.array([np.subtract(*progress(c))]), curve)
    low, high = (float(end[0]) for end in ends)
    bottom, top = np.exp(np.negative(progress(curve)))
    said = f"bottom {unit}s multiply D by {bottom:.2f} each, top {unit}s by {top:.2f}"
    if low > UNBALANCED * -fit.slope:
        return [
            f"The bottom is ahead of the top ({said}), as it is early in training: train longer, "
            "until the top has caught up."
        ]
    if high < -UNBALANCED * -fit.slope:
        return [
            f"The top is ahead of the bottom ({said}): the bottom has learned little here; train "
            "it longer or unfreeze it, in transfer learning on more of the source."
        ]
    return []


def _samples(curve: FloatArray, replicates: Replicates, smallest_class: int) -> list[str]:
    """Say by how much small classes bias D."""
    # The jackknife's: F − 1 times what leaving a fold out changes in the mean.
    bias = (len(replicates.curves) - 1) * (replicates.curves.mean(axis=0) - curve)
    worst = float(bias[np.abs(bias).argmax()])
    if abs(worst) < BIASED:
        return []
    return [
        f"There are few samples per class (as few as {smallest_class}): that alone moves D by "
        f"about {np.expm1(worst):+.0%} at one station; measure with more."
    ]


def _granularity(result: Separation) -> list[str]:
    """Name another granularity that surely falls along a straighter line, of enough points."""
    here, fit = result.granularity, result.fit

    def straighter(other: LineFit) -> bool:
        if len(other.residuals) < MIN_STATIONS or not other.slope < 0:
            return False
        surely = other.interval.get("pearson", (other.pearson,) * 2)[1] < fit.pearson
        return surely and other.pearson < fit.pearson - STRAIGHTER

    better = {n: f.pearson for n, f in result.granularities.items() if n != here and straighter(f)}
    if not better:
        return []
    name = min(better, key=better.__getitem__)
    return [
        f"By {name} the line is straighter (r = {better[name]:.3f} against {fit.pearson:.3f} by "
        f"{here}): {name} are the better modules of this network; measure with stations='{name}'."
    ]
