"""Are the scales of units where gradient noise drives them, and what to do where they are not?"""

from __future__ import annotations

import math

from lawscope.formatting import count, fixed, many, number
from lawscope.laws.base import Verdict
from lawscope.laws.conservation.distance import Distance
from lawscope.laws.conservation.noise import MIN_EFFECTIVE, MIN_SAMPLES

MARGIN = 0.1  # of λ*: weights within a tenth of where noise leaves them
WORTH = 0.5  # of λ*: from here on a network trains slower than after teleport
LEAST_SHARE = 0.5  # of the active units that must be measured

RULE = (
    "The distance is the root mean square of λ* = ¼ ln(E|g_in|²/E|g_out|²) over the units of all "
    "rescalings whose gradients lie in enough samples. The network is at noise equilibrium when it "
    f"is certainly below {MARGIN} at the 95 % level, and away from it when it is certainly above. "
    f"With fewer than {MIN_SAMPLES} samples, or half of the active units measured, it cannot be "
    f"told. Advice is given where it is certainly above {WORTH}."
)


def judge(distance: Distance | None, samples: int, unmeasured: str) -> tuple[Verdict, str]:
    """Apply :data:`RULE`; return the verdict and the sentence behind it."""
    if distance is None:
        return "cannot be told", unmeasured
    if samples < MIN_SAMPLES:
        return "cannot be told", (
            f"the distance from noise equilibrium takes the gradients of {MIN_SAMPLES} different "
            f"samples, and there are {count(samples)}"
        )
    if distance.measured < max(1.0, LEAST_SHARE * distance.living):
        return "cannot be told", (
            f"{count(distance.measured)} of {many(distance.living, 'active unit')} have gradients "
            f"of {MIN_EFFECTIVE} effective samples or more, and the distance from noise "
            "equilibrium takes half of them"
        )
    said = f"{_measured(distance)} from noise equilibrium"
    low, high = distance.interval
    if low > MARGIN:
        return "does not hold", f"{said}, which is certainly more than {MARGIN}"
    if high < MARGIN:
        return "holds", f"{said}, which is certainly less than {MARGIN}"
    return "cannot be told", f"{said}, which does not settle whether that is less than {MARGIN}"


def advise(verdict: Verdict, distance: Distance | None) -> tuple[str, ...]:
    """Say what to do where scales are so far apart that training suffers."""
    if distance is None or verdict != "does not hold" or distance.interval[0] <= WORTH:
        return ()
    return (
        "Balance the scales of units before training on, with "
        "lawscope.teleport(model, loader, 'balanced'), which leaves the function as it is: "
        f"{_measured(distance)} from where the noise of SGD drives them, a factor of "
        f"{number(math.exp(distance.value))} in weights.",
    )


def _measured(distance: Distance) -> str:
    low, high = (fixed(end, 2) for end in distance.interval)
    units = many(distance.measured, "unit")
    return f"the scales of {units} are {fixed(distance.value, 2)} [{low}, {high}]"
