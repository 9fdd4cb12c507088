"""The networks of the family: feed-forward, residual and tanh ones on Fashion-MNIST at 10×10."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import lawscope as ls
from lawscope.lazy import nn, torch
from lawscope.studies.datasets import ImageData
from lawscope.studies.panels import Settings
from lawscope.studies.plan import Network, Training
from lawscope.studies.registry import NETWORKS
from lawscope.training.optimizers import MOMENTUM, register_optimizer
from lawscope.training.recipe import Recipe

MLP, RESIDUAL, TANH = "feed-forward", "residual", "tanh"
KINDS = {
    MLP: Network.of("feedforward", depth=4, width=100, norm=False),
    RESIDUAL: Network.of("pooled-residual", width=16, hidden=64),
    TANH: Network.of("tanh", width=50),
}
# Where the last hidden layer of each is, before and after its activation.
LAST = {MLP: ("layer3.linear", "layer3.relu"), RESIDUAL: ("hidden", "relu")}
SIGMAS = {"removed": 0.05, "removed-far": 0.2}  # θ₀ of the optimizers by these names


@NETWORKS.register("pooled-residual")
def pooled_residual(width: int = 16, hidden: int = 64) -> nn.Module:
    """Build two residual blocks with pooling between, a hidden layer and a classifier."""
    from lawscope.zoo.networks.convolutional import ResidualBlock

    return nn.Sequential(
        OrderedDict(
            stem=nn.Sequential(
                nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
            ),
            pool1=nn.MaxPool2d(2),
            block1=ResidualBlock(width, 2),
            block2=ResidualBlock(width, 2),
            flatten=nn.Flatten(),
            hidden=nn.Linear(width * 25, hidden),
            relu=nn.ReLU(),
            head=nn.Linear(hidden, 10),
        )
    )


@NETWORKS.register("tanh")
def tanh(width: int = 50) -> nn.Module:
    """Build two hidden layers of tanh units and a classifier."""
    return nn.Sequential(
        nn.Linear(100, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 10)
    )


def _register_removed(name: str, sigma: float) -> None:
    # Not elementwise: θ₀ is drawn by the shapes of one network.
    @register_optimizer(name)
    def removed(weights: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(weights, recipe.lr, MOMENTUM, weight_decay=recipe.weight_decay)
        # θ₀ is the same for all seeds, so that two trainings have the same loss.
        ls.remove_symmetry(optimizer, sigma=sigma, seed=0)
        return optimizer


for _name, _sigma in SIGMAS.items():
    _register_removed(_name, _sigma)


def trainings_of(
    settings: Settings, kind: str, decay: float, optimizer: str = "momentum"
) -> list[Training]:
    """Plan the networks of one kind and decay, one per seed: of first weights and order."""
    own = settings["training"][kind]
    return [
        Training(
            KINDS[kind],
            Recipe(optimizer, own["lr"], own["epochs"], own["batch"], decay, seed),
            ImageData(per_class=own["per_class"], flatten=kind != RESIDUAL),
            seed,
        )
        for seed in range(settings["seeds"])
    ]


# Ziyin 2024 trains ResNet18 on CIFAR-10; what is its counterpart here is the residual network.
PAPER_TRAINING: dict[str, Any] = {
    MLP: {"lr": 0.05, "epochs": 400, "batch": 32, "per_class": 500},
    RESIDUAL: {"lr": 0.03, "epochs": 200, "batch": 32, "per_class": 500},
    TANH: {"lr": 0.05, "epochs": 400, "batch": 32, "per_class": 100},
}
CPU_TRAINING = {
    MLP: {"lr": 0.05, "epochs": 100, "batch": 32, "per_class": 100},
    RESIDUAL: {"lr": 0.03, "epochs": 50, "batch": 32, "per_class": 100},
    TANH: {"lr": 0.05, "epochs": 100, "batch": 32, "per_class": 100},
}
SMOKE_TRAINING = {
    kind: {"lr": 0.1, "epochs": 2, "batch": 50, "per_class": 10} for kind in PAPER_TRAINING
}
DEPARTURES = {
    "cpu": "small networks on 1000 images of 10×10 and at most 3200 steps instead of ResNet18 on "
    "CIFAR-10; rates lowered after a first run, in which most units died at lr 0.1 without decay",
    "paper": "small networks on Fashion-MNIST at 10×10 instead of ResNet18 on CIFAR-10",
}
