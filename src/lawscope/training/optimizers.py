"""Optimisers by name; what makes one is registered where it is defined.

For example::

    @register_optimizer("lion", elementwise=True)
    def lion(weights: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer: ...

Nothing here imports torch before one is made, so that studies are listed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from lawscope.errors import LawscopeError
from lawscope.lazy import nn, torch

if TYPE_CHECKING:
    from lawscope.training.recipe import Recipe

    Make = Callable[[list[nn.Parameter], Recipe], torch.optim.Optimizer]

MOMENTUM = 0.9
# As GPT-3 and later language models are trained.
LANGUAGE_BETAS = (0.9, 0.95)


class Rule(NamedTuple):
    """How an optimiser is made, and whether each weight moves by its own gradients alone."""

    make: Make
    elementwise: bool


OPTIMIZERS: dict[str, Rule] = {}


def register_optimizer(name: str, *, elementwise: bool = False) -> Callable[[Make], Make]:
    """Register what makes an optimiser of the weights that learn and a recipe.

    ``elementwise``: each weight moves by its own gradients alone, whatever tensor it is part of.
    Only then are networks trained as a stack, which keeps the weights of each in one row.
    """

    def keep(make: Make) -> Make:
        known: Any = OPTIMIZERS.setdefault(name, Rule(make, elementwise)).make
        if (known.__module__, known.__qualname__) != (make.__module__, make.__qualname__):
            raise LawscopeError(
                f"There are two optimizers named {name!r}, in {known.__module__} and "
                f"{make.__module__}; rename one."
            )
        return make

    return keep


def find_optimizer(name: str) -> Rule:
    """Return what is registered under a name."""
    if name not in OPTIMIZERS:
        raise LawscopeError(
            f"There is no optimizer {name!r}; choose {', '.join(OPTIMIZERS)}, or register yours "
            "with lawscope.training.optimizers.register_optimizer."
        )
    return OPTIMIZERS[name]


def make_optimizer(parameters: Iterable[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    """Make the optimiser of a recipe for the parameters that learn."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    return find_optimizer(recipe.optimizer).make(learning, recipe)


@register_optimizer("sgd", elementwise=True)
def _sgd(weights: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, **_settings(recipe))


@register_optimizer("momentum", elementwise=True)
def _momentum(weights: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, momentum=MOMENTUM, **_settings(recipe))


@register_optimizer("adam", elementwise=True)
def _adam(weights: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    return torch.optim.Adam(weights, **_settings(recipe))


@register_optimizer("adamw", elementwise=True)
def _adamw(weights: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    return torch.optim.AdamW(weights, betas=LANGUAGE_BETAS, **_settings(recipe))


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Return what all of them take; fused is one pass over the weights per step."""
    return {"lr": recipe.lr, "weight_decay": recipe.weight_decay, "fused": True}
