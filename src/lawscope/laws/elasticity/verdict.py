"""Is the network locally elastic, by the interval of the gap between same and other classes?"""

from __future__ import annotations

from lawscope.formatting import fixed
from lawscope.laws.base import Answer, Verdict, decide
from lawscope.statistics.class_pairs import LEAST, PairGap

MARGIN = 0.01  # of the effect on x itself: a smaller gap counts as no gap

RULE = (
    "The network is locally elastic when two things are certain at the 95 % level: (1) the gap of "
    "the relative similarity between the same class and other classes exceeds "
    f"{MARGIN}; (2) it exceeds the gap of a linear classifier on the same probes by more than "
    f"{MARGIN}, since samples of one class are closer to one another before any network sees them. "
    "It is not when one of them is certainly false. Otherwise, or with fewer than "
    f"{LEAST} probes in a class, it cannot be told. Where inputs are not numbers (tokens) there is "
    "no linear classifier and (1) decides."
)


def judge_elasticity(relative: PairGap, excess: PairGap | None) -> tuple[Verdict, str]:
    """Apply :data:`RULE`; return the verdict and the sentence behind it."""
    if not relative.interval:
        return "cannot be told", f"a class has fewer than {LEAST} probes, so there is no interval"
    said = (
        f"a step moves samples of its own class by {fixed(relative.same, 2)} and of others by "
        f"{fixed(relative.other, 2)} of its effect on its own sample, a gap"
    )
    answers = [_exceeds(said, relative)]
    if excess is not None:
        answers.append(_exceeds("the gap less that of a linear classifier is", excess))
    return decide(answers)


def _exceeds(name: str, found: PairGap) -> Answer:
    low, high = found.interval["gap"]
    joint = "" if name.endswith("is") else " of"
    said = f"{name}{joint} {fixed(found.gap, 3)} [{fixed(low, 3)}, {fixed(high, 3)}]"
    if low > MARGIN:
        return True, said
    if high < MARGIN:
        return False, f"{said}, which is certainly not above {MARGIN}"
    return None, f"{said}, which does not settle whether it is above {MARGIN}"
