"""The networks of the family: the paper's, and smaller ones for ``cpu``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lawscope.studies.plan import Data, Network, Training
from lawscope.training.recipe import Recipe

EMBEDDED, WHOLE = "fashion-mnist-10x10", "fashion-mnist"
# 001 names the networks; its authors' code has momentum, lr 0.1, weight decay 5e-4, 350 epochs.
MLP: dict[str, Any] = {
    "kind": "feedforward",
    "options": {"depth": 4},
    "pixels": None,
    "samples": 500,
    "lr": 0.1,
    "batch": 128,
    "weight_decay": 5e-3,
    "epochs": 350,
}
SETTING: dict[str, Any] = {"dataset": EMBEDDED, "seeds": 3}
PAPER_SETTING: dict[str, Any] = {"dataset": WHOLE, "seeds": 1}
PAPER_NETWORKS: dict[str, Any] = {
    "VGG11": {
        "kind": "vgg",
        "options": {"depth": 11},
        "pixels": 32,
        "samples": 6000,
        "lr": 0.1,
        "batch": 128,
        "weight_decay": 5e-4,
        "epochs": 350,
    },
    "ResNet": {
        "kind": "resnet",
        "options": {"copies": 64},
        "pixels": 32,
        "samples": 6000,
        "lr": 0.1,
        "batch": 128,
        "weight_decay": 5e-4,
        "epochs": 350,
    },
}
NARROW_VGG = {
    **PAPER_NETWORKS["VGG11"],
    "options": {"depth": 11, "width": 4},
    "samples": 200,
    "lr": 0.03,
    "batch": 32,
    "weight_decay": 5e-3,
    "epochs": 40,
    "one_seed": True,
}
SMALL_RESNET = {
    **PAPER_NETWORKS["ResNet"],
    "options": {"size": 10},
    "pixels": 10,
    "samples": 200,
    "lr": 0.01,
    "batch": 64,
    "weight_decay": 5e-3,
    "epochs": 60,
    "one_seed": True,
}


def data_of(dataset: str, network: Mapping[str, Any], **amounts: Any) -> Data:
    """Images of the size that a network takes; vectors of 10×10 pixels where it names none."""
    pixels = network["pixels"]
    return Data(dataset, size=pixels or 10, flatten=pixels is None, **amounts)


def training_of(network: Mapping[str, Any], data: Data, seed: int, **more: Any) -> Training:
    """One training of a network by its settings, with the paper's optimiser."""
    recipe = Recipe(
        "momentum",
        network["lr"],
        network["epochs"],
        network["batch"],
        network["weight_decay"],
        seed,
    )
    return Training(Network.of(network["kind"], **network["options"]), recipe, data, seed, **more)
