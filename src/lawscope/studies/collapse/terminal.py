"""Neural collapse: all four measures fall as a classifier is trained on.

``lawscope study run collapse/terminal``: the four properties of neural collapse (001; 000, part I)
in the terminal phase of training. A 4-layer feed-forward network on 100 images of each class of
Fashion-MNIST at 10×10, momentum, lr 0.1, weight decay 5e-4, measured after 0, 10, 20, 50, 100, 150,
200, 250, 300 and 350 epochs: 3 seeds, about 15 seconds on one core. The paper's networks (VGG and
ResNet on all of Fashion-MNIST and CIFAR-10) have the same recipe; ``paper`` has a VGG11.

The documents: features shrink to their class means, centred class means become a simplex,
classifiers align with them, and the decision becomes that of the nearest class mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.choice import every, quietly, rank_correlation
from lawscope.studies.collapse._networks import (
    EMBEDDED,
    MLP,
    PAPER_NETWORKS,
    WHOLE,
    data_of,
    training_of,
)
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.laws.collapse_result import Collapse
    from lawscope.studies.lab import Lab

MEASURES = {
    "nc1": "NC1: within over between classes, D/K",
    "nc2_norms": "NC2: spread of the norms of class means",
    "nc2_angles": "NC2: mean |cos + 1/(K−1)| of class means",
    "nc3": "NC3: distance of classifiers and class means",
    "nc4": "NC4: decisions that differ from the nearest mean",
}
PAPER: dict[str, Any] = {
    "dataset": WHOLE,
    "network": PAPER_NETWORKS["VGG11"],
    "checkpoints": [0, 10, 20, 50, 100, 150, 200, 250, 300, 350],
    "seeds": 1,
}
CPU = {
    **PAPER,
    "dataset": EMBEDDED,
    "network": {**MLP, "samples": 100, "weight_decay": 5e-4, "epochs": 350},
    "seeds": 3,
}
SMOKE = {
    **CPU,
    "network": {**MLP, "samples": 20, "epochs": 4},
    "checkpoints": [0, 1, 2, 3, 4],
    "seeds": 1,
}
FALLS = -0.8
FITTED = 0.99


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """One training per seed, kept at the checkpoints."""
    network = settings["network"]
    data = data_of(settings["dataset"], network, per_class=network["samples"])
    return [
        training_of(network, data, seed, checkpoints=tuple(settings["checkpoints"]))
        for seed in range(settings["seeds"])
    ]


def measure(lab: Lab) -> Numbers:
    """The measures at every checkpoint of every network."""
    networks = []
    for training in plan(lab.settings):
        lab.tell(f"measuring {training.describe()}")
        with quietly():
            history = [
                {"epoch": epoch, **numbers_of(lab.collapse(training, epoch=epoch))}
                for epoch in lab.settings["checkpoints"]
            ]
        networks.append(
            {"seed": training.seed, "accuracy": lab.run(training).accuracy, "history": history}
        )
    return {"networks": networks}


def numbers_of(found: Collapse) -> Numbers:
    """The five measures of one network; accuracy is on training data."""
    return {
        "nc1": found.nc1.papyan,
        "nc2_norms": found.nc2.means.equinorm,
        "nc2_angles": found.nc2.means.angle_error,
        "nc3": found.nc3,
        "nc4": found.nc4,
        "accuracy": found.accuracy,
        "verdict": found.verdict,
    }


def trend(name: str) -> Any:
    """Rank correlation of a measure with the epoch, seed by seed."""
    return lambda numbers: [
        rank_correlation([h["epoch"] for h in n["history"]], [h[name] for h in n["history"]])
        for n in numbers["networks"]
    ]


CLAIMS = (
    Claim(
        "every network fits its training set: accuracy ≥ 0.99",
        "the terminal phase of training",
        lambda numbers: [network["accuracy"] for network in numbers["networks"]],
        every(lambda accuracy: accuracy >= FITTED),
    ),
    *(
        Claim(
            f"{words} falls: rank correlation with the epoch at most −0.8, every seed",
            paper,
            trend(name),
            every(lambda r: r <= FALLS),
        )
        for (name, words), paper in zip(
            MEASURES.items(),
            (
                "features collapse to their class means",
                "class means become a simplex ETF",
                "class means become a simplex ETF",
                "classifiers collapse to class means, up to scale",
                "the decision collapses to the closest class mean",
            ),
            strict=True,
        )
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Each measure over the epochs, one line per seed."""
    drawing, axes = grid(1, len(MEASURES), "Neural collapse during training", (2.7, 2.6))
    for axis, (name, words) in zip(axes[0], MEASURES.items(), strict=True):
        for network, color in zip(numbers["networks"], COLOURS, strict=False):
            history = network["history"]
            epochs, values = [h["epoch"] for h in history], [h[name] for h in history]
            label = f"seed {network['seed']}"
            axis.plot(epochs, values, "o-", color=color, ms=3, lw=1, label=label)
        axis.set_yscale("symlog" if name == "nc4" else "log", **_linear(name))
        kind, _, rest = words.partition(": ")
        plain_axis(axis, f"{kind}\n{rest}")
        axis.title.set_fontsize(7)
        axis.tick_params(which="both", labelsize=7)
    axes[0][0].legend(fontsize=7, frameon=False)
    label_outside(axes, "epoch", "")
    return drawing


def _linear(name: str) -> dict[str, float]:
    """NC4 is a share of samples that reaches zero."""
    return {"linthresh": 1e-3} if name == "nc4" else {}


STUDY = Study(
    title="NC1 to NC4 fall as a classifier is trained on",
    source="001, neural collapse; 000, part I",
    paper="all four fall",
    minutes={"smoke": 0.03, "cpu": 0.3, "paper": 12_000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
