"""The training of the papers: cross-entropy, steps down at one and two thirds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lawscope.lazy import Tensor, nn, torch
from lawscope.training.optimizers import make_optimizer
from lawscope.training.recipe import Recipe
from lawscope.training.recorders import Note

# The features of ten thousand images would not fit the memory.
EVALUATED_AT_ONCE = 1000


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
    note: Note | None = None,
) -> Trained:
    """Train ``model`` in place, deterministically for a seed.

    Parameters that do not require gradients stay as they are. ``after_epoch`` is given the number
    of epochs done; True ends the training. ``note`` is called before each step with the model,
    whose gradients are there, the batch and its loss; see :mod:`lawscope.training.recorders`.
    """
    optimizer = make_optimizer(model.parameters(), recipe)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, recipe.drops(), gamma=0.1)
    generator = torch.Generator().manual_seed(recipe.seed)
    model.train()
    for epoch in range(1, recipe.epochs + 1):
        for rows in torch.randperm(len(x), generator=generator).split(recipe.batch_size):
            if len(rows) == 1:  # BatchNorm cannot train on a single sample
                continue
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            if note is not None:
                note(model, (x[rows], y[rows]), loss.detach())
            optimizer.step()
        schedule.step()
        if after_epoch is not None and after_epoch(epoch):
            break
    return evaluate(model, x, y)


def evaluate(model: nn.Module, x: Tensor, y: Tensor) -> Trained:
    """Return loss and accuracy in eval mode; leave the model in eval mode."""
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(part) for part in x.split(EVALUATED_AT_ONCE)])
        loss = nn.functional.cross_entropy(logits, y)
    return Trained(float(loss), float((logits.argmax(dim=1) == y).float().mean()))
