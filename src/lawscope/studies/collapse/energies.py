"""The energies of classifiers and features fall as weight decay rises.

``lawscope study run collapse/energies``: "E_W and E_H depend on the weight decay" (Fang et al.
2021). The 4-layer feed-forward network of collapse/terminal, on 100 images of each class of
Fashion-MNIST at 10×10 for 350 epochs, with six weight decays and three seeds. E_W and E_H are the
mean squared norms of classifiers and features, centred as the authors' script has them; beside them
stands the imbalance R₀ at which the Layer-Peeled Model merges five of ten classes at these
energies.
"""

from __future__ import annotations

import math
from typing import Any

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.studies.collapse._networks import CLASSES, MLP, data_of, training_of
from lawscope.studies.figures import COLOURS, draw_seeds, grid, label_outside, plain_axis
from lawscope.studies.panels import (
    Settings,
    collect,
    first_seeds,
    presets,
    quietly,
    rank_correlation,
    yes_or_no,
)
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

NETWORK = {**MLP, "samples": 100, "epochs": 350}
PAPER: dict[str, Any] = {
    "dataset": "fashion-mnist-10x10", "network": NETWORK, "seeds": 3,
    "decays": [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3],
}  # fmt: skip
SMOKE = {
    "network": {**NETWORK, "samples": 20, "epochs": 4},
    "decays": [1e-4, 1e-3, 1e-2],
    "seeds": 1,
}
MAJORITY = 5
SHOWN = {"weight_energy": "E_W", "feature_energy": "E_H", "threshold": "predicted R₀"}


def trainings(settings: Settings, seed: int) -> list[Training]:
    """Return the networks of one seed, by weight decay."""
    network = settings["network"]
    data = data_of(settings["dataset"], network, per_class=network["samples"])
    return [
        training_of({**network, "weight_decay": decay}, data, seed) for decay in settings["decays"]
    ]


def plan(settings: Settings) -> list[Training]:
    return [t for seed in first_seeds(settings["seeds"]) for t in trainings(settings, seed)]


def measure(lab: Lab) -> Numbers:
    seeds = first_seeds(lab.settings["seeds"])
    rows = [
        {"seed": s, "points": [read(lab, t) for t in trainings(lab.settings, s)]} for s in seeds
    ]
    return {"networks": rows}


def read(lab: Lab, training: Training) -> Numbers:
    """Return the centred energies of a network and the R₀ predicted at them."""
    lab.tell(f"reading {training.describe()}")
    row: Numbers = {"decay": training.recipe.weight_decay, "accuracy": lab.run(training).accuracy}
    if not math.isfinite(lab.run(training).loss):
        return row
    with quietly():
        energies = lab.collapse(training).centred_energies
        found = {"weight_energy": energies.weight, "feature_energy": energies.feature}
        return {**row, **found, "threshold": find_threshold(*energies)}


def find_threshold(weight: float, feature: float) -> float | None:
    """Return R₀ for five of ten classes; None where there is none."""
    try:
        counts = [2.0] * MAJORITY + [1.0] * (CLASSES - MAJORITY)
        return ls.peel(counts, weight, feature).threshold
    except LawscopeError:
        return None


def trend(name: str) -> Any:
    """Return the rank correlation of a number with the weight decay, network by network."""

    def of(network: Numbers) -> float | None:
        points = [p for p in network["points"] if p.get(name) is not None]
        return rank_correlation([p["decay"] for p in points], [p[name] for p in points])

    return collect("networks", SHOWN[name], of)


def both(numbers: Numbers) -> dict[str, list[Any]]:
    return {**trend("weight_energy")(numbers), **trend("feature_energy")(numbers)}


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, len(SHOWN), "Energies against weight decay", (3.2, 2.7))
    columns = list(zip(*(network["points"] for network in numbers["networks"]), strict=True))
    decays = [rows[0]["decay"] for rows in columns]
    for axis, (name, words), color in zip(axes[0], SHOWN.items(), COLOURS, strict=False):
        draw_seeds(axis, decays, columns, name, color=color, label=words)
        plain_axis(axis, words, xscale="log", yscale="log")
    label_outside(axes, "weight decay", "")
    return drawing


STUDY = Study(
    title="The energies E_W and E_H against weight decay, and the R₀ they predict",
    source="Fang et al. 2021, remarks on the Layer-Peeled Model",
    paper="E_W and E_H depend on the weight decay",
    minutes={"smoke": 0.05, "cpu": 0.5, "paper": 0.5},
    settings=presets(PAPER, smoke=SMOKE),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "both energies fall as weight decay rises: rank correlation at most −0.9",
            "E_W and E_H depend on the weight decay λ",
            both,
            lambda correlation: bool(correlation <= -0.9),
        ),
    ),
    questions=(
        Question(
            "Does the predicted R₀ fall as weight decay rises, so that classes merge sooner (rank "
            "correlation)?",
            trend("threshold"),
            yes_or_no(lambda correlation: correlation < 0),
        ),
    ),
    figure=figure,
    departures={
        "cpu": "a feed-forward network on 100 images a class at 10×10",
        "paper": "a feed-forward network on 100 images a class at 10×10",
    },
)
