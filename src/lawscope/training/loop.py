"""The training of the papers: cross-entropy, steps down at one and two thirds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lawscope.training.recipe import MOMENTUM, Recipe

LANGUAGE_BETAS = (0.9, 0.95)  # as GPT-3 and later language models are trained
EVALUATED_AT_ONCE = 1000  # the features of ten thousand images would not fit the memory


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
    after_epoch: Callable[[int], bool | None] | None = None,
) -> Trained:
    """Train ``model`` in place, deterministically for a seed.

    Parameters that do not require gradients stay as they are.

    Args:
        model: the network, whose weights are already drawn.
        x: inputs, shape (n, ...).
        y: labels, shape (n,).
        recipe: the settings.
        after_epoch: called with the number of epochs done; True ends the training.

    Returns:
        Loss and accuracy after the last epoch.
    """
    optimizer = optimizer_of(model.parameters(), recipe)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, recipe.drops(), gamma=0.1)
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
        if after_epoch is not None and after_epoch(epoch):
            break
    return evaluate(model, x, y)


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor) -> Trained:
    """Loss and accuracy in eval mode; the model is left in eval mode."""
    model.eval()
    logits = torch.cat([model(part) for part in x.split(EVALUATED_AT_ONCE)])
    loss = nn.functional.cross_entropy(logits, y)
    return Trained(float(loss), float((logits.argmax(dim=1) == y).float().mean()))


def optimizer_of(parameters: Iterable[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    """The optimiser of a recipe, fused: one pass over the weights per step."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    decay = recipe.weight_decay
    if recipe.optimizer == "adam":
        return torch.optim.Adam(learning, lr=recipe.lr, weight_decay=decay, fused=True)
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(
            learning, lr=recipe.lr, betas=LANGUAGE_BETAS, weight_decay=decay, fused=True
        )
    momentum = MOMENTUM if recipe.optimizer == "momentum" else 0.0
    return torch.optim.SGD(
        learning, lr=recipe.lr, momentum=momentum, weight_decay=decay, fused=True
    )
