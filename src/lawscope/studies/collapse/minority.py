"""Minority classifiers of trained networks merge as the imbalance grows, as the model predicts.

``lawscope study run collapse/minority``: "minority collapse in experiments" and "LPM predictions
match experiments" (001). Networks are trained on Fashion-MNIST with K_A = 3, 5, 7 majority classes,
R times as large as the others. Beside the cosine between minority classifiers stands what the
Layer-Peeled Model predicts for the class sizes, at the energies E_W and E_H of the same network.

The paper (its authors' code): VGG11 and ResNet18, 6000 images of a majority class, momentum, lr
0.1 divided by ten twice, weight decay 5e-4, batches of 128, 350 epochs, R up to 1000. ``paper``
has the zoo's VGG11, with 5×5 filters, and its residual network with 64 channels. ``cpu`` has fewer
images of 10×10. Feed-forward networks of 4 layers have the paper's recipe, 500 images of a majority
class (R = 500 leaves one of a minority class), 3 seeds, weight decay 5e-3 and, for K_A = 5, 5e-4.
With K_A = 5, weight decay 5e-3, 200 images of a majority class and one seed: a VGG11 with 4 first
filters on images blown up to 32×32 (lr 0.03, batches of 32, 40 epochs) and a residual network of
four blocks with 8 channels (lr 0.01, batches of 64, 60 epochs). 50 trainings, 15 minutes on one
core.

The settings were chosen after trials with K_A = 5: weight decay 5e-4 did not collapse at R = 500,
so 5e-3 was added; with 100 instead of 350 epochs the cosine at R = 100 and 5e-4 was 0.39 instead of
0.16, because unfinished training looks like collapse; with fewer or larger steps the two
convolutional networks fitted 84 % to 91 % of their training set.

The paper: cosines rise to 1 with R and follow the prediction; minority predictions become random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, SOFT, grid, label_outside, plain_axis
from lawscope.studies.choice import every, rank_correlation
from lawscope.studies.collapse._figures import draw_seeds, legend_below
from lawscope.studies.collapse._imbalanced import CLASSES, Cell, readings, trainings_of
from lawscope.studies.collapse._networks import (
    MLP,
    NARROW_VGG,
    PAPER_NETWORKS,
    PAPER_SETTING,
    SETTING,
    SMALL_RESNET,
)
from lawscope.studies.collapse._over_seeds import mean
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    **PAPER_SETTING,
    "networks": PAPER_NETWORKS,
    "majorities": {name: [3, 5, 7] for name in PAPER_NETWORKS},
    "ratios": {name: [1, 10, 100, 1000] for name in PAPER_NETWORKS},
}
CPU = {
    **SETTING,
    "networks": {
        "MLP": MLP,
        "MLP, weight decay 5e-4": {**MLP, "weight_decay": 5e-4},
        "VGG11, narrow": NARROW_VGG,
        "ResNet, small": SMALL_RESNET,
    },
    "majorities": {
        "MLP": [3, 5, 7],
        "MLP, weight decay 5e-4": [5],
        "VGG11, narrow": [5],
        "ResNet, small": [5],
    },
    "ratios": {
        "MLP": [1, 10, 100, 500],
        "MLP, weight decay 5e-4": [1, 10, 100, 500],
        "VGG11, narrow": [1, 10, 50, 200],
        "ResNet, small": [1, 10, 50, 200],
    },
}
SMOKE = {
    **SETTING,
    "networks": {
        "MLP": {**MLP, "samples": 40, "epochs": 20},
        "ResNet, small": {
            **SMALL_RESNET,
            "options": {"blocks": [2], "size": 10},
            "samples": 40,
            "epochs": 1,
        },
    },
    "majorities": {"MLP": [3, 5], "ResNet, small": [5]},
    "ratios": {"MLP": [1, 10, 40], "ResNet, small": [1, 10, 40]},
}
RISES, FOLLOWS, NEAR, COLLAPSED = 0.9, 0.8, 0.1, 0.95


def cells_of(settings: Mapping[str, Any], network: str, majority: int) -> list[Cell]:
    """The cells of one panel, one for each R."""
    return [Cell(network, majority, ratio) for ratio in settings["ratios"][network]]


def panels_of(settings: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Network and K_A of every panel."""
    return [(name, K_A) for name in settings["networks"] for K_A in settings["majorities"][name]]


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All cells of all panels; equal classes are trained once for every K_A."""
    return [
        training
        for panel in panels_of(settings)
        for cell in cells_of(settings, *panel)
        for training in trainings_of(settings, cell)
    ]


def measure(lab: Lab) -> Numbers:
    """Every network, by panel and R."""
    panels = [
        {
            "network": network,
            "majority": majority,
            "points": [
                {"ratio": cell.ratio, "networks": readings(lab, cell)}
                for cell in cells_of(lab.settings, network, majority)
            ],
        }
        for network, majority in panels_of(lab.settings)
    ]
    return {"panels": panels}


def along(panel: Numbers, name: str) -> list[float]:
    """The mean over seeds at each R."""
    return [mean(point["networks"], name) for point in panel["points"]]


def rise(numbers: Numbers) -> list[float]:
    """Rank correlation of the cosine with R, panel by panel."""
    return [
        rank_correlation([p["ratio"] for p in panel["points"]], along(panel, "cosine"))
        for panel in numbers["panels"]
    ]


def beside(panel: Numbers) -> tuple[list[float], list[float]]:
    """Cosines and predictions at each R, without those where predicted classifiers vanish."""
    points = [
        point["networks"]
        for point in panel["points"]
        if all(row["predicted"] is not None for row in point["networks"])
    ]
    cosines, predictions = (
        [mean(rows, name) for rows in points] for name in ("cosine", "predicted")
    )
    return cosines, predictions


def agreement(numbers: Numbers) -> list[float]:
    """Rank correlation of the cosine with its prediction over R, panel by panel."""
    return [rank_correlation(*beside(panel)) for panel in numbers["panels"]]


def distance(numbers: Numbers) -> list[float]:
    """Mean over R of |cosine − prediction|, panel by panel."""
    found = []
    for panel in numbers["panels"]:
        differences = [abs(a - b) for a, b in zip(*beside(panel), strict=True)]
        found.append(sum(differences) / len(differences))
    return found


def at_the_largest(name: str) -> Any:
    """One number at the largest R, panel by panel."""
    return lambda numbers: [along(panel, name)[-1] for panel in numbers["panels"]]


def kept_accuracy(numbers: Numbers) -> list[float]:
    """Minority test accuracy at the largest R over that at the smallest, panel by panel."""
    ends = [along(panel, "minority_accuracy") for panel in numbers["panels"]]
    return [last / first for first, *_, last in ends]


CLAIMS = (
    Claim(
        "the cosine between minority classifiers rises with R: rank correlation at least 0.9 in "
        "every panel",
        "it rises with R",
        rise,
        every(lambda r: r >= RISES),
    ),
    Claim(
        "at the largest R minority classifiers have merged: cosine at least 0.95 in every panel",
        "1: minority collapse",
        at_the_largest("cosine"),
        every(lambda cosine: cosine >= COLLAPSED),
    ),
    Claim(
        "networks follow the prediction at their own E_W and E_H: rank correlation over R at "
        "least 0.8 in every panel",
        "LPM predictions match experiments",
        agreement,
        every(lambda r: r >= FOLLOWS),
    ),
    Claim(
        "the prediction is near: |cosine − prediction| at most 0.1, mean over R, in every panel",
        "LPM predictions match experiments",
        distance,
        every(lambda difference: difference <= NEAR),
    ),
    Claim(
        "minority test accuracy at the largest R is at most half of that for equal classes, in "
        "every panel (ratios)",
        "minority accuracy falls",
        kept_accuracy,
        every(lambda ratio: ratio <= 0.5),
    ),
    Claim(
        "minority test accuracy at the largest R is at most 1/K, chance, in every panel",
        "5.5 % to 34.3 % at R = 1000; completely at random as R → ∞",
        at_the_largest("minority_accuracy"),
        every(lambda accuracy: accuracy <= 1 / CLASSES),
    ),
)


DRAWN = {
    "cosine": ("o", COLOURS[0], "trained networks"),
    "predicted": ("D", COLOURS[1], "Layer-Peeled Model at their E_W, E_H"),
    "minority_accuracy": ("s", SOFT, "minority test accuracy"),
}


def figure(numbers: Numbers) -> Figure:
    """Measured cosines against R, the prediction over them, one panel per network and K_A."""
    count = len(numbers["panels"])
    columns = min(3, count)
    drawing, axes = grid(
        -(-count // columns), columns, "Minority classifiers of trained networks", (3.2, 2.7)
    )
    places = [axis for row in axes for axis in row]
    for axis, panel in zip(places, numbers["panels"], strict=False):
        ratios = [point["ratio"] for point in panel["points"]]
        cells = [point["networks"] for point in panel["points"]]
        for name, (style, color, label) in DRAWN.items():
            draw_seeds(axis, ratios, cells, name, color=color, label=label, style=style)
        axis.set_xscale("log")
        axis.set_ylim(-0.2, 1.05)
        plain_axis(axis, f"{panel['network']}, K_A = {panel['majority']}")
    legend_below(drawing, places, count)
    label_outside(axes, "imbalance ratio R", "cosine, accuracy")
    return drawing


STUDY = Study(
    title="Trained networks merge their minority classifiers as R grows, as predicted",
    source="001, minority collapse in experiments; LPM predictions match experiments",
    paper="cosines rise to 1 with R and match the prediction; minority predictions are random",
    minutes={"smoke": 0.1, "cpu": 8, "paper": 130_000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
