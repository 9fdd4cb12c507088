"""A long tail: every class has its own size, and rare classes crowd together.

``lawscope study run peeled/long-tail``: "general imbalanced datasets" (001, future directions).
Exponential tails n_k = n_1·R^(−k/(K−1)) with R = 100, as long-tailed benchmarks have them, for
K = 10, 100 and 1000 classes, all of different sizes; E_W = 1, E_H = 10. About 12 seconds on one
core, nearly all for K = 1000; nothing is trained, nothing is random.

The documents ask for it and give no number.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.choice import every, quietly
from lawscope.studies.peeled._programs import CERTIFIED, nothing_to_train
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "classes": [10, 100, 1000],
    "ratio": 100,
    "weight_energy": 1,
    "feature_energy": 10,
    "kept": 100,
    "seeds": 1,
}
CPU = PAPER
SMOKE = {**PAPER, "classes": [4, 10]}
TENTH = 10
SECONDS = 60.0


def tail(K: int, ratio: float) -> list[float]:
    """Class sizes from ``ratio`` down to 1, each smaller than the one before by the same factor.

    Example:
        >>> tail(3, 100)
        [100.0, 10.0, 1.0]
    """
    return [float(f"{ratio ** (1 - k / (K - 1)):.9g}") for k in range(K)]


def measure(lab: Lab) -> Numbers:
    """One program per number of classes."""
    settings = lab.settings
    programs = []
    for K in settings["classes"]:
        lab.tell(f"{K} classes")
        programs.append(solved(settings, K))
    return {"ratio": settings["ratio"], "programs": programs}


def solved(settings: Mapping[str, Any], K: int) -> Numbers:
    """Cosines along the tail, the certificate, and what it took.

    ``cosines[k]`` is the mean cosine of class k to the classes of the tenth of sizes around it.
    """
    from lawscope.theory.layer_peeled.peel import peel

    begun = time.process_time()
    with quietly():
        found = peel(
            tail(K, settings["ratio"]), settings["weight_energy"], settings["feature_energy"]
        )
    seconds = time.process_time() - begun
    cosines = neighbourly(found.cosines, max(2, K // TENTH))
    living = [cosine for cosine in cosines if cosine is not None]
    kept = range(0, K, max(1, K // settings["kept"]))
    return {
        "classes": K,
        "seconds": seconds,
        "gap": found.gap / found.loss,
        "loss": found.loss,
        "cosines": [[k / (K - 1), cosines[k]] for k in kept],
        "commonest": living[0],
        "rarest": living[-1],
        "merged": sum(group.phase == "collapsed" for group in found.groups),
        "vanished": sum(group.phase == "vanished" for group in found.groups),
    }


def neighbourly(cosines: Any, window: int) -> list[float | None]:
    """Mean cosine of each class to those of its ``window`` neighbours in size that have one.

    None where its own classifier, or all around it, have vanished.

    Example:
        >>> import numpy as np
        >>> neighbourly(np.array([[1, 0.5, 0], [0.5, 1, 0.25], [0, 0.25, 1]]), 2)
        [0.5, 0.5, 0.25]
    """
    K = len(cosines)
    means: list[float | None] = []
    for k in range(K):
        first = min(max(0, k - window // 2), K - window)
        around = [float(cosines[k, i]) for i in range(first, first + window) if i != k]
        there = [cosine for cosine in around if math.isfinite(cosine)]
        means.append(sum(there) / len(there) if there else None)
    return means


def of_all(name: str) -> Any:
    """One number of every program."""
    return lambda numbers: [program[name] for program in numbers["programs"]]


def crowding(numbers: Numbers) -> list[float]:
    """Cosine around the rarest class that has a classifier minus that around the commonest."""
    return [program["rarest"] - program["commonest"] for program in numbers["programs"]]


CLAIMS = (
    Claim(
        "every program is certified: gap at most 1e-6 of the loss",
        "no number in the documents",
        of_all("gap"),
        every(lambda gap: gap <= CERTIFIED),
    ),
    Claim(
        "rare classes crowd together: the mean cosine to neighbours in size is larger at the "
        "rarest class whose classifier has not vanished than at the commonest",
        "general imbalanced datasets",
        crowding,
        every(lambda difference: difference > 0),
    ),
    Claim(
        "each program is solved within a minute of one core's time (seconds)",
        "no number in the documents",
        of_all("seconds"),
        every(lambda seconds: seconds <= SECONDS),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """The cosine of each class to its neighbours along the tail."""
    title = f"A long tail, largest over smallest class {numbers['ratio']}"
    drawing, axes = grid(1, 1, title, (5.2, 3.4))
    axis = axes[0][0]
    for program, color in zip(numbers["programs"], COLOURS, strict=False):
        there = [pair for pair in program["cosines"] if pair[1] is not None]
        places, cosines = zip(*there, strict=True)
        name = f"K = {program['classes']}, {program['vanished']} vanished"
        axis.plot(places, cosines, "o-", color=color, ms=2.5, lw=1, label=name)
    axis.legend(fontsize=7.5, frameon=False)
    plain_axis(axis)
    label_outside(axes, "place in the tail: 0 commonest, 1 rarest", "cosine to neighbours in size")
    return drawing


STUDY = Study(
    title="Exponential long tails with 10, 100 and 1000 class sizes, certified",
    source="001, future directions",
    paper="asked, not answered: general imbalanced datasets",
    minutes={"smoke": 0.05, "cpu": 0.25, "paper": 0.25},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=nothing_to_train,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
