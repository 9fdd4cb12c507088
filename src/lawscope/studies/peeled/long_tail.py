"""A long tail: every class has its own size, and rare classes crowd together.

``lawscope study run peeled/long-tail``: "general imbalanced datasets" (Fang et al. 2021, future
directions). Exponential tails n_k = n_1·R^(−k/(K−1)) with R = 100, as long-tailed benchmarks have
them, for K = 10, 100 and 1000 classes, all of different sizes; E_W = 1, E_H = 10. About 12 seconds
on one core, nearly all for K = 1000; nothing is trained, nothing is random.
"""

from __future__ import annotations

import math
import time
from typing import Any

import lawscope as ls
from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import Settings, collect, presets, quietly, yes_or_no
from lawscope.studies.peeled._programs import certified, for_each
from lawscope.studies.study import Check, Figure, Lab, Numbers, Question, Study

PAPER: dict[str, Any] = {
    "classes": [10, 100, 1000], "ratio": 100, "weight_energy": 1, "feature_energy": 10, "kept": 100,
    "seeds": 0,
}  # fmt: skip
LABEL = "K = {classes}"


def tail(K: int, ratio: float) -> list[float]:
    """Class sizes from ``ratio`` down to 1, each smaller than the one before by the same factor."""
    return [float(f"{ratio ** (1 - k / (K - 1)):.9g}") for k in range(K)]


def measure(lab: Lab) -> Numbers:
    found = for_each(lab, solved, classes="classes")
    return {"ratio": lab.settings["ratio"], "programs": found}


def solved(settings: Settings, classes: int) -> Numbers:
    """``cosines[k]``: the mean cosine of class k to the classes of the tenth of sizes around it."""
    K, energies = classes, (settings["weight_energy"], settings["feature_energy"])
    begun = time.process_time()
    with quietly():
        found = ls.peel(tail(K, settings["ratio"]), *energies)
    seconds = time.process_time() - begun
    cosines = neighbourly(found.cosines, max(2, K // 10))
    living = [cosine for cosine in cosines if cosine is not None]
    kept = range(0, K, max(1, K // settings["kept"]))
    return {
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
    """
    K = len(cosines)
    means: list[float | None] = []
    for k in range(K):
        first = min(max(0, k - window // 2), K - window)
        around = [float(cosines[k, i]) for i in range(first, first + window) if i != k]
        there = [cosine for cosine in around if math.isfinite(cosine)]
        means.append(sum(there) / len(there) if there else None)
    return means


def figure(numbers: Numbers) -> Figure:
    title = f"A long tail, largest over smallest class {numbers['ratio']}"
    drawing, axes = grid(1, 1, title, (5.2, 3.4))
    axis = axes[0][0]
    for program, color in zip(numbers["programs"], COLOURS, strict=False):
        there = [pair for pair in program["cosines"] if pair[1] is not None]
        places, cosines = zip(*there, strict=True)
        name = f"K = {program['classes']}, {program['vanished']} vanished"
        axis.plot(places, cosines, "o-", color=color, ms=2.5, lw=1, label=name)
    plain_axis(axis, legend=7.5)
    label_outside(axes, "place in the tail: 0 commonest, 1 rarest", "cosine to neighbours in size")
    return drawing


STUDY = Study(
    title="Exponential long tails with 10, 100 and 1000 class sizes, certified",
    source="Fang et al. 2021, future directions",
    paper="asked, not answered: general imbalanced datasets",
    minutes={"smoke": 0.05, "cpu": 0.25, "paper": 0.25},
    settings=presets(PAPER, smoke={"classes": [4, 10]}),
    measure=measure,
    questions=(
        Question(
            "Do rare classes crowd together: is the mean cosine to neighbours in size larger at "
            "the rarest class whose classifier has not vanished than at the commonest?",
            collect("programs", LABEL, lambda program: program["rarest"] - program["commonest"]),
            yes_or_no(lambda difference: difference > 0),
        ),
        Question(
            "Do classifiers of rare classes vanish altogether (their number)?",
            collect("programs", LABEL, "vanished"),
            yes_or_no(lambda count: count > 0),
        ),
    ),
    checks=(
        certified("programs"),
        Check(
            "each program is solved within a minute of one core's time (seconds)",
            collect("programs", LABEL, "seconds"),
            lambda seconds: bool(seconds <= 60),
        ),
    ),
    figure=figure,
)
