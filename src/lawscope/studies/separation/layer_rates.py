"""Bottom layers converge before top layers.

``lawscope study run separation/layer-rates``: figure 10 of He & Su 2023. The ratio D_{l+1}/D_l of
every layer of 8-layer feed-forward networks on CIFAR-10 (green channel, 10×10) over the epochs of a
training with Adam. At ``cpu`` three learning rates and three seeds: 9 trainings
of 600 epochs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from lawscope.studies.figures import colours, corner, grid, label_outside, note, plain_axis
from lawscope.studies.panels import Settings, collect
from lawscope.studies.plan import Training
from lawscope.studies.separation import _family as family
from lawscope.studies.separation.emergence import along
from lawscope.studies.study import Claim, Figure, Lab, Numbers

SMALL: dict[str, Any] = {"dataset": "fashion-mnist", "depth": 5, "rates": [1e-3]}
TOLERANCE = 0.1
# One-sided 5 % point of Spearman's correlation for the seven hidden layers of eight.
BAR = 0.714


def candidates(settings: Settings) -> list[Training]:
    data, checkpoints = family.DATA[settings["dataset"]], settings["checkpoints"]
    return family.feedforward(settings, data, checkpoints, depth=settings["depth"])


def measure(lab: Lab) -> Numbers:
    def rates(network: Numbers) -> Numbers:
        epochs = [h["epoch"] for h in network["history"]]
        layers = ratios([h["D"] for h in network["history"]])
        settled = [find_convergence(epochs, layer) for layer in layers]
        kept = {"seed": network["seed"], "lr": network["lr"]}
        return {**kept, "epochs": epochs, "ratios": layers, "settled": settled}

    return {"networks": [rates(network) for network in along(lab, candidates(lab.settings))]}


def ratios(curves: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return D_{l+1}/D_l over the checkpoints, one list per layer."""
    steps = [[b / a for a, b in pairwise(D)] for D in curves]
    return [list(layer) for layer in zip(*steps, strict=True)]


def find_convergence(epochs: Sequence[int], layer: Sequence[float]) -> int:
    """Return the first checkpoint from which on the ratio stays within 10 % of its last value."""
    end = math.log(layer[-1])
    away = [abs(math.log(ratio) - end) > TOLERANCE for ratio in layer]
    first = len(away) - away[::-1].index(True) if any(away) else 0
    return epochs[first]


def delay(network: Numbers) -> float:
    return float(sum(network["settled"][-3:]) - sum(network["settled"][:3])) / 3


def figure(numbers: Numbers) -> Figure:
    """Draw the ratio of every layer over epochs for the first seed, and when each converged."""
    drawing, ((left, right),) = grid(1, 2, "How fast each layer learns to separate", (4.2, 3.2))
    first = numbers["networks"][0]
    layers = range(1, len(first["ratios"]) + 1)
    shades = colours(len(layers))
    for index, ratio, color in zip(layers, first["ratios"], shades, strict=True):
        left.plot(first["epochs"], ratio, "-", color=color, lw=1.2, label=f"layer {index}")
    label_outside([[left]], "epoch", "D of the layer / D before it")
    left.legend(fontsize=6.5, frameon=False, ncols=2)
    plain_axis(left, f"lr {first['lr']:g}, seed {first['seed']}")
    times = [network["settled"] for network in numbers["networks"]]
    for each in times:
        label = "seeds" if each is times[0] else None
        right.plot(layers, each, "o", color="grey", ms=3, alpha=0.6, label=label)
    means = [sum(layer) / len(layer) for layer in zip(*times, strict=True)]
    right.plot(layers, means, "o-", color=shades[0], label="mean over seeds")
    label_outside([[right]], y="converged from epoch")
    plain_axis(right, f"within {TOLERANCE:.0%} of the last value for good", legend=7)
    corner(right, note("by seed", STUDY.claims[0], numbers))
    return drawing


STUDY = family.he_su_study(
    title="Bottom layers converge before top layers",
    source="He & Su 2023, figure 10",
    paper="the relative improvement of bottom layers converges earlier",
    minutes={"smoke": 0.1, "cpu": 2.5, "paper": 2.5},
    settings=family.adam_presets(
        {
            "dataset": "cifar10",
            "depth": 8,
            "checkpoints": [0, 2, 5, *range(10, 60, 10), *range(60, 300, 20), *range(300, 601, 50)],
        },
        cpu={"near": True},
        smoke={**SMALL, "checkpoints": [0, 1, 2, 3, 4], "epochs": 4},
    ),
    departures={"cpu": family.NEAR},
    plan=candidates,
    measure=measure,
    claims=(
        Claim(
            f"higher layers converge later: rank correlation with the layer index at least {BAR}",
            "the relative improvement of bottom layers converges earlier than that of top layers",
            collect("networks", "rank correlation", family.rise("settled")),
            lambda correlation: correlation >= BAR,
        ),
        Claim(
            "the upper three layers converge later than the lower three, on average",
            "bottom layers converge earlier",
            collect("networks", "epochs", delay),
            lambda epochs: epochs > 0,
        ),
    ),
    figure=figure,
)
