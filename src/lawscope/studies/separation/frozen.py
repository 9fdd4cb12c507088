"""A network trained in two frozen stages fits, but its line is less straight and it tests worse.

``lawscope study run separation/frozen``: figure 5 of He & Su 2023. 20-layer feed-forward networks
on CIFAR-10 (green channel, 10×10), trained as usual and in two stages: first the lower ten layers
alone, then the upper ten alone. Five learning rates and three seeds: 45 trainings of 600 epochs.
Both stages are of 600 epochs with the usual steps of the learning rate, and frozen layers keep
their weights; the authors' first stage has 900 epochs without steps, and their frozen layers still
shrink by weight decay.
"""

from __future__ import annotations

from dataclasses import replace
from operator import sub

from lawscope.studies.figures import law_grid
from lawscope.studies.panels import Settings, choice
from lawscope.studies.plan import Training
from lawscope.studies.separation import _family as family
from lawscope.studies.study import Claim, Figure, Numbers

NAMES = {"standard": "all layers at once", "frozen": "lower half, then upper half"}
SETTINGS = family.adam_presets(
    {"dataset": "cifar10", "depth": 20, "seeds": 3},
    smoke={"dataset": "fashion-mnist", "depth": 6, "rates": [1e-3]},
)


def standard(settings: Settings) -> list[Training]:
    return family.feedforward(settings, family.DATA[settings["dataset"]], depth=settings["depth"])


def frozen(settings: Settings) -> list[Training]:
    """Return the same networks with their lower half trained first and the upper half after it.

    Frozen layers keep their weights; their BatchNorm still follows the batches.
    """
    depth, half = settings["depth"], settings["depth"] // 2
    return [
        replace(each, start=replace(each, trained=(0, half)), trained=(half, depth))
        for each in standard(settings)
    ]


KINDS = {"standard": standard, "frozen": frozen}


def r_of_frozen(numbers: Numbers) -> dict[str, list[float | None]]:
    rows = numbers["frozen"]["chosen"]
    return {NAMES["frozen"]: [row["r"] if row["fits"] else None for row in rows]}


def accuracies(numbers: Numbers) -> dict[str, list[float]]:
    rows = {name: numbers[kind]["chosen"] for kind, name in NAMES.items()}
    return {name: [row["accuracy"] for row in each] for name, each in rows.items()}


def draw_before_after(numbers: Numbers, names: dict[str, str], title: str) -> Figure:
    """Draw two kinds of networks side by side with their test accuracy; further seeds faintly."""
    row = []
    for kind, name in names.items():
        first = numbers[kind]["chosen"][0]
        heading = f"{name}\nlr {first['lr']:g}, test accuracy {first['test_accuracy']:.1%}"
        row.append((heading, numbers[kind]["chosen"]))
    return law_grid([row], title)


STUDY = family.he_su_study(
    title="Two-stage frozen training fits, with a less straight line and worse tests",
    source="He & Su 2023, figure 5",
    paper="test 23.85 % against 19.67 %, r −0.997 against −0.971; both fit the training set",
    minutes={"smoke": 0.1, "cpu": 12, "paper": 12},
    settings=SETTINGS,
    plan=lambda settings: [*standard(settings), *frozen(settings)],
    measure=lambda lab: {kind: choice(lab, make(lab.settings)) for kind, make in KINDS.items()},
    claims=(
        Claim(
            "both kinds of training fit the training set: accuracy ≥ 0.99",
            "training accuracy 100 % for both, losses 0.0021 and 0.0019",
            accuracies,
            lambda accuracy: accuracy >= 0.99,
        ),
        Claim(
            "standard training is straighter: both fit, and r is lower than after frozen training",
            "r = −0.997 against −0.971",
            family.between("at once − frozen", "r", sub, *NAMES),
            lambda difference: difference < 0,
        ),
        Claim(
            "frozen training has no law: it fits, and r > −0.98",
            "r = −0.971; the law is manifesting in the left network but not in the right network",
            r_of_frozen,
            lambda r: r > -0.98,
        ),
        Claim(
            "standard training tests better: both fit, and test accuracy is higher than after "
            "frozen training",
            "23.85 % against 19.67 %; overview talk 21.46 % against 18.25 %",
            family.between("at once − frozen", "test_accuracy", sub, *NAMES),
            lambda difference: difference > 0,
        ),
    ),
    figure=lambda numbers: draw_before_after(numbers, NAMES, "Standard and frozen training"),
    departures=dict.fromkeys(
        ("cpu", "paper"),
        "a first stage of 600 epochs with steps of the rate instead of 900 without, and frozen "
        "layers that keep their weights",
    ),
)
