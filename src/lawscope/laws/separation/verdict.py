"""Does the law hold, by a rule on intervals and residuals, and what does the curve of D advise?"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.formatting import as_sentence, between, count, fixed, many, number, one_of
from lawscope.laws.base import Answer, Verdict, decide
from lawscope.laws.line import LIMITS, LineFit, log_or_nan, residual_shares
from lawscope.laws.population import Population
from lawscope.laws.separation.result import Separation

MIN_STATIONS = 4
STRAIGHT = -0.98
HALVING = math.log(2)
MAX_RESIDUAL = 0.2
IDLE = math.log(0.8)
UNBALANCED = 0.5
STRAIGHTER = 0.01
IMBALANCED = 5

RULE = (
    "On these samples the law holds when (1) the fitted line falls by at least a factor of two "
    "over the network; (2) the Pearson correlation of log D with the index is at most "
    f"{STRAIGHT}; (3) no station leaves the line by more than {MAX_RESIDUAL:.0%} of the whole "
    "fall. In the population it holds when all three are certain at the 95 % level and every "
    "station is settled, and does not hold when one of them is certainly false. Otherwise, with "
    "fewer than four stations, or with a station where D has no logarithm, it cannot be told."
)
Ends = tuple[float, float]


def judge(fit: LineFit, curve: FloatArray) -> tuple[Verdict, str]:
    """Apply :data:`RULE` to log D of the samples; return the verdict and the sentence behind it."""
    if lack := _find_lack(curve):
        return "cannot be told", lack
    shares = np.abs(residual_shares(curve))
    falls = judge_fall(fit.drop, (fit.drop, fit.drop))
    straight = _is_straight(fit.pearson, (fit.pearson, fit.pearson))
    return decide([falls, straight, _has_no_outlier(shares, shares)])


def judge_population(found: Population, values: FloatArray, samples: int) -> Population:
    """Apply :data:`RULE` to an estimate; ``values`` are D of the samples, as few as ``samples``."""
    if lack := _find_lack(log_or_nan(values)):
        return dataclasses.replace(found, reason=lack)
    fit, steps = found.fit, len(values) - 1
    low, high = fit.interval["slope"]
    answers = [
        judge_fall(fit.drop, (-high * steps, -low * steps)),
        _is_straight(fit.pearson, fit.interval["pearson"]),
        _has_no_outlier(*found.shares.T),
    ]
    verdict, reason = decide(answers)
    if not found.settled.all():
        reason = f"{_say_unsettled(found, values, samples)} {as_sentence(reason)}"
        verdict = "cannot be told" if verdict == "holds" else verdict
    return dataclasses.replace(found, verdict=verdict, reason=reason)


def _find_lack(curve: FloatArray) -> str:
    if len(curve) < MIN_STATIONS:
        said = f"{many(len(curve), 'station')} {'is' if len(curve) == 1 else 'are'} too few"
        return f"{said} to tell a line from a bend; at least {MIN_STATIONS} are needed."
    if not np.isfinite(curve).all():
        return "at some station D is zero or undefined, so it has no logarithm."
    return ""


def _say_unsettled(found: Population, values: FloatArray, samples: int) -> str:
    """Say why the samples are too few for a statement beyond themselves, and how many would do."""
    open_ = int((~np.isfinite(found.interval[:, 1])).sum())
    grown = float(np.max(found.values / values))
    # In three digits, upwards: it is a least number.
    unit = 10 ** max(0, len(str(found.needed)) - 3)
    enough = count(-(-(found.needed or 0) // unit) * unit)
    why = f"D would be up to {number(grown, 2)} times as large with many more"
    if open_:
        why = f"at {many(open_, 'station')} not all classes can be told apart"
    return (
        f"{many(samples, 'sample')} per class {'is' if samples == 1 else 'are'} too few for a "
        f"statement about other data ({why}); at least {enough} per class are needed."
    )


def judge_fall(drop: float, ends: Ends) -> Answer:
    """Judge the fall of log D along the line; a drop that is not known has one end at most."""
    least, most = ends
    if math.isinf(least) and math.isinf(most):
        return None, "how far D falls along the line is not known"
    said = _say_fall(drop, least, most)
    if least >= HALVING:
        return True, said
    if most < HALVING:
        small = ", less than a halving over the whole network" if most > 0 else ""
        return False, said + small
    return None, f"{said}, which does not settle whether it halves"


def _say_fall(drop: float, least: float, most: float) -> str:
    """Say how far D falls or rises, as factors that are never below 1."""
    if math.isnan(drop):
        bound = least if math.isinf(most) else most
        way, other = ("falls", "rises") if bound > 0 else ("rises", "falls")
        said = f"D {way} along the line by a factor of at"
        if (bound > 0) == math.isinf(most):
            return f"{said} least {_factor(bound)}"
        return f"{said} most {_factor(bound)}, or {other}"
    said = f"D {'rises' if drop < 0 else 'falls'} along the line by a factor of {_factor(drop)}"
    if least < 0 < most:
        rise, fall = _factor(least), _factor(most)
        return f"{said} [from a rise by a factor of {rise} to a fall by one of {fall}]"
    near, far = sorted((least, most), key=abs)
    return f"{said} [{_factor(near)}, {_factor(far)}]" if least < most else said


def _factor(logarithm: float) -> str:
    return number(math.exp(abs(logarithm)))


def _is_straight(pearson: float, ends: Ends) -> Answer:
    low, high = ends
    least, most = fixed(low, 3), fixed(high, 3)
    said = f"r = {fixed(pearson, 3)}" + (f" [{least}, {most}]" if low < high else "")
    if math.isnan(pearson):
        known = between(ends, lambda end: fixed(end, 3), limits=LIMITS["pearson"])
        said = f"r is {known}" if known else "r is not known"
    if high <= STRAIGHT:
        return True, f"{said}, at most {STRAIGHT}"
    if low > STRAIGHT:
        return False, f"{said}, above {STRAIGHT}: the progress per station is uneven"
    return None, f"{said}, which does not settle whether it is at most {STRAIGHT}"


def _has_no_outlier(least: FloatArray, most: FloatArray) -> Answer:
    """Judge residuals as shares of the fall; their ends are NaN where they are not known."""
    if np.isnan(most).any():
        return None, "how far stations leave the line is not known"
    worst = int(most.argmax())
    said = f"the largest residual, at index {worst}, is {most[worst]:.0%} of the fall"
    said += " at most" if least[worst] < most[worst] else ""
    if (least > MAX_RESIDUAL).any():
        return False, f"{said}, beyond {MAX_RESIDUAL:.0%}"
    if most[worst] > MAX_RESIDUAL:
        return None, f"{said}, which does not settle whether all are below {MAX_RESIDUAL:.0%}"
    return True, said


def advise(result: Separation) -> tuple[str, ...]:
    """Advise on depth, balance and granularity of a network that has learned its data.

    Every sentence begins with what to do. Those on depth and balance rest on an interval of the
    population that leaves no doubt about its sign; the rules stand in docs/advice.md.
    """
    population, sentences = result.population, list[str]()
    if not result.learned:
        return ()
    if population is not None and np.isfinite(population.influence).all():
        sentences = _merged_classes(result, population) or _idle_top(result, population)
        sentences = sentences or _balance(result, population)
    return (*sentences, *_granularity(result))


def find_risers(result: Separation) -> list[str]:
    """Return the stations that surely raise D."""
    if result.population is None:
        return []
    rises, _ = result.population.interval_of(np.diff)
    return [result.shown[i + 1] for i in np.flatnonzero(rises > 0).tolist()]


def _merged_classes(result: Separation, population: Population) -> list[str]:
    """Say where to look when D surely does not halve though the network has learned.

    Merged means of rare classes make D large however well the others are separated.
    """
    least, most = result.counts.min(), result.counts.max()
    (low, *_), _ = population.interval_of(lambda c: c[-1:] - c[:1])
    if low <= -HALVING or most < IMBALANCED * least:
        return []
    first, last = population.values[[0, -1]]
    learned = f"is right on {result.accuracy:.0%} of the samples"
    if math.isnan(result.accuracy):
        learned = "separates classes better than before it was trained"
    return [
        "Look at the class-wise D and at ls.collapse before training longer: D goes from "
        f"{first:.3g} to {last:.3g} though the network {learned}, as if rare classes had merged "
        f"(classes have {least} to {most} samples)."
    ]


def _idle_top(result: Separation, population: Population) -> list[str]:
    """Name stations at the top that together surely keep more than four fifths of D."""
    unit = one_of(result.granularity)
    low, high = population.interval_of(lambda c: c[-1] - c[:-1])
    beyond = len(low)
    while beyond > 0 and low[beyond - 1] > IDLE:
        beyond -= 1
    idle = len(low) - beyond
    # A network of which no station lowers D has no top to cut.
    if idle in (0, len(low)):
        return []
    ends = np.exp([low[beyond], high[beyond]])
    many = f"last {unit} multiplies" if idle == 1 else f"last {idle} {unit}s multiply"
    return [
        f"Try a network that ends after '{result.shown[beyond]}': the {many} D by between "
        f"{ends[0]:.2f} and {ends[1]:.2f} only."
    ]


def _balance(result: Separation, population: Population) -> list[str]:
    """Compare progress per module in the bottom half with the top half."""
    unit, slope = one_of(result.granularity), population.fit.slope
    middle = (len(result.values) - 1) // 2
    if not slope < 0 or result.verdict != "does not hold":
        return []

    def progress(c: FloatArray) -> FloatArray:
        bottom, top = (c[0] - c[middle]) / middle, (c[middle] - c[-1]) / (len(c) - 1 - middle)
        return np.array([bottom - top, bottom, top])

    (low, *_), (high, *_) = population.interval_of(progress)
    _, bottom, top = np.exp(-progress(np.log(population.values)))
    said = f"bottom {unit}s multiply D by {bottom:.2f} each, top {unit}s by {top:.2f}"
    if low > UNBALANCED * -slope:
        return [f"Train longer, until the top has caught up with the bottom: {said}."]
    if high < UNBALANCED * slope:
        return [
            "Train the bottom longer or unfreeze it, in transfer learning on more of the source: "
            f"{said}."
        ]
    return []


def _granularity(result: Separation) -> list[str]:
    """Name another granularity that falls along a straighter line, of enough points."""
    here, fit = result.granularity, result.fit
    better = {
        name: other.pearson
        for name, other in result.granularities.items()
        if name != here
        and len(other.residuals) >= MIN_STATIONS
        and other.pearson < fit.pearson - STRAIGHTER
    }
    if not better:
        return []
    name = min(better, key=better.__getitem__)
    return [
        f"Measure with stations='{name}', the better modules of this network: their line is "
        f"straighter (r = {better[name]:.3f} against {fit.pearson:.3f} by {here})."
    ]
