"""Many small networks of one shape, trained as one batched program.

S networks of width H become matrices with one more dimension: weights (S, H, H), features
(S, H, B). A layer is then one batched matrix product, and BatchNorm sees S·H channels. Features
stand before samples, so that both kernels read memory in order. The networks may differ in learning
rate, weight decay, seed and data; each sees its own samples in its own order, as it would alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lawscope.errors import LawscopeError
from lawscope.training.loop import Trained, evaluate
from lawscope.training.recipe import Recipe
from lawscope.training.stack_norm import BatchNorm
from lawscope.training.stack_optimizer import StackOptimizer


def train_stack(
    models: Sequence[nn.Module],
    x: Sequence[Tensor],
    y: Sequence[Tensor],
    recipes: Sequence[Recipe],
    after_epoch: Callable[[int], None] | None = None,
    up_to_date: Collection[int] = (),
) -> list[Trained]:
    """Train networks in place; equal to :func:`~lawscope.training.loop.train` one by one.

    The same sums are taken in another order, so weights agree to rounding at first and drift apart
    as fast as training amplifies rounding. Parameters that do not require gradients stay.

    Args:
        models: networks of ``nn.Linear``, ``nn.BatchNorm1d`` and ``nn.ReLU`` in sequence, of equal
            shapes.
        x: inputs of each network, (n, d).
        y: labels of each network, (n,).
        recipes: one each; optimiser, epochs and batch size are the same for all.
        after_epoch: called with the number of epochs done.
        up_to_date: epochs at which ``models`` hold the current weights when it is called.

    Returns:
        Loss and accuracy of each network after the last epoch, in eval mode.

    Raises:
        LawscopeError: networks, data or recipes that cannot share a stack.
    """
    recipe = _common(recipes)
    if len({(tuple(a.shape), len(b)) for a, b in zip(x, y, strict=True)}) != 1:
        raise LawscopeError("Networks of a stack need data of one shape.")
    stack = Stack(models)
    optimizer = StackOptimizer(stack.learning, recipes)
    generators = [torch.Generator().manual_seed(each.seed) for each in recipes]
    inputs, labels = torch.stack(list(x)), torch.stack(list(y))
    samples, network = labels.shape[1], torch.arange(len(models))[:, None]
    for epoch in range(1, recipe.epochs + 1):
        orders = torch.stack([torch.randperm(samples, generator=g) for g in generators])
        for rows in orders.split(recipe.batch_size, dim=1):
            if rows.shape[1] == 1:  # as in the loop: BatchNorm cannot train on a single sample
                continue
            optimizer.zero_grad()
            logits = stack(inputs[network, rows].transpose(1, 2))
            # The mean over its own samples for each network; the sum keeps them independent.
            loss = F.cross_entropy(logits, labels[network, rows], reduction="sum") / rows.shape[1]
            loss.backward()
            optimizer.step()
        if epoch in recipe.drops():
            optimizer.drop()
        if epoch in up_to_date or epoch == recipe.epochs:
            stack.write_back()
        if after_epoch is not None:
            after_epoch(epoch)
    return [evaluate(*each) for each in zip(models, x, y, strict=True)]


class Stack:
    """The batched forward pass, with parameters of shape (S, …).

    Attributes:
        learning: the parameters that require gradients.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._layers = list(zip(*(_leaves(model) for model in models), strict=True))
        self._values = [_stacked(layers) for layers in self._layers]
        self.learning = [
            values[name].requires_grad_()
            for layers, values in zip(self._layers, self._values, strict=True)
            for name, parameter in layers[0].named_parameters()
            if parameter.requires_grad
        ]

    def __call__(self, x: Tensor) -> Tensor:
        """Logits (S, K, B) of inputs (S, d, B), in training mode."""
        for layers, values in zip(self._layers, self._values, strict=True):
            if isinstance(layers[0], nn.Linear):
                x = torch.bmm(values["weight"], x).add_(values["bias"][:, :, None])
            elif isinstance(layers[0], nn.BatchNorm1d):
                x = _batch_norm(x, values, layers[0])
            else:
                x = x.relu_()  # nobody else holds what it overwrites
        return x

    @torch.no_grad()
    def write_back(self) -> None:
        """Bring the networks up to date."""
        for layers, values in zip(self._layers, self._values, strict=True):
            for index, layer in enumerate(layers):
                state = layer.state_dict()
                for name, stacked in values.items():
                    state[name].copy_(stacked[index])


def _stacked(layers: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Parameters and running statistics of one layer of every network, (S, …)."""
    states = [layer.state_dict() for layer in layers]
    names = [name for name in states[0] if name != "num_batches_tracked"]
    return {name: torch.stack([state[name] for state in states]) for name in names}


def _batch_norm(x: Tensor, values: dict[str, Tensor], layer: nn.BatchNorm1d) -> Tensor:
    """BatchNorm of every network over its samples: S·H channels."""
    normed: Tensor = BatchNorm.apply(  # type: ignore[no-untyped-call]
        x.reshape(-1, x.shape[2]),
        values["weight"].view(-1),
        values["bias"].view(-1),
        values["running_mean"].view(-1),
        values["running_var"].view(-1),
        layer.momentum,
        layer.eps,
    )
    return normed.view(x.shape)


def _leaves(model: nn.Module) -> list[nn.Module]:
    """The layers in the order they run."""
    leaves = [module for module in model.modules() if not isinstance(module, nn.Sequential)]
    for leaf in leaves:
        if not isinstance(leaf, nn.Linear | nn.BatchNorm1d | nn.ReLU):
            raise LawscopeError(
                f"A stack holds Linear, BatchNorm1d and ReLU in sequence, not "
                f"{type(leaf).__name__}; train this network by itself."
            )
    return leaves


def _common(recipes: Sequence[Recipe]) -> Recipe:
    first = recipes[0]
    for recipe in recipes:
        for name in ("optimizer", "epochs", "batch_size"):
            if getattr(recipe, name) != getattr(first, name):
                raise LawscopeError(
                    f"Networks of a stack share their {name}; got {getattr(first, name)} and "
                    f"{getattr(recipe, name)}."
                )
    return first
