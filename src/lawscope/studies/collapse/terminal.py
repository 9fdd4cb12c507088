"""Neural collapse: all four measures fall towards zero as a classifier is trained on.

``lawscope study run collapse/terminal``: the four properties of neural collapse (Papyan et al.
2020, as Fang et al. 2021 list them) in the terminal phase of training. A 4-layer feed-forward
network on 100 images of each class of Fashion-MNIST at 10×10, momentum, lr 0.1, weight decay 5e-4,
measured after 0, 10, 20, 50, 100, 150, 200, 250, 300 and 350 epochs: 3 seeds, about 15 seconds on
one core. The paper's networks (VGG and ResNet on all of Fashion-MNIST and CIFAR-10) have the same
recipe; ``paper`` has a VGG11.

The documents: features collapse to their class means, centred class means to a simplex, classifiers
to class means up to scale, and the decision to the closest class mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lawscope.studies.collapse._networks import MLP, VGG11, data_of, training_of
from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import FITS, Settings, first_seeds, presets, quietly, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

if TYPE_CHECKING:
    from lawscope.laws.collapse.result import Collapse

MEASURES = {
    "nc1": "NC1: within over between classes, D/K",
    "nc2_norms": "NC2: spread of the norms of class means",
    "nc2_angles": "NC2: mean |cos + 1/(K−1)| of class means",
    "nc3": "NC3: distance of classifiers and class means",
    "nc4": "NC4: decisions that differ from the nearest mean",
}
PAPER: dict[str, Any] = {
    "dataset": "fashion-mnist",
    "network": VGG11,
    "checkpoints": [0, 10, 20, 50, 100, 150, 200, 250, 300, 350],
    "seeds": 1,
}
CPU = {
    "dataset": "fashion-mnist-10x10", "network": {**MLP, "samples": 100, "weight_decay": 5e-4},
    "seeds": 3,
}  # fmt: skip
SMOKE = {
    "dataset": "fashion-mnist-10x10", "network": {**MLP, "samples": 20, "epochs": 4},
    "checkpoints": [0, 1, 2, 3, 4],
}  # fmt: skip


def plan(settings: Settings) -> list[Training]:
    network = settings["network"]
    data = data_of(settings["dataset"], network, per_class=network["samples"])
    return [
        training_of(network, data, seed, checkpoints=tuple(settings["checkpoints"]))
        for seed in first_seeds(settings["seeds"])
    ]


def measure(lab: Lab) -> Numbers:
    networks = []
    for training in plan(lab.settings):
        lab.tell(f"measuring {training.describe()}")
        with quietly():
            history = [
                {"epoch": epoch, **numbers_of(lab.collapse(training, epoch=epoch))}
                for epoch in lab.settings["checkpoints"]
            ]
        accuracy = lab.run(training).accuracy
        networks.append({"seed": training.seed, "accuracy": accuracy, "history": history})
    return {"networks": networks}


def numbers_of(found: Collapse) -> Numbers:
    return {
        "nc1": found.nc1.papyan,
        "nc2_norms": found.nc2.means.equinorm,
        "nc2_angles": found.nc2.means.angle_error,
        "nc3": found.nc3,
        "nc4": found.nc4,
        "accuracy": found.accuracy,
        "verdict": found.verdict,
    }


def last_verdicts(numbers: Numbers) -> Numbers:
    verdicts = [
        n["history"][-1]["verdict"] if n["accuracy"] >= FITS else "does not fit"
        for n in numbers["networks"]
    ]
    return {"last epoch": verdicts}


def left(numbers: Numbers) -> Numbers:
    histories = [network["history"] for network in numbers["networks"]]
    return {
        name.replace("nc", "NC").replace("_", " "): [h[-1][name] / h[0][name] for h in histories]
        for name in MEASURES
    }


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, len(MEASURES), "Neural collapse during training", (2.7, 2.6))
    for axis, (name, words) in zip(axes[0], MEASURES.items(), strict=True):
        for network, color in zip(numbers["networks"], COLOURS, strict=False):
            epochs, values = zip(*((h["epoch"], h[name]) for h in network["history"]), strict=True)
            label = f"seed {network['seed']}"
            axis.plot(epochs, values, "o-", color=color, ms=3, lw=1, label=label)
        if name == "nc4":  # a share of samples, which reaches zero
            axis.set_yscale("symlog", linthresh=1e-3)
        else:
            axis.set_yscale("log")
        plain_axis(axis, words.replace(": ", "\n"))
        axis.title.set_fontsize(7)
        axis.tick_params(which="both", labelsize=7)
    axes[0][0].legend(fontsize=7, frameon=False)
    label_outside(axes, "epoch", "")
    return drawing


STUDY = Study(
    title="NC1 to NC4 fall as a classifier is trained on",
    source="Papyan et al. 2020; Fang et al. 2021, neural collapse",
    paper="all four fall to zero",
    minutes={"smoke": 0.03, "cpu": 0.3, "paper": 12_000},
    settings=presets(PAPER, CPU, SMOKE),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "all four measures fall to zero: the verdict on the last epoch is that neural collapse "
            "holds, of a network that fits its training set",
            "features, class means, classifiers and decisions collapse",
            last_verdicts,
            lambda verdict: bool(verdict == "holds"),
        ),
    ),
    questions=(
        Question(
            "Is less than a tenth left of each measure, of what it was before training?",
            left,
            yes_or_no(lambda share: share < 0.1),
        ),
    ),
    figure=figure,
    departures={
        "cpu": "a feed-forward network on 100 images a class at 10×10, and no training beyond 350 "
        "epochs",
        "paper": "5×5 filters in the VGG11, and Fashion-MNIST alone",
    },
)
