"""The training of the papers: cross-entropy, steps down at one and two thirds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

Optimizer = Literal["sgd", "momentum", "adam"]
OPTIMIZERS: dict[str, Optimizer] = {"sgd": "sgd", "momentum": "momentum", "adam": "adam"}


@dataclass(frozen=True)
class Recipe:
    """Settings of one training (003, appendix A.1).

    Attributes:
        optimizer: plain SGD, SGD with momentum 0.9, or Adam.
        lr: first learning rate, divided by 10 at one third and at two thirds of the epochs.
        epochs: how often all samples are seen.
        batch_size: samples per step; the last, smaller batch of an epoch is used too.
        weight_decay: as torch means it, added to the gradient.
        seed: of the order of the samples.
    """

    optimizer: Optimizer = "adam"
    lr: float = 3e-4
    epochs: int = 600
    batch_size: int = 128
    weight_decay: float = 5e-4
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    """How a training ended: loss and accuracy on the training data, in eval mode."""

    loss: float
    accuracy: float


def train(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    after_epoch: Callable[[int], None] | None = None,
) -> Trained:
    """Train ``model`` in place, deterministically for a seed.

    Args:
        model: the network, whose weights are already drawn.
        x: inputs, shape (n, ...).
        y: labels, shape (n,).
        recipe: the settings.
        after_epoch: called with the number of epochs done.

    Returns:
        Loss and accuracy after the last epoch.
    """
    optimizer = _optimizer(model, recipe)
    thirds = [recipe.epochs // 3, 2 * recipe.epochs // 3]
    schedule = torch.optim.lr_scheduler.MultiStepLR(
        optimizer, [epoch for epoch in thirds if epoch > 0], gamma=0.1
    )
    generator = torch.Generator().manual_seed(recipe.seed)
    model.train()
    for epoch in range(1, recipe.epochs + 1):
        for rows in torch.randperm(len(x), generator=generator).split(recipe.batch_size):
            if len(rows) == 1:  # BatchNorm cannot train on a single sample
                continue
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        schedule.step()
        if after_epoch is not None:
            after_epoch(epoch)
    return evaluate(model, x, y)


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor) -> Trained:
    """Loss and accuracy in eval mode; the model is left in eval mode."""
    model.eval()
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)
    return Trained(float(loss), float((logits.argmax(dim=1) == y).float().mean()))


def _optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    if recipe.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    momentum = 0.9 if recipe.optimizer == "momentum" else 0.0
    return torch.optim.SGD(
        model.parameters(), lr=recipe.lr, momentum=momentum, weight_decay=recipe.weight_decay
    )
