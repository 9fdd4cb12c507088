"""Bottom layers settle before top layers.

``lawscope study run separation/layer-rates``: figure 10 of 003. The ratio D_{l+1}/D_l of every
layer of 8-layer feed-forward networks on CIFAR-10 (green channel, 10×10) over the epochs of a
training with Adam. Three learning rates and three seeds: 9 trainings of 600 epochs.

The paper: the relative improvement of bottom layers converges earlier than that of top layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import colours, grid, plain_axis
from lawscope.studies.choice import RATES, rank_correlation, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._along_training import along
from lawscope.studies.separation._notes import corner, told
from lawscope.studies.separation.datasets import DATA
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "dataset": "cifar10",
    "depth": 8,
    "checkpoints": [0, 2, 5, *range(10, 60, 10), *range(60, 300, 20), *range(300, 601, 50)],
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 1,
}
CPU = {**PAPER, "rates": [3e-4, 1e-3, 3e-3], "seeds": 3}
SMOKE = {
    **PAPER,
    "dataset": "fashion-mnist",
    "depth": 5,
    "checkpoints": [0, 1, 2, 3, 4],
    "rates": [1e-3],
    "epochs": 4,
}
TOLERANCE = 0.1
# One-sided 5 % point of Spearman's correlation for the seven hidden layers of eight.
BAR = 0.714


def candidates(settings: Mapping[str, Any]) -> list[Training]:
    """One network for each learning rate and seed, kept at the checkpoints."""
    training = Training(
        Network.of("feedforward", depth=settings["depth"]),
        Recipe(epochs=settings["epochs"]),
        DATA[settings["dataset"]],
        checkpoints=tuple(settings["checkpoints"]),
    )
    return sweep(training, settings["rates"], settings["seeds"])


def measure(lab: Lab) -> Numbers:
    """D at every checkpoint of the chosen networks, and when each layer settled."""
    networks = [
        {
            "seed": network["seed"],
            "lr": network["lr"],
            "epochs": [h["epoch"] for h in network["history"]],
            "ratios": ratios([h["D"] for h in network["history"]]),
        }
        for network in along(lab, candidates(lab.settings))
    ]
    for network in networks:
        network["settled"] = [settled(network["epochs"], layer) for layer in network["ratios"]]
    return {"networks": networks}


def ratios(curves: Sequence[Sequence[float]]) -> list[list[float]]:
    """D_{l+1}/D_l over the checkpoints, one list per layer.

    Example:
        >>> ratios([[8.0, 4.0, 4.0], [8.0, 2.0, 1.0]])
        [[0.5, 0.25], [1.0, 0.5]]
    """
    steps = [[b / a for a, b in pairwise(D)] for D in curves]
    return [list(layer) for layer in zip(*steps, strict=True)]


def settled(epochs: Sequence[int], layer: Sequence[float]) -> int:
    """The first checkpoint from which on the ratio stays within 10 % of its last value.

    Example:
        >>> settled([0, 5, 10, 20], [1.0, 0.52, 0.7, 0.5])
        20
    """
    end = math.log(layer[-1])
    away = [abs(math.log(ratio) - end) > TOLERANCE for ratio in layer]
    first = len(away) - away[::-1].index(True) if any(away) else 0
    return epochs[first]


def mean_settled(numbers: Numbers) -> list[float]:
    """The settling epoch of every layer, mean over seeds."""
    times = zip(*(network["settled"] for network in numbers["networks"]), strict=True)
    return [sum(layer) / len(layer) for layer in times]


def order(numbers: Numbers) -> float:
    """Rank correlation of layer index and mean settling epoch."""
    times = mean_settled(numbers)
    return rank_correlation(range(len(times)), times)


def halves(numbers: Numbers) -> list[float]:
    """Mean settling epoch of the lower three layers, and of the upper three."""
    times = mean_settled(numbers)
    return [sum(part) / 3 for part in (times[:3], times[-3:])]


CLAIMS = (
    Claim(
        f"higher layers settle later: rank correlation with the layer index at least {BAR}",
        "the relative improvement of bottom layers converges earlier than that of top layers",
        order,
        lambda correlation: correlation >= BAR,
    ),
    Claim(
        "the lower three layers settle before the upper three, mean over layers and seeds",
        "bottom layers converge earlier",
        halves,
        lambda times: times[0] < times[1],
    ),
)


def figure(numbers: Numbers) -> Figure:
    """The ratio of every layer over epochs for the first seed, and when each settled, for all."""
    drawing, ((left, right),) = grid(1, 2, "How fast each layer learns to separate", (4.2, 3.2))
    first = numbers["networks"][0]
    shades = colours(len(first["ratios"]), graded=True)
    for index, (layer, color) in enumerate(zip(first["ratios"], shades, strict=True), 1):
        left.plot(first["epochs"], layer, "-", color=color, lw=1.2, label=f"layer {index}")
    left.set_xlabel("epoch", fontsize=8.5)
    left.set_ylabel("D of the layer / D before it", fontsize=8.5)
    left.legend(fontsize=6.5, frameon=False, ncols=2)
    plain_axis(left, f"lr {first['lr']:g}, seed {first['seed']}")
    layers = range(1, len(first["ratios"]) + 1)
    for network in numbers["networks"]:
        right.plot(layers, network["settled"], "o", color="grey", ms=3, alpha=0.6)
    right.plot(layers, mean_settled(numbers), "o-", color=shades[0], label="mean over seeds")
    right.set_xlabel("layer index", fontsize=8.5)
    right.set_ylabel("settled from epoch", fontsize=8.5)
    right.legend(fontsize=7, frameon=False)
    plain_axis(right, f"within {TOLERANCE:.0%} of the last value for good")
    corner(right, told("rank correlation", CLAIMS[0], numbers))
    return drawing


STUDY = Study(
    title="Bottom layers settle before top layers",
    source="003, figure 10",
    paper="the relative improvement of bottom layers converges earlier",
    minutes={"smoke": 0.1, "cpu": 2.5, "paper": 2.5},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=candidates,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
