"""Training of small language models: next tokens, or tokens hidden behind a mask."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lawscope.training.loop import Trained
from lawscope.training.optimizers import make_optimizer
from lawscope.training.recipe import Recipe
from lawscope.training.recorders import Note

# Share of the steps in which the rate rises, and share of the rate that is left at the end.
WARM_UP, LEAST = 0.05, 0.1
LONGEST_GRADIENT = 1.0
# Share of the tokens behind the mask, as in BERT.
HIDDEN = 0.15
EVALUATED_AT_ONCE = 64


def answers(
    model: nn.Module, ids: Tensor, mask: int | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return logits (n, vocabulary) where a token of windows (B, T) is predicted, and it (n,).

    These are tokens hidden behind ``mask``, or next tokens without one. The model gives logits
    (B, T, vocabulary) plainly or inside an output.
    """
    seen = ids
    if mask is not None:
        hidden = torch.rand(ids.shape, generator=generator) < HIDDEN
        seen = ids.masked_fill(hidden, mask)
    output = model(seen)
    logits: Tensor = output if isinstance(output, Tensor) else output.logits
    if mask is None:
        return logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
    return logits[hidden], ids[hidden]


def train_language(
    model: nn.Module,
    windows: Tensor,
    recipe: Recipe,
    mask: int | None,
    after_step: Callable[[int], None],
    note: Note | None,
) -> None:
    """Train ``model`` in place, deterministically for a seed.

    An epoch of the recipe is one step on ``batch_size`` of the windows (n, T), drawn with its seed.
    The rate rises over the first 5 % of the steps and falls to a tenth along a cosine. ``note`` is
    as in :func:`~lawscope.training.loop.train`, after the gradients are clipped.
    """
    optimizer = make_optimizer(model.parameters(), recipe)
    generator = torch.Generator().manual_seed(recipe.seed)
    model.train()
    for step in range(1, recipe.epochs + 1):
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * rate(step, recipe.epochs)
        ids = windows[torch.randint(len(windows), (recipe.batch_size,), generator=generator)]
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(*answers(model, ids, mask, generator))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
        if note is not None:
            note(model, (ids[:, :-1], ids[:, 1:]), loss.detach())
        optimizer.step()
        after_step(step)


def rate(step: int, steps: int) -> float:
    """Return the share of the learning rate at a step, counted from 1."""
    warm = max(1, round(WARM_UP * steps))
    if step <= warm:
        return step / warm
    along = (step - warm) / max(1, steps - warm)
    return LEAST + (1 - LEAST) * (1 + math.cos(math.pi * along)) / 2


@torch.no_grad()
def evaluate_language(model: nn.Module, windows: Tensor, mask: int | None) -> Trained:
    """Return cross-entropy per token and accuracy; leave the model in eval mode."""
    model.eval()
    generator = torch.Generator().manual_seed(0)
    loss = right = count = 0.0
    for ids in windows.split(EVALUATED_AT_ONCE):
        logits, targets = answers(model, ids, mask, generator)
        loss += float(nn.functional.cross_entropy(logits, targets, reduction="sum"))
        right += float((logits.argmax(dim=1) == targets).sum())
        count += len(targets)
    return Trained(loss / count, right / count)
