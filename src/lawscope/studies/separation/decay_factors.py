"""What the decay ratio ρ depends on, and how much.

``lawscope study run separation/decay-factors``: He & Su 2023 say that ρ depends on depth, data,
training time and architecture, and "to a lesser extent" on the optimiser. Feed-forward networks,
each with one thing changed: depth 4, 8, 20; Fashion-MNIST, CIFAR-10, MNIST; 100, 200, 300, 600
epochs of training; width 20, 50, 100; SGD, momentum, Adam. 8 layers, Adam and Fashion-MNIST
otherwise; three seeds. The effect of a factor is the range of log ρ over its values, seed by seed.
Most trainings are those of ``separation/optimizers`` and ``separation/datasets``.
"""

from __future__ import annotations

import math
from typing import Any

from lawscope.studies.figures import COLOURS, draw_seeds, label_outside, plain_axis, wrapped
from lawscope.studies.panels import RATES, Settings, choice, measured, medians, training_of
from lawscope.studies.plan import Training
from lawscope.studies.separation import _family as family
from lawscope.studies.separation import optimizers
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question

OPTIMIZER = "optimiser"
FACTORS = ("depth", "data", "epochs", "width", OPTIMIZER)


def cells(settings: Settings) -> dict[str, dict[str, list[Training]]]:
    """Return the candidates of every value of every factor; of training time those of its end."""
    depth, near = settings["depth"], {"near": list(settings["rates"]), **settings}
    adam = {**settings, "near": True}

    def usual(**changed: Any) -> list[Training]:
        return family.feedforward(adam, **{"depth": depth, **changed})

    long = family.feedforward(adam, None, settings["checkpoints"], depth=depth)
    return {
        "depth": {str(d): usual(depth=d) for d in settings["depths"]},
        "data": {family.NAMES[n]: usual(data=family.DATA[n]) for n in settings["datasets"]},
        "epochs": {"along training": long},
        "width": {str(w): usual(**({} if w == 100 else {"width": w})) for w in settings["widths"]},
        OPTIMIZER: {
            optimizers.NAMES[o]: optimizers.candidates(near, o, depth) for o in settings["rates"]
        },
    }


def plan(settings: Settings) -> list[Training]:
    return [
        t for each in cells(settings).values() for trainings in each.values() for t in trainings
    ]


def measure(lab: Lab) -> Numbers:
    """Return ρ of the chosen networks by factor and value, one row per seed."""
    found: dict[str, list[Numbers]] = {}
    for factor, values in cells(lab.settings).items():
        for value, trainings in values.items():
            rows = choice(lab, trainings)["chosen"]
            points = {value: rows}
            if factor == "epochs":
                chosen = [training_of(row, trainings) for row in rows]
                points = {
                    str(epoch): [measured(lab, each, epoch=epoch) for each in chosen]
                    for epoch in lab.settings["checkpoints"]
                }
            found.setdefault(factor, []).extend(
                {"value": name, "networks": [{"seed": r["seed"], "rho": r["rho"]} for r in each]}
                for name, each in points.items()
            )
    return {"factors": found}


def effects(numbers: Numbers) -> dict[str, list[float | None]]:
    """Return the range of log ρ over the values of each factor, seed by seed."""
    found = {}
    for factor, points in numbers["factors"].items():
        seeds = zip(*([row["rho"] for row in point["networks"]] for point in points), strict=True)
        found[factor] = [
            None if None in along else math.log(max(along) / min(along)) for along in seeds
        ]
    return found


def beside_optimizer(numbers: Numbers) -> dict[str, list[float | None]]:
    """Return the effect of each factor over that of the optimiser."""
    found = effects(numbers)
    base = found.pop(OPTIMIZER, None)
    if base is None:
        raise NotTried("this preset has one optimiser")
    return {
        factor: [
            None if effect is None or not other else effect / other
            for effect, other in zip(values, base, strict=True)
        ]
        for factor, values in found.items()
    }


def figure(numbers: Numbers) -> Figure:
    found = numbers["factors"]
    title = "What the decay ratio depends on: networks (dots) and their median (lines)"
    drawing, axes, places = wrapped(len(found), title)
    for axis, (factor, points), color in zip(places, found.items(), COLOURS, strict=False):
        rows = [point["networks"] for point in points]
        draw_seeds(axis, range(len(points)), rows, "rho", color=color, label=factor)
        axis.set_xticks(range(len(points)), [point["value"] for point in points], rotation=30)
        plain_axis(axis, factor, ylim=(0, 1))
    label_outside(axes, "", "decay ratio ρ")
    return drawing


STUDY = family.he_su_study(
    title="What ρ depends on: depth, data, training time, width, and less on the optimiser",
    source="He & Su 2023, text",
    paper="ρ depends on depth, data, training time and architecture, to a lesser extent on the "
    "optimiser",
    minutes={"smoke": 0.1, "cpu": 6, "paper": 6},
    settings=family.adam_presets(
        {
            "depth": 8, "depths": [4, 8, 20], "datasets": ["fashion-mnist", "cifar10", "mnist"],
            "checkpoints": [100, 200, 300, 600], "widths": [20, 50, 100], "rates": RATES,
        },
        smoke={
            "depth": 4, "depths": [3, 4], "checkpoints": [1, 2], "widths": [20, 100],
            "rates": optimizers.LITTLE,
        },
    ),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "every other factor moves ρ more than the optimiser does (ratio of the ranges of log ρ "
            "above 1)",
            "to a lesser extent on the optimisation method",
            beside_optimizer,
            lambda ratio: ratio > 1,
        ),
    ),
    questions=(
        Question("By how much does each factor move ρ (range of log ρ)?", effects, medians),
    ),
    figure=figure,
    departures=dict.fromkeys(("cpu", "paper"), family.NEAR),
)  # fmt: skip
