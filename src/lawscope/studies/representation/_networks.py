"""The networks of the family, their seeds, and what is shared in looking at their layers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from lawscope.lazy import nn
from lawscope.studies.datasets import ImageData
from lawscope.studies.panels import Settings
from lawscope.studies.plan import Network, Training
from lawscope.studies.registry import NETWORKS
from lawscope.training.recipe import Recipe

# Settings and bars were found on seeds 0 to 2 of networks like these; these are others.
FIRST_SEED = 10
RELU, TANH, RESIDUAL = "ReLU", "tanh", "residual"
BATCH, RATE = 16, 0.05
DECAYS = [0.0, 1e-3, 1e-2]
HIDDEN = ("layer2.linear", "layer3.linear", "layer4.linear")
FULLY_CONNECTED = {RELU: (*HIDDEN, "head"), TANH: (*HIDDEN, "head"), RESIDUAL: ("hidden", "head")}


@NETWORKS.register("bias-free")
def bias_free(activation: str = RELU, width: int = 64, depth: int = 5) -> nn.Module:
    """Build a feed-forward network without biases, so that h_b = W·h_a is all there is."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for index in range(1, depth):
        linear = nn.Linear(100 if index == 1 else width, width, bias=False)
        if activation == RELU:
            nn.init.kaiming_normal_(linear.weight)
        else:
            nn.init.xavier_normal_(linear.weight)
        act = nn.ReLU() if activation == RELU else nn.Tanh()
        layers[f"layer{index}"] = nn.Sequential(OrderedDict(linear=linear, act=act))
    head = nn.Linear(width, 10, bias=False)
    nn.init.xavier_normal_(head.weight)
    layers["head"] = head
    return nn.Sequential(layers)


def seeds_of(settings: Settings) -> range:
    """Return the seeds, as many as the settings say."""
    return range(FIRST_SEED, FIRST_SEED + settings["seeds"])


def mlps(settings: Settings, activation: str, decay: float, batch: int = BATCH) -> list[Training]:
    """Plan fully connected networks of 4 hidden layers, one per seed.

    All take the same number of steps; the rate is 0.05 and falls to a tenth after each third.
    """
    images = 10 * settings["per_class"]
    epochs = max(3, round(settings["steps"] * batch / images))
    return [
        Training(
            Network.of("bias-free", activation=activation),
            Recipe("sgd", RATE, epochs, batch, decay, seed),
            ImageData(per_class=settings["per_class"]),
            seed,
            tuple(sorted({*every(epochs), *along(epochs)})),
        )
        for seed in seeds_of(settings)
    ]


def residual_networks(settings: Settings) -> list[Training]:
    """Plan small residual networks of two fully connected layers, one per seed."""
    epochs = settings["residual_epochs"]
    return [
        Training(
            Network.of("pooled-residual", width=16, hidden=64),
            Recipe("momentum", 0.03, epochs, 32, 5e-4, seed),
            ImageData(per_class=settings["residual_per_class"], flatten=False),
            seed,
            along(epochs),
        )
        for seed in seeds_of(settings)
    ]


def along(epochs: int) -> tuple[int, ...]:
    """Return the epochs at which a picture along training looks: more at the beginning."""
    shares = (1, 2, 3, 5, 10, 15, 20, 25, 30)
    return tuple(sorted({0, *(epochs * share // 30 for share in shares)}))


def every(epochs: int) -> tuple[int, ...]:
    """Return the epochs that are kept: 40 and the first ones, where there are as many."""
    return tuple(sorted({*range(0, epochs, max(1, epochs // 40)), *range(min(4, epochs))}))


PAPER: dict[str, Any] = {
    "per_class": 500, "steps": 9400, "residual_per_class": 500, "residual_epochs": 30, "seeds": 3,
    "null": 20, "folds": 8, "images": 5000,
}  # fmt: skip
SMOKE = {"per_class": 5, "steps": 20, "residual_per_class": 5, "residual_epochs": 2, "seeds": 1,
         "null": 2, "folds": 3, "images": 150}  # fmt: skip
DEPARTURE = (
    "networks of 4 hidden layers of 64 units and a residual network of 2 blocks on 5000 images of "
    "10×10, instead of ResNet18 on CIFAR-10"
)
DEPARTURES = {"cpu": DEPARTURE, "paper": DEPARTURE}


def average(rows: Iterable[Settings], name: str) -> float:
    """Return the mean of a number over rows."""
    values = [row[name] for row in rows]
    return float(sum(values) / len(values))
