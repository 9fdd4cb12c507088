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
from lawscope.training.loop import Trained, evaluate, make_optimizer
from lawscope.training.recipe import Recipe
from lawscope.training.stack_layers import BatchNorm, Layer, Linear, Parts, Relu, RunningStatistics


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
    as fast as training amplifies rounding. A bias before BatchNorm has no derivative here; in the
    loop it has one of rounding errors. Parameters that do not require gradients stay.

    Networks are ``nn.Linear``, ``nn.BatchNorm1d`` and ``nn.ReLU`` in sequence, of equal shapes,
    each with inputs (n, d) and labels (n,); recipes share optimiser, epochs and batch size. At the
    epochs ``up_to_date`` the models hold the current weights when ``after_epoch`` is called.
    """
    recipe = _common(recipes)
    if len({(tuple(a.shape), len(b)) for a, b in zip(x, y, strict=True)}) != 1:
        raise LawscopeError("Networks of a stack need data of one shape.")
    stack = Stack(models)
    optimizers = [make_optimizer([p], r) for p, r in zip(stack.parameters, recipes, strict=True)]
    generators = [torch.Generator().manual_seed(each.seed) for each in recipes]
    inputs, labels = torch.stack(list(x)), torch.stack(list(y))
    samples, network = labels.shape[1], torch.arange(len(models))[:, None]
    for epoch in range(1, recipe.epochs + 1):
        orders = torch.stack([torch.randperm(samples, generator=g) for g in generators])
        for rows in orders.split(recipe.batch_size, dim=1):
            if rows.shape[1] == 1:  # as in the loop: BatchNorm cannot train on a single sample
                continue
            stack.learn_from(inputs[network, rows].transpose(1, 2), labels[network, rows])
            for optimizer in optimizers:
                optimizer.step()
        if epoch in recipe.drops():
            for optimizer in optimizers:
                optimizer.param_groups[0]["lr"] *= 0.1
        if epoch in up_to_date or epoch == recipe.epochs:
            stack.write_back()
        if after_epoch is not None:
            after_epoch(epoch)
    return [evaluate(*each) for each in zip(models, x, y, strict=True)]


class Stack:
    """Networks as one program; layers work on views (S, …) of ``parameters``, one row a network."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._modules = list(zip(*(_leaves(model) for model in models), strict=True))
        self._values = [_stacked(modules) for modules in self._modules]
        gradients = self._share_memory()
        self._layers = [self._layer(index, gradients[index]) for index in range(len(gradients))]
        self._statistics = self._running()
        # Below the lowest layer that learns, no derivative is needed.
        self._lowest = next((i for i, parts in enumerate(gradients) if parts), len(gradients))

    def _share_memory(self) -> list[Parts]:
        """Move what learns into one (S, P) matrix; return the gradients by layer and name."""
        learning = [
            (index, name)
            for index, modules in enumerate(self._modules)
            for name, parameter in modules[0].named_parameters()
            if parameter.requires_grad
        ]
        count = len(self._modules[0])
        owned = [self._values[index][name].view(count, -1) for index, name in learning]
        values = torch.cat(owned, dim=1) if owned else torch.zeros(count, 0)
        slopes = torch.zeros_like(values)
        gradients: list[Parts] = [{} for _ in self._modules]
        start = 0
        for index, name in learning:
            shape = self._values[index][name].shape
            part = slice(start, start + shape[1:].numel())
            self._values[index][name] = values[:, part].view(shape)
            gradients[index][name] = slopes[:, part].view(shape)
            start = part.stop
        self.parameters = [nn.Parameter(row) for row in values]
        for parameter, slope in zip(self.parameters, slopes, strict=True):
            parameter.grad = slope
        return gradients

    def _layer(self, index: int, gradients: Parts) -> Layer:
        kinds = [modules[0] for modules in self._modules]
        module, values = kinds[index], self._values[index]
        if isinstance(module, nn.Linear):
            above = kinds[index + 1 : index + 2]
            return Linear(values, gradients, centred=isinstance((*above, None)[0], nn.BatchNorm1d))
        if isinstance(module, nn.BatchNorm1d):
            return BatchNorm(values, gradients, module.eps)
        return Relu()

    def _running(self) -> RunningStatistics | None:
        """Return what follows the running statistics, if a layer has any."""
        rows = []
        below: Tensor | None = None
        for layer, modules, parts in zip(self._layers, self._modules, self._values, strict=True):
            if isinstance(layer, BatchNorm):
                rows.append((layer, modules[0], parts, below))
            below = parts["bias"] if isinstance(layer, Linear) else None
        return RunningStatistics(*zip(*rows, strict=True)) if rows else None

    @torch.no_grad()
    def learn_from(self, x: Tensor, y: Tensor) -> None:
        """Compute gradients of each mean cross-entropy on inputs (S, d, B), labels (S, B)."""
        for layer in self._layers:
            x = layer.forward(x)
        if self._statistics is not None:
            self._statistics.follow(x.shape[2])
        slope = _cross_entropy_slope(x, y)
        for index in reversed(range(self._lowest, len(self._layers))):
            slope = self._layers[index].backward(slope, below=index > self._lowest)

    @torch.no_grad()
    def write_back(self) -> None:
        """Bring the networks up to date."""
        for modules, values in zip(self._modules, self._values, strict=True):
            for index, module in enumerate(modules):
                state = module.state_dict()
                for name, stacked in values.items():
                    state[name].copy_(stacked[index])


def _cross_entropy_slope(logits: Tensor, y: Tensor) -> Tensor:
    """Return (softmax − one-hot)/B for logits (S, K, B)."""
    slope = F.softmax(logits, dim=1)
    ones = slope.new_ones(1).expand(y.shape)[:, None]
    return slope.scatter_add_(1, y[:, None], -ones).div_(y.shape[1])


def _stacked(modules: Sequence[nn.Module]) -> Parts:
    """Stack parameters and running statistics of one layer of every network, (S, …)."""
    states = [module.state_dict() for module in modules]
    names = [name for name in states[0] if name != "num_batches_tracked"]
    return {name: torch.stack([state[name] for state in states]) for name in names}


def _leaves(model: nn.Module) -> list[nn.Module]:
    """Return the layers in the order they run."""
    leaves = [module for module in model.modules() if not isinstance(module, nn.Sequential)]
    for leaf in leaves:
        if not isinstance(leaf, nn.Linear | nn.BatchNorm1d | nn.ReLU):
            raise LawscopeError(
                f"A stack holds Linear, BatchNorm1d and ReLU in sequence, not "
                f"{type(leaf).__name__}; train this network by itself."
            )
    return leaves


def _common(recipes: Sequence[Recipe]) -> Recipe:
    for name in ("optimizer", "epochs", "batch_size"):
        first, *others = dict.fromkeys(getattr(recipe, name) for recipe in recipes)
        if others:
            raise LawscopeError(
                f"Networks of a stack share their {name}; got {first} and {others[0]}."
            )
    return recipes[0]
