"""Is a straight line a sign of a good network? The law against test accuracy.

``lawscope study run separation/performance``: He & Su 2023 (Training) call the emergence of the law
during training "indicative of good model performance". Within one architecture, over learning
rates, optimisers and seeds, r and ρ of the networks that fit stand against their test accuracy: the
networks of ``separation/optimizers`` (Fashion-MNIST) and those of ``separation/frozen`` that are
trained as usual (CIFAR-10), which are shared; nothing is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lawscope.studies.figures import COLOURS, label_outside, legend_below, plain_axis, wrapped
from lawscope.studies.panels import Settings, brief, measured, medians, rank_correlation
from lawscope.studies.plan import Training
from lawscope.studies.separation import frozen, optimizers
from lawscope.studies.separation._family import he_su_study
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question

Groups = Mapping[str, Sequence[Numbers]]
KEPT = ("lr", "seed", "fits", "accuracy", "test_accuracy", "r", "rho")
LEAST = 8  # networks of an architecture, for a correlation
NORMAL = 1.959964  # 97.5 % point


def groups(settings: Settings) -> dict[str, list[Training]]:
    """Return the networks of every architecture."""
    fashion = {
        f"{depth} layers on Fashion-MNIST": [
            training
            for optimizer in settings["optimizers"]["rates"]
            for training in optimizers.candidates(settings["optimizers"], optimizer, depth)
        ]
        for depth in settings["optimizers"]["depths"]
    }
    how = settings["frozen"]
    name = f"{how['depth']} layers on {'CIFAR-10' if how['dataset'] == 'cifar10' else 'the same'}"
    return {**fashion, name: frozen.standard(how)}


def with_seeds(settings: Settings) -> dict[str, Any]:
    """Return the settings of the two studies with the number of seeds asked for."""
    names = ("optimizers", "frozen")
    return {name: {**settings[name], "seeds": settings["seeds"]} for name in names}


def measure(lab: Lab) -> Numbers:
    found = {}
    for name, trainings in groups(with_seeds(lab.settings)).items():
        rows = [measured(lab, training) for training in trainings]
        names = [training.recipe.optimizer for training in trainings]
        found[name] = [
            {"optimizer": optimizer} | {key: row[key] for key in KEPT}
            for optimizer, row in zip(names, rows, strict=True)
        ]
    return {"groups": found}


def fitting(rows: Sequence[Numbers]) -> list[Numbers]:
    return [row for row in rows if row["fits"] and row["r"] is not None]


def interval(correlation: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of Spearman's correlation by Fisher's z (Bonett & Wright 2000)."""
    if abs(correlation) >= 1:
        return correlation, correlation
    error = NORMAL * math.sqrt((1 + correlation**2 / 2) / (count - 3))
    z = math.atanh(correlation)
    return math.tanh(z - error), math.tanh(z + error)


def correlations(numbers: Numbers, name: str) -> dict[str, tuple[float, int]]:
    """Return the rank correlation with test accuracy and the number of networks."""
    rows = {group: fitting(each) for group, each in numbers["groups"].items()}
    found = {
        group: (rank_correlation([r[name] for r in each], [r["test_accuracy"] for r in each]),
                len(each))
        for group, each in rows.items()
        if len(each) >= LEAST
    }  # fmt: skip
    if not found:
        raise NotTried(f"no architecture has {LEAST} networks that fit")
    return found


def of(name: str) -> Any:
    """Read the rank correlation of a number with test accuracy by architecture."""
    return lambda numbers: {g: [c] for g, (c, _) in correlations(numbers, name).items()}


def upper_end(numbers: Numbers) -> dict[str, list[float]]:
    """Return the upper end of the interval of the correlation of r with test accuracy."""
    return {g: [interval(*found)[1]] for g, found in correlations(numbers, "r").items()}


def figure(numbers: Numbers) -> Figure:
    found = numbers["groups"]
    title = "Straightness and test accuracy"
    drawing, axes, places = wrapped(len(found), title, (3.4, 2.8), columns=2)
    for axis, (name, rows) in zip(places, found.items(), strict=True):
        for (optimizer, words), color in zip(optimizers.NAMES.items(), COLOURS, strict=False):
            own = [row for row in fitting(rows) if row["optimizer"] == optimizer]
            x, y = ([row[key] for row in own] for key in ("r", "test_accuracy"))
            axis.plot(x, y, "o", color=color, ms=4, alpha=0.7, label=words)
        heading = name
        if len(fitting(rows)) >= LEAST:
            correlation, _ = correlations({"groups": {name: rows}}, "r")[name]
            heading += f"\nrank correlation {brief(correlation)}"
        plain_axis(axis, heading)
    legend_below(drawing)
    label_outside(axes, "r (−1 is a straight line)", "test accuracy")
    return drawing


STUDY = he_su_study(
    title="Is the law a sign of a good network? r and ρ against test accuracy",
    source="He & Su 2023, Training",
    paper="the emergence of this law is indicative of good model performance",
    minutes={"smoke": 0.1, "cpu": 18, "paper": 18},
    settings={
        preset: {
            "optimizers": optimizers.STUDY.settings[preset],
            "frozen": frozen.STUDY.settings[preset],
            "seeds": 3 if preset != "smoke" else 4,
        }
        for preset in ("smoke", "cpu", "paper")
    },
    plan=lambda settings: [t for each in groups(with_seeds(settings)).values() for t in each],
    measure=measure,
    claims=(
        Claim(
            "within an architecture networks with a straighter line test better: the 95 % interval "
            "of the rank correlation of r with test accuracy ends below 0",
            "the law is indicative of good model performance",
            upper_end,
            lambda end: end < 0,
        ),
    ),
    questions=(
        Question("What is the rank correlation of r with test accuracy?", of("r"), medians),
        Question("What is the rank correlation of ρ with test accuracy?", of("rho"), medians),
    ),
    figure=figure,
)
