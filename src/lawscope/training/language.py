"""Training of small language models: next tokens, or tokens hidden behind a mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lawscope.training.loop import Trained, optimizer_of
from lawscope.training.recipe import Recipe

WARM_UP = 0.05  # share of the steps
LEAST = 0.1  # share of the rate that is left at the end
LONGEST_GRADIENT = 1.0
HIDDEN = 0.15  # share of the tokens behind the mask, as in BERT
EVALUATED_AT_ONCE = 64


@dataclass(frozen=True)
class Objective:
    """What a language model is trained to say.

    Attributes:
        mask: the token that hides others from a masked language model; None: next tokens.
    """

    mask: int | None = None

    def loss(self, model: nn.Module, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Mean cross-entropy over what is to be said of windows (B, T)."""
        logits, targets = self.answers(model, ids, generator)
        return nn.functional.cross_entropy(logits, targets)

    def answers(
        self, model: nn.Module, ids: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Logits (n, vocabulary) where something is to be said, and what, (n,)."""
        if self.mask is None:
            return logits_of(model, ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
        hidden = torch.rand(ids.shape, generator=generator) < HIDDEN
        return logits_of(model, ids.masked_fill(hidden, self.mask))[hidden], ids[hidden]


def train_language(
    model: nn.Module,
    windows: Tensor,
    recipe: Recipe,
    objective: Objective = Objective(),  # noqa: B008
    after_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Train ``model`` in place, deterministically for a seed.

    Args:
        model: the network, whose weights are already drawn.
        windows: token ids, shape (n, T).
        recipe: an epoch of it is one step on ``batch_size`` windows drawn with its seed. The rate
            rises over the first 5 % of the steps and falls to a tenth along a cosine.
        objective: next tokens or masked ones.
        after_step: called with the number of steps done.
    """
    optimizer = optimizer_of(model.parameters(), recipe)
    generator = torch.Generator().manual_seed(recipe.seed)
    model.train()
    for step in range(1, recipe.epochs + 1):
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * rate(step, recipe.epochs)
        ids = windows[torch.randint(len(windows), (recipe.batch_size,), generator=generator)]
        optimizer.zero_grad(set_to_none=True)
        objective.loss(model, ids, generator).backward()
        nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
        optimizer.step()
        after_step(step)


def rate(step: int, steps: int) -> float:
    """Share of the learning rate at a step, counted from 1.

    Example:
        >>> [round(rate(step, 100), 3) for step in (1, 5, 100)]
        [0.2, 1.0, 0.1]
    """
    warm = max(1, round(WARM_UP * steps))
    if step <= warm:
        return step / warm
    along = (step - warm) / max(1, steps - warm)
    return LEAST + (1 - LEAST) * (1 + math.cos(math.pi * along)) / 2


@torch.no_grad()
def evaluate_language(
    model: nn.Module,
    windows: Tensor,
    objective: Objective = Objective(),  # noqa: B008
) -> Trained:
    """Cross-entropy per token and share of tokens said rightly; the model is left in eval mode."""
    model.eval()
    generator = torch.Generator().manual_seed(0)
    loss = right = count = 0.0
    for ids in windows.split(EVALUATED_AT_ONCE):
        logits, targets = objective.answers(model, ids, generator)
        loss += float(nn.functional.cross_entropy(logits, targets, reduction="sum"))
        right += float((logits.argmax(dim=1) == targets).sum())
        count += len(targets)
    return Trained(loss / count, right / count)


def logits_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Logits (B, T, vocabulary), whether the model gives them plainly or inside an output."""
    said = model(ids)
    logits: Tensor = said if isinstance(said, Tensor) else said.logits
    return logits
