"""Small convolutional networks of one shape, trained in lock-step on single samples.

A step of one network on one image is mostly waiting for Python. Here S networks take each step
together: filters are matrices (S, O, C·k·k) that meet the patches of all images in one batched
product, dense layers are products (S, B, d)·(S, d, O). Derivatives are written out: patches are
views that are copied once, and gradients go straight into the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lawscope.errors import LawscopeError
from lawscope.training.recipe import Recipe

DRAWN_AHEAD = 1000  # steps


@dataclass(frozen=True, eq=False)
class Trajectories:
    """What S networks said about the same images along their training."""

    steps: Tensor  # (T,), of which 0 is before training
    means: Tensor  # (S, T, K, p), logits by class of the image
    losses: Tensor  # (S, T), cross-entropy
    accuracies: Tensor  # (S, T)


def train_lockstep(
    models: Sequence[nn.Module],
    x: Sequence[Tensor],
    y: Sequence[Tensor],
    recipes: Sequence[Recipe],
    probe: tuple[Tensor, Tensor],
    every: int,
    after_step: Callable[[int], None] = lambda step: None,
    up_to_date: Collection[int] = (),
) -> Trajectories:
    """Train networks in place by plain gradient descent on samples drawn with replacement.

    The rate stays, as in Zhang et al. 2021. Weights agree to rounding with those of a loop that
    trains one network after the other: see :func:`draw_rows` for the samples of each step.

    Args:
        models: S networks of equal shape: convolutions, each with ReLU and 2×2 max pooling, then
            dense layers with ReLU between.
        x: images of each, (n, C, H, W); networks that share a tensor share its memory.
        y: their labels, (n,).
        recipes: optimiser ``sgd`` without weight decay, steps as epochs; equal but for rate and
            seed.
        probe: images (m, C, H, W) and true labels (m,) that all networks are asked about.
        every: steps between two such records.
        after_step: is given the number of steps done.
        up_to_date: steps after which the models hold the current weights when it is called.

    Raises:
        LawscopeError: other layers, another optimiser, or recipes that differ.
    """
    steps, batch = _check(recipes)
    layers, modules = _layers_of(models)
    rates = layers[0].bias.new_tensor([recipe.lr for recipe in recipes])
    images, first_image = _pool(x)
    labels, first_label = torch.cat(list(y)), _starts(y)
    generators = [torch.Generator().manual_seed(recipe.seed) for recipe in recipes]
    records: list[tuple[Tensor, Tensor, Tensor]] = []

    def write_back() -> None:
        for layer, own in zip(layers, modules, strict=True):
            layer.write_to(own)

    def record() -> None:
        records.append(_ask(models, *probe))

    record()
    for step in range(1, steps + 1):
        place = (step - 1) % DRAWN_AHEAD
        if place == 0:
            ahead = min(DRAWN_AHEAD, steps - step + 1)
            drawn = torch.stack(
                [draw_rows(g, len(own), ahead, batch) for g, own in zip(generators, y, strict=True)]
            )  # (S, steps, B)
        rows = drawn[:, place]
        seen = images[rows + first_image].transpose(1, 2)
        _learn(layers, seen, labels[rows + first_label], rates)
        recording = step % every == 0
        if recording or step in up_to_date or step == steps:
            write_back()
        if recording:
            record()
        after_step(step)
    means, losses, accuracies = (torch.stack(each, dim=1) for each in zip(*records, strict=True))
    return Trajectories(torch.arange(len(records)) * every, means, losses, accuracies)


def draw_rows(generator: torch.Generator, samples: int, steps: int, batch: int) -> Tensor:
    """Draw which samples the next steps see, uniformly with replacement, (steps, batch)."""
    return torch.randint(samples, (steps, batch), generator=generator)


@torch.no_grad()
def _learn(layers: Sequence[Filters | Dense], x: Tensor, y: Tensor, rates: Tensor) -> None:
    """Take a step on images (S, C, B, H, W) with labels (S, B)."""
    for layer in layers:
        x = layer.forward(x)
    # The derivative of the mean cross-entropy by the logits (S, B, K) is (softmax − one-hot)/B.
    slope = F.softmax(x, dim=2)
    slope.scatter_add_(2, y[..., None], -torch.ones_like(slope[..., :1])).div_(y.shape[1])
    for index in reversed(range(len(layers))):
        slope = layers[index].backward(slope, rates, below=index > 0)


@dataclass(eq=False)
class Filters:
    """A convolution, 2×2 max pooling and ReLU of every network, on (S, C, B, H, W).

    ReLU comes after the pooling, which gives the same and is a quarter of the work.
    """

    weight: Tensor  # (S, O, C·k·k)
    bias: Tensor  # (S, O)
    kernel: int
    _patches: Tensor = field(init=False)
    _ways: list[Tensor] = field(init=False)
    _shape: torch.Size = field(init=False)

    def forward(self, x: Tensor) -> Tensor:
        k, self._shape = self.kernel, x.shape
        views = x.unfold(3, k, 1).unfold(4, k, 1)  # (S, C, B, H', W', k, k)
        self._patches = views.permute(0, 1, 5, 6, 2, 3, 4).flatten(4).flatten(1, 3)
        out = torch.baddbmm(self.bias[:, :, None], self.weight, self._patches)
        out = out.unflatten(2, (x.shape[2], *views.shape[3:5]))
        first, second, third, fourth = _corners(out)
        top, bottom = torch.maximum(first, second), torch.maximum(third, fourth)
        found = torch.maximum(top, bottom).relu_()
        # Of equal pixels the first has it, as in torch's pooling; a black background is all equal.
        lit, upper = found > 0, top >= bottom
        above, below = lit & upper, lit & ~upper
        left, right = first >= second, third >= fourth
        self._ways = [above & left, above & ~left, below & right, below & ~right]
        return found

    def backward(self, slope: Tensor, rates: Tensor, *, below: bool) -> Tensor:
        height, width = (size - self.kernel + 1 for size in self._shape[3:])
        spread = slope.new_empty(*slope.shape[:3], height, width)
        for corner, way in zip(_corners(spread), self._ways, strict=True):
            torch.mul(slope, way, out=corner)
        flat = spread.flatten(2)  # (S, O, B·H'·W')
        handed = self._fold(self.weight.mT @ flat) if below else slope
        moves = -rates[:, None]
        self.weight.addcmul_(moves[..., None], flat @ self._patches.mT)
        self.bias.addcmul_(moves, flat.sum(dim=2))
        return handed

    def _fold(self, patches: Tensor) -> Tensor:
        """Add the derivatives by patches (S, C·k·k, B·H'·W') up to those by pixels."""
        S, C, B, H, W = self._shape
        k = self.kernel
        parts = patches.view(S, C, k, k, B, H - k + 1, W - k + 1).permute(0, 1, 4, 2, 3, 5, 6)
        out = patches.new_zeros(S, C, B, H * W)
        out.index_add_(3, _pixels_of_patches(H, W, k), parts.flatten(3))
        return out.view(self._shape)

    def write_to(self, modules: Sequence[nn.Module]) -> None:
        _write(modules, self.weight, self.bias)


@dataclass(eq=False)
class Dense:
    """A dense layer of every network, with ReLU but for the last; takes (S, B, d) or images."""

    weight: Tensor  # (S, d, O): products with one row are fastest that way
    bias: Tensor  # (S, O)
    last: bool
    _inputs: Tensor = field(init=False)
    _out: Tensor = field(init=False)
    _shape: torch.Size = field(init=False)

    def forward(self, x: Tensor) -> Tensor:
        self._shape = x.shape
        self._inputs = x.transpose(1, 2).flatten(2) if x.dim() > 3 else x
        self._out = torch.baddbmm(self.bias[:, None], self._inputs, self.weight)
        return self._out if self.last else self._out.relu_()

    def backward(self, slope: Tensor, rates: Tensor, *, below: bool) -> Tensor:
        if not self.last:
            slope = slope * (self._out > 0)
        handed = slope @ self.weight.mT if below else slope
        moved = -rates[:, None, None] * slope
        if slope.shape[1] == 1:
            self.weight.addcmul_(self._inputs.mT, moved)
        else:
            self.weight.baddbmm_(self._inputs.mT, moved)
        self.bias += moved.sum(dim=1)
        if below and len(self._shape) > 3:
            S, C, B, H, W = self._shape
            return handed.view(S, B, C, H, W).transpose(1, 2)
        return handed

    def write_to(self, modules: Sequence[nn.Module]) -> None:
        _write(modules, self.weight.mT, self.bias)


@lru_cache(maxsize=8)
def _pixels_of_patches(height: int, width: int, kernel: int) -> Tensor:
    """Return which pixel each number of a patch is, for all patches of one image."""
    pixels = torch.arange(height * width).view(height, width)
    return pixels.unfold(0, kernel, 1).unfold(1, kernel, 1).permute(2, 3, 0, 1).flatten()


def _corners(x: Tensor) -> list[Tensor]:
    """Return the four pixels of every 2×2 window, row by row."""
    return [x[..., i::2, j::2] for i in (0, 1) for j in (0, 1)]


@torch.no_grad()
def _write(modules: Sequence[nn.Module], weight: Tensor, bias: Tensor) -> None:
    for index, module in enumerate(modules):
        assert isinstance(module, nn.Conv2d | nn.Linear)
        assert module.bias is not None
        module.weight.copy_(weight[index].reshape(module.weight.shape))
        module.bias.copy_(bias[index])


def _layers_of(
    models: Sequence[nn.Module],
) -> tuple[list[Filters | Dense], list[tuple[nn.Module, ...]]]:
    """Stack the weights of networks; with the modules that each stack came from."""
    leaves = [[m for m in model.modules() if not isinstance(m, nn.Sequential)] for model in models]
    kinds = [type(leaf) for leaf in leaves[0]]
    convolutions, dense = kinds.count(nn.Conv2d), kinds.count(nn.Linear)
    known = [nn.Conv2d, nn.ReLU, nn.MaxPool2d] * convolutions
    known += [nn.Flatten, *[nn.Linear, nn.ReLU] * dense][:-1]
    if kinds != known or not dense:
        got = ", ".join(kind.__name__ for kind in kinds)
        raise LawscopeError(
            "Networks in lock-step are convolutions, each with ReLU and MaxPool2d, Flatten, and "
            f"dense layers with ReLU between, as lenet is; got {got}."
        )
    layers: list[Filters | Dense] = []
    modules = [each for each in zip(*leaves, strict=True) if hasattr(each[0], "weight")]
    for index, own in enumerate(modules):
        weight = torch.stack([each.weight.detach() for each in own])
        bias = torch.stack([each.bias.detach() for each in own])
        if isinstance(own[0], nn.Conv2d):
            layers.append(Filters(weight.flatten(2), bias, own[0].kernel_size[0]))
        else:
            layers.append(Dense(weight.mT.contiguous(), bias, index == len(modules) - 1))
    return layers, modules


def _check(recipes: Sequence[Recipe]) -> tuple[int, int]:
    """Return how many steps to take, and the samples of each."""
    kinds = {(r.optimizer, r.weight_decay, r.epochs, r.batch_size) for r in recipes}
    if len(kinds) > 1:
        raise LawscopeError("Networks in lock-step share optimizer, steps and batch size.")
    ((optimizer, decay, steps, batch),) = kinds
    if (optimizer, decay) != ("sgd", 0.0):
        raise LawscopeError(
            f"Networks in lock-step learn by sgd without weight decay, not by {optimizer} with "
            f"{decay:g}; train them one by one."
        )
    return steps, batch


def _pool(x: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return images, those that networks share once, and the first of each network, (S, 1)."""
    unique = list({id(each): each for each in x}.values())
    starts = {id(each): start for each, start in zip(unique, _starts(unique), strict=True)}
    return torch.cat(unique), torch.stack([starts[id(each)] for each in x])


def _starts(parts: Sequence[Tensor]) -> Tensor:
    """Return where each part begins when they are joined, (parts, 1)."""
    lengths = torch.tensor([0, *map(len, parts[:-1])])
    return lengths.cumsum(dim=0)[:, None]


@torch.no_grad()
def _ask(models: Sequence[nn.Module], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean logits by class (S, K, p), loss (S,) and accuracy (S,) on some images."""
    logits = torch.stack([model(x) for model in models])
    classes = F.one_hot(y).to(logits.dtype)
    means = (classes / classes.sum(dim=0)).T @ logits
    losses = F.cross_entropy(logits.transpose(1, 2), y.expand(len(models), -1), reduction="none")
    right = (logits.argmax(dim=2) == y).to(logits.dtype)
    return means, losses.mean(dim=1), right.mean(dim=1)
