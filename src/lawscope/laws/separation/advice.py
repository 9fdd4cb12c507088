"""What the curve of D advises: sentences that each rest on an interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lawscope.arrays import FloatArray, IntArray
from lawscope.formatting import name_some, one_of
from lawscope.laws.line import LineFit, log_or_nan
from lawscope.laws.separation.result import Separation
from lawscope.laws.separation.verdict import HALVING, MIN_STATIONS
from lawscope.laws.uncertainty import Replicates, jackknife

IDLE = float(np.log(0.8))
UNBALANCED = 0.5
STRAIGHTER = 0.01
BIASED = 0.25
IMBALANCED = 5


def advise(result: Separation) -> tuple[str, ...]:
    """Advise on depth, balance, granularity and sample size; the most important first.

    Every sentence is bound to evidence: to an interval that leaves no doubt about its sign, or to
    a number it quotes. Where the law holds, that is the first sentence.
    """
    verdict, fit, replicates = result.verdict, result.fit, result.replicates
    stations, counts, curve = result.stations, result.counts, log_or_nan(result.values)
    unit, sentences = one_of(result.granularity), list[str]()
    if replicates is not None and not np.isfinite([curve, *replicates.curves]).all():
        replicates = None  # nothing sure can be said
    if replicates is not None and len(curve) > 2:
        idle = _idle_top(unit, stations, curve, replicates, counts)
        sentences += idle
        if not idle and verdict != "holds":
            sentences += _balance(unit, curve, fit, replicates)
        sentences += _risers(unit, stations, curve, replicates)
    sentences += _granularity(result.granularity, fit, result.granularities)
    if verdict == "holds":
        sentences.insert(
            0,
            f"The law holds: each {unit} keeps about {fit.rho:.0%} of the fuzziness it is given, "
            f"D halves every {fit.half_life:.1f} {unit}s.",
        )
    if replicates is not None:
        sentences += _samples(curve, replicates, int(counts.min()))
    if verdict == "does not hold" and not sentences:
        sentences += _uneven(stations, fit)
    if not sentences:
        sentences.append(
            "Nothing definite can be advised from this measurement; more stations or more samples "
            "per class would narrow the interval."
        )
    return tuple(sentences)


def _idle_top(
    unit: str,
    stations: Sequence[str],
    curve: FloatArray,
    replicates: Replicates,
    counts: IntArray,
) -> list[str]:
    """Name stations at the top that together surely keep more than four fifths of D."""
    low, high = replicates.interval(lambda c: c[-1] - c[:-1], curve)
    last, ends = len(curve) - 1, np.exp(curve[[0, -1]])
    if high[0] >= 0 and low[0] > -HALVING:
        said = f"The network does not lower D (from {ends[0]:.3g} to {ends[1]:.3g})"
        if counts.max() > IMBALANCED * counts.min():
            # Merged means of rare classes make D large however well the others are separated.
            return [
                f"{said}, as if untrained or as if rare classes had merged (there are between "
                f"{counts.min()} and {counts.max()} samples per class): look at the class-wise D "
                "and at ls.collapse before training longer."
            ]
        return [f"{said}, as if untrained: check that the weights were loaded, then train it."]
    beyond = last
    while beyond > 0 and low[beyond - 1] > IDLE:
        beyond -= 1
    idle = last - beyond
    if not idle:
        return []
    change = np.exp([low[beyond], high[beyond]])
    return [
        f"Depth beyond {unit} {beyond} ('{stations[beyond]}') does nothing here: the last {idle} "
        f"{unit}{'s' if idle > 1 else ''} multiply D by {np.exp(curve[-1] - curve[beyond]):.2f} "
        f"[{change[0]:.2f}, {change[1]:.2f}]; a shallower network would separate as well."
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


def _uneven(stations: Sequence[str], fit: LineFit) -> list[str]:
    """Name where a falling curve leaves its line most."""
    if not fit.slope < 0:
        return []
    worst = int(np.abs(fit.residuals).argmax())
    return [
        f"D falls, but unevenly: '{stations[worst]}' leaves the line most, with "
        f"{np.exp(fit.residuals[worst]):.2f} times the D that equal progress would give it."
    ]


def _risers(
    unit: str, stations: Sequence[str], curve: FloatArray, replicates: Replicates
) -> list[str]:
    """Name single modules that surely raise D."""
    low, _ = replicates.interval(np.diff, curve)
    rising = [stations[i + 1] for i in np.flatnonzero(low > 0).tolist()]
    if not rising:
        return []
    raising = f"{unit} raises" if len(rising) == 1 else f"{unit}s raise"
    return [f"{len(rising)} {raising} D: {name_some(rising, 3)}."]


def _samples(curve: FloatArray, replicates: Replicates, smallest_class: int) -> list[str]:
    """Say by how much small classes bias D."""
    if replicates.kind == "jackknife":
        corrected, _ = jackknife(curve, replicates.curves)
        bias = curve - corrected
    else:
        bias = replicates.curves.mean(axis=0) - curve
    worst = float(bias[np.abs(bias).argmax()])
    if abs(worst) < BIASED:
        return []
    return [
        f"There are few samples per class (as few as {smallest_class}): that alone moves D by "
        f"about {np.expm1(worst):+.0%} at one station; measure with more."
    ]


def _straighter(other: LineFit, fit: LineFit) -> bool:
    """Return whether another granularity surely falls along a straighter line, of enough points."""
    if len(other.residuals) < MIN_STATIONS or not other.slope < 0:
        return False
    surely = other.interval.get("pearson", (other.pearson,) * 2)[1] < fit.pearson
    return surely and other.pearson < fit.pearson - STRAIGHTER


def _granularity(granularity: str, fit: LineFit, granularities: dict[str, LineFit]) -> list[str]:
    """Name another granularity in which the line is straighter."""
    others = {
        name: other
        for name, other in granularities.items()
        if name != granularity and _straighter(other, fit)
    }
    if not others:
        return []
    name, best = min(others.items(), key=lambda item: item[1].pearson)
    return [
        f"By {name} the line is straighter (r = {best.pearson:.3f} against {fit.pearson:.3f} by "
        f"{granularity}): {name} are the better modules of this network; measure with "
        f"stations='{name}'."
    ]
