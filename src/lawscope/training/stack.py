"""Many small networks of one shape, trained as one batched program.

S networks of width H become matrices with one more dimension: weights (S, H, H), features
(S, H, B). A layer is then one batched matrix product, and BatchNorm sees S·H channels. Features
stand before samples, so that both kernels read memory in order. The networks may differ in learning
rate, weight decay, seed and data; each sees its own samples in its own order, as it would alone.

Autograd would give the same derivatives as the layers here; written out, a step takes three
quarters of the time, because memory is used again and gradients land where the optimiser reads
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lawscope.errors import LawscopeError
from lawscope.training.loop import Trained, evaluate
from lawscope.training.optimizers import find_optimizer, make_optimizer
from lawscope.training.recipe import Recipe

Parts = dict[str, Tensor]


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
    each with inputs (n, d) and labels (n,); recipes share epochs, batch size and
    optimiser, which must be ``elementwise``. At the epochs ``up_to_date`` the models hold the
    current weights when ``after_epoch`` is called.
    """
    for name in ("optimizer", "epochs", "batch_size"):
        first, *others = dict.fromkeys(getattr(recipe, name) for recipe in recipes)
        if others:
            raise LawscopeError(
                f"Networks of a stack share their {name}; got {first} and {others[0]}."
            )
    if not find_optimizer(recipes[0].optimizer).elementwise:
        raise LawscopeError(
            f"The optimizer {recipes[0].optimizer} is not registered as elementwise; train its "
            "networks one by one."
        )
    if len({(tuple(a.shape), len(b)) for a, b in zip(x, y, strict=True)}) != 1:
        raise LawscopeError("Networks of a stack need data of one shape.")
    stack, recipe = Stack(models), recipes[0]
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

    def _layer(self, index: int, gradients: Parts) -> Linear | BatchNorm | Relu:
        below, module, above = (
            self._modules[i][0] if 0 <= i < len(self._modules) else None
            for i in (index - 1, index, index + 1)
        )
        values = self._values[index]
        if isinstance(module, nn.Linear):
            return Linear(values, gradients, centred=isinstance(above, nn.BatchNorm1d))
        if isinstance(module, nn.BatchNorm1d):
            left_out = self._values[index - 1]["bias"] if isinstance(below, nn.Linear) else None
            return BatchNorm(values, gradients, module.eps, module.momentum or 0.0, left_out)
        return Relu()

    @torch.no_grad()
    def learn_from(self, x: Tensor, y: Tensor) -> None:
        """Compute gradients of each mean cross-entropy on inputs (S, d, B), labels (S, B)."""
        for layer in self._layers:
            x = layer.forward(x)
        # The derivative by the logits (S, K, B) is (softmax − one-hot)/B.
        slope = F.softmax(x, dim=1)
        ones = slope.new_ones(1).expand(y.shape)[:, None]
        slope.scatter_add_(1, y[:, None], -ones).div_(y.shape[1])
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


class Linear:
    """y = W x + b of every network, W (S, H, d); ``gradients`` is empty where nothing learns.

    ``centred``: what follows takes the mean off again, so b is not added and has no derivative.
    """

    def __init__(self, values: Parts, gradients: Parts, *, centred: bool) -> None:
        self._weight, self._bias = values["weight"], values["bias"]
        self._gradients, self._centred = gradients, centred
        self._memory: dict[tuple[str, int], Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Map (S, d, B) to (S, H, B)."""
        self._x = x
        out = self._room("out", self._weight.shape[1], x)
        torch.bmm(self._weight, x, out=out)
        return out if self._centred else out.add_(self._bias[:, :, None])

    def backward(self, above: Tensor, *, below: bool) -> Tensor:
        """Compute ∂W = ∂y xᵀ, ∂b = Σ ∂y, and ∂x = Wᵀ ∂y if needed ``below``."""
        if self._gradients:
            torch.bmm(above, self._x.transpose(1, 2), out=self._gradients["weight"])
            if not self._centred:
                torch.sum(above, dim=2, out=self._gradients["bias"])
        if not below:
            return above
        out = self._room("back", self._weight.shape[2], above)
        return torch.bmm(self._weight.transpose(1, 2), above, out=out)

    def _room(self, name: str, features: int, like: Tensor) -> Tensor:
        """Return memory for batches of this size; the last of an epoch is smaller."""
        samples = like.shape[2]
        if (name, samples) not in self._memory:
            self._memory[name, samples] = like.new_empty(len(like), features, samples)
        return self._memory[name, samples]


class BatchNorm:
    """(x − x̄)/√(var + ε)·weight + bias, over the samples of every network.

    Features stand before samples, so a channel is one row of memory and BatchNorm over S·H channels
    is a group norm of one image with a group per channel. torch's kernels for that read each row
    twice and take half the time of those for BatchNorm. ``left_out`` is what the layer below should
    have added to its input, which only the running mean sees.
    """

    def __init__(
        self, values: Parts, gradients: Parts, eps: float, momentum: float, left_out: Tensor | None
    ) -> None:
        self._values, self._gradients, self._left_out = values, gradients, left_out
        self._eps, self._momentum = eps, momentum

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (S, H, B) with the statistics of the batch, and let the running ones follow."""
        weight, bias = (self._values[name].reshape(-1) for name in ("weight", "bias"))
        channels, samples = len(weight), x.shape[2]
        self._x = x
        out, self._mean, self._inverse = torch.native_group_norm(
            x.view(1, channels, samples), weight, bias, 1, channels, samples, channels, self._eps
        )
        mean, inverse = (part.view(x.shape[:2]) for part in (self._mean, self._inverse))
        mean = mean if self._left_out is None else mean + self._left_out
        self._values["running_mean"].lerp_(mean, self._momentum)
        # As in ``nn.BatchNorm1d``, with the unbiased variance.
        var = inverse.pow(-2).sub_(self._eps).clamp_min_(0).mul_(samples / (samples - 1))
        self._values["running_var"].lerp_(var, self._momentum)
        return out.view(x.shape)

    def backward(self, above: Tensor, *, below: bool) -> Tensor:
        """Compute the derivatives by input, weight and bias in one kernel."""
        channels, samples = self._mean.numel(), above.shape[2]
        slope, weight, bias = torch.ops.aten.native_group_norm_backward(
            above.reshape(1, channels, samples),
            self._x.view(1, channels, samples),
            self._mean,
            self._inverse,
            self._values["weight"].reshape(-1),
            *(1, channels, samples, channels),
            [below, bool(self._gradients), bool(self._gradients)],
        )
        if self._gradients:
            self._gradients["weight"].copy_(weight.view(above.shape[:2]))
            self._gradients["bias"].copy_(bias.view(above.shape[:2]))
        return slope.view(above.shape) if below else above


class Relu:
    """max(x, 0), written over its input, which no other layer reads again."""

    def forward(self, x: Tensor) -> Tensor:
        self._y = x.relu_()
        return self._y

    def backward(self, above: Tensor, *, below: bool) -> Tensor:
        """Pass on where the output is positive."""
        torch.ops.aten.threshold_backward.grad_input(above, self._y, 0, grad_input=above)
        return above
