"""Minority classifiers of trained networks merge as the imbalance grows, as the model predicts.

``lawscope study run collapse/minority``: "Minority Collapse in experiments" and "LPM predictions
match experiments" (Fang et al. 2021). Networks are trained on Fashion-MNIST with K_A = 3, 5, 7
majority classes, R times as large as the others. Beside the cosine between minority classifiers
stands what the Layer-Peeled Model predicts for the class sizes, at the energies E_W and E_H of the
same network, centred as the authors' script has them.

The paper: VGG11 and ResNet18 on Fashion-MNIST, VGG13 and ResNet18 on CIFAR-10, 6000 (5000) images
of a majority class, momentum, lr 0.1 divided by ten twice, weight decay 5e-4, batches of 128, 350
epochs, R up to 1000: the preset ``paper``. ``cpu`` has feed-forward networks of 4 layers with the
paper's data at 10×10 and its recipe, 3 seeds; and, with K_A = 5, 500 images of a majority class,
60 epochs and one seed, a VGG11 and a ResNet18 with 8 instead of 64 first filters on CIFAR-10.
All of Fashion-MNIST and CIFAR-10 must be on this machine.
"""

from __future__ import annotations

from typing import Any

from lawscope.studies import figures
from lawscope.studies.collapse import _networks as networks
from lawscope.studies.collapse._networks import LABEL, MLP, Cell, change_along, seeds_of
from lawscope.studies.panels import Settings, collect, medians, presets
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question, Study

NETWORKS = {
    **networks.PAPER["networks"],
    "VGG13, CIFAR-10": networks.VGG13_CIFAR,
    "ResNet18, CIFAR-10": networks.RESNET18_CIFAR,
}
WHOLE, PART = [1, 10, 100, 1000], [1, 10, 100, 500]
PAPER: dict[str, Any] = {
    **networks.PAPER,
    "networks": NETWORKS,
    "majorities": [3, 5, 7],
    "ratios": dict.fromkeys(NETWORKS, WHOLE),
}
VGG, RESNET = "narrow VGG11, CIFAR-10", "narrow ResNet18, CIFAR-10"
CPU = {
    **networks.CPU,
    "networks": {"MLP": MLP, VGG: networks.NARROW_VGG, RESNET: networks.NARROW_RESNET},
    "majorities": {"MLP": [3, 5, 7], VGG: [5], RESNET: [5]},
    "ratios": {"MLP": WHOLE, VGG: PART, RESNET: PART},
}
TINY = {**networks.RESNET18, "options": {"width": 1}, "pixels": 10, "samples": 40, "epochs": 1}
SMOKE = {
    **networks.SMOKE,
    "networks": {"MLP": {**MLP, "samples": 40, "epochs": 20}, RESNET: TINY},
    "majorities": {"MLP": [3, 5], RESNET: [5]},
    "ratios": {"MLP": [1, 10, 40], RESNET: [1, 10, 40]},
}
MERGED = 0.95
DRAWN = {
    "cosine": ("o", figures.COLOURS[0], "trained networks"),
    "predicted_centred": ("D", figures.COLOURS[1], "Layer-Peeled Model at their centred E_W, E_H"),
    "minority_accuracy": ("s", figures.SOFT, "minority test accuracy"),
}


def cells_of(settings: Settings, network: str, majority: int) -> list[Cell]:
    return [Cell(network, majority, ratio) for ratio in settings["ratios"][network]]


def measure(lab: Lab) -> Numbers:
    return {"panels": networks.read_panels(lab, cells_of, "ratio")}


def beside(panel: Numbers) -> list[list[tuple[float, float]]]:
    """Cosine and prediction over R, seed by seed, where predicted classifiers have not vanished."""
    seeds = zip(*(point["networks"] for point in panel["points"]), strict=True)
    pairs = ([(row.get("cosine"), row.get("predicted_centred")) for row in s] for s in seeds)
    return [[pair for pair in along if None not in pair] for along in pairs]


def disagreements(panel: Numbers) -> list[int | None]:
    """At how many R one of network and model has merged and the other has not."""
    seeds = beside(panel)
    return [sum((a >= MERGED) != (b >= MERGED) for a, b in s) if s else None for s in seeds]


def mistaken(numbers: Numbers) -> dict[str, list[Any]]:
    """Return these counts by panel; where nothing ever merges they say nothing."""
    pairs = [pair for panel in numbers["panels"] for seed in beside(panel) for pair in seed]
    if not any(max(pair) >= MERGED for pair in pairs):
        raise NotTried("neither in a network nor in the model do classifiers merge")
    return collect("panels", LABEL, disagreements)(numbers)


def distances(panel: Numbers) -> list[float | None]:
    """Mean over R of |cosine − prediction|."""
    return [sum(abs(a - b) for a, b in s) / len(s) if s else None for s in beside(panel)]


def figure(numbers: Numbers) -> Figure:
    panels, title = numbers["panels"], "Minority classifiers of trained networks"
    drawing, axes, places = figures.wrapped(len(panels), title, (3.2, 2.7))
    for axis, panel in zip(places, panels, strict=True):
        ratios = [point["ratio"] for point in panel["points"]]
        cells = [point["networks"] for point in panel["points"]]
        for name, (style, color, words) in DRAWN.items():
            figures.draw_seeds(axis, ratios, cells, name, color=color, label=words, style=style)
        figures.plain_axis(axis, LABEL.format(**panel), xscale="log", ylim=(-0.2, 1.05))
    figures.legend_below(drawing)
    figures.label_outside(axes, "imbalance ratio R", "cosine, accuracy")
    return drawing


STUDY = Study(
    title="Minority classifiers of trained networks against R, beside the prediction",
    source="Fang et al. 2021, Minority Collapse in experiments; LPM predictions match experiments",
    paper="cosines rise to 1 with R and match the prediction; minority accuracy 5.5 % to 34.3 %",
    minutes={"smoke": 0.1, "cpu": 30, "paper": 130_000},
    settings=presets(PAPER, CPU, SMOKE),
    plan=networks.plan_of(cells_of),
    measure=measure,
    claims=(
        Claim(
            "the angle between minority classifiers becomes smaller: their cosine is larger at the "
            "largest R than for equal classes",
            "the angle becomes smaller as R increases",
            collect("panels", LABEL, change_along("cosine")),
            lambda difference: bool(difference > 0),
            "Minority Collapse in experiments",
        ),
        Claim(
            "classifiers merge (cosine at least 0.95) where the model at the network's own centred "
            "energies says so, and nowhere else: number of R at which the two differ",
            "LPM predictions match experiments",
            mistaken,
            lambda count: bool(count == 0),
            "LPM predictions match experiments",
        ),
        Claim(
            "minority test accuracy is lower at the largest R than for equal classes",
            "5.5 % to 34.3 % at R = 1000",
            collect("panels", LABEL, change_along("minority_accuracy")),
            lambda difference: bool(difference < 0),
            "Test performance (table)",
        ),
    ),
    questions=(
        Question(
            "How far is the cosine from the prediction? (difference, mean over R)",
            collect("panels", LABEL, distances),
            medians,
        ),
        Question(
            "What minority test accuracy is left at the largest R (in the paper 0.055 to 0.343)?",
            collect("panels", LABEL, lambda p: seeds_of(p["points"][-1], "minority_accuracy")),
            medians,
        ),
    ),
    figure=figure,
    departures={
        "cpu": "feed-forward networks at 10×10, and narrow convolutional ones on 500 images a "
        "class for 60 of 350 epochs"
    },
)
