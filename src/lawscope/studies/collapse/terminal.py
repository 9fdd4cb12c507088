"""Neural collapse: all four measures fall towards zero as a classifier is trained on.

``lawscope study run collapse/terminal``: the four properties of neural collapse (Papyan et al.
2020, as Fang et al. 2021 list them) in the terminal phase of training, with the picture of features
and class means on their way to a simplex. A 4-layer feed-forward network on 100 images of each
class of Fashion-MNIST at 10×10 has the paper's recipe (momentum, lr 0.1, weight decay 5e-4) for six
times its 350 epochs, which is the cap: lawscope's own verdict must be that neural collapse holds at
its end, three seeds. ``paper`` has the paper's VGG11 on all of Fashion-MNIST for its 350 epochs.

The documents: features collapse to their class means, centred class means to a simplex, classifiers
to class means up to scale, and the decision to the closest class mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lawscope as ls
from lawscope.lazy import Tensor, torch
from lawscope.studies.collapse._networks import MLP, VGG11, data_of, training_of
from lawscope.studies.figures import COLOURS, plain_axis, wrapped
from lawscope.studies.panels import (
    FITS,
    Settings,
    collect,
    first_seeds,
    medians,
    presets,
    quietly,
    yes_or_no,
)
from lawscope.studies.plan import Training
from lawscope.studies.study import Axes, Claim, Figure, Lab, Numbers, Question, Study

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
    "dataset": "fashion-mnist-10x10", "network": {**MLP, "samples": 100, "epochs": 2100},
    "checkpoints": [0, 10, 30, 100, 350, 700, 750, 850, 1050, 1400, 1700, 2100], "seeds": 3,
}  # fmt: skip
SMOKE = {
    "dataset": "fashion-mnist-10x10", "network": {**MLP, "samples": 20, "epochs": 4},
    "checkpoints": [0, 1, 2, 3, 4],
}  # fmt: skip
# Three classes lie in a plane; so many samples of each are drawn, at so many checkpoints.
CORNERS, SHOWN, PICTURES = 3, 40, 4


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
    first, *_ = plan(lab.settings)
    return {"networks": networks, "picture": draw_from(lab, first)}


def draw_from(lab: Lab, training: Training) -> Numbers:
    """Return features, class means and classifiers of three classes in the plane, over training.

    The plane is that of the three class means; coordinates are over the mean distance of the class
    means from their centre, classifiers are brought to that distance.
    """
    run = lab.run(training)
    x, y = run.samples.x, run.samples.y
    few = torch.cat([torch.nonzero(y == k).flatten() for k in range(CORNERS)])
    # Evenly over the checkpoints, the first and the last among them.
    kept = sorted(training.kept)
    epochs = sorted({kept[i * (len(kept) - 1) // (PICTURES - 1)] for i in range(PICTURES)})
    pictures = []
    for epoch in epochs:
        layers: list[Any] = list(run.network(epoch).children())
        with torch.no_grad():
            features = torch.nn.Sequential(*layers[:-1])(x[few]).double()
        weights = layers[-1].weight.double()
        pictures.append({"epoch": epoch, **in_plane(features, y[few], weights)})
    return {"names": list(run.samples.class_names[:CORNERS]), "epochs": pictures}


def in_plane(features: Tensor, labels: Tensor, weights: Tensor) -> Numbers:
    """Return coordinates in the plane of three class means; weights are (K, d)."""
    means = torch.stack([features[labels == k].mean(dim=0) for k in range(CORNERS)])
    centre = means.mean(dim=0)
    axes = torch.linalg.svd(means - centre, full_matrices=False)[2][:2]
    corners = (means - centre) @ axes.T
    size = corners.norm(dim=1).mean()
    heads = (weights[:CORNERS] - weights[:CORNERS].mean(dim=0)).detach() @ axes.T
    shown = torch.cat([torch.nonzero(labels == k).flatten()[:SHOWN] for k in range(CORNERS)])
    return {
        "points": ((features[shown] - centre) @ axes.T / size).tolist(),
        "labels": labels[shown].tolist(),
        "means": (corners / size).tolist(),
        "classifiers": (heads / heads.norm(dim=1).mean()).tolist(),
    }


def first_collapse(network: Numbers) -> int | None:
    """Return the first checkpoint at which the verdict is that neural collapse holds."""
    return next((h["epoch"] for h in network["history"] if h["verdict"] == "holds"), None)


def numbers_of(found: ls.Collapse) -> Numbers:
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
    pictures = numbers.get("picture", {"epochs": []})
    count, title = len(MEASURES) + len(pictures["epochs"]), "Neural collapse during training"
    drawing, _, places = wrapped(count, title)
    above, below = places[: len(MEASURES)], places[len(MEASURES) :]
    for axis, picture in zip(below, pictures["epochs"], strict=True):
        draw_plane(axis, picture, pictures["names"])
    for axis, (name, words) in zip(above, MEASURES.items(), strict=True):
        for network, color in zip(numbers["networks"], COLOURS, strict=False):
            epochs, values = zip(*((h["epoch"], h[name]) for h in network["history"]), strict=True)
            label = f"seed {network['seed']}"
            axis.plot(epochs, values, "o-", color=color, ms=3, lw=1, label=label)
        if name == "nc4":  # a share of samples, which reaches zero
            axis.set_yscale("symlog", linthresh=1e-3)
        else:
            axis.set_yscale("log")
        plain_axis(axis, words.replace(": ", "\n"))
        axis.title.set_fontsize(8)
        axis.tick_params(which="both", labelsize=7)
        axis.set_xlabel("epoch", fontsize=8.5)
    above[0].legend(fontsize=7, frameon=False)
    return drawing


def draw_plane(axis: Axes, picture: Numbers, names: Sequence[str]) -> None:
    """Draw samples as points, class means as circles on rays, classifiers as arrows."""
    for k, (name, color) in enumerate(zip(names, COLOURS, strict=False)):
        own = [
            p for p, label in zip(picture["points"], picture["labels"], strict=True) if label == k
        ]
        x, y = zip(*own, strict=True)
        axis.plot(x, y, ".", color=color, ms=2.5, alpha=0.5)
        (mx, my), (wx, wy) = picture["means"][k], picture["classifiers"][k]
        axis.plot([0, mx], [0, my], "-", color=color, lw=1)
        axis.plot(mx, my, "o", color=color, ms=6, mec="white", label=name)
        look = {"arrowstyle": "-|>", "color": color, "lw": 1.6, "alpha": 0.6}
        axis.annotate("", (wx, wy), (0, 0), arrowprops=look)
    plain_axis(axis, f"epoch {picture['epoch']}", aspect="equal")
    axis.tick_params(labelbottom=False, labelleft=False)
    if picture["epoch"] == 0:
        axis.legend(fontsize=6, frameon=False)


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
            "From which checkpoint on does neural collapse hold?",
            collect("networks", "epoch", first_collapse),
            medians,
        ),
        Question(
            "Is less than a tenth left of each measure, of what it was before training?",
            left,
            yes_or_no(lambda share: share < 0.1),
        ),
    ),
    figure=figure,
    departures={
        "cpu": "a feed-forward network on 100 images a class at 10×10, with a cap of 2100 epochs",
        "paper": "no training beyond 350 epochs",
    },
)
