"""The layers of a stack with their derivatives, on memory that is used again at every step.

Features are (S, H, B): network, feature, sample. Autograd would give the same derivatives; written
out, a step takes three quarters of the time, because nothing is allocated and gradients land where
the optimiser reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

Parts = dict[str, Tensor]


class Layer(Protocol):
    """A step of the forward pass that can be taken back."""

    def forward(self, x: Tensor) -> Tensor:
        """Return features after this layer, in training mode."""

    def backward(self, above: Tensor, *, below: bool) -> Tensor:
        """Return the derivative by the input, if needed ``below``; keep those by weights."""


class Linear:
    """y = W x + b of every network, W (S, H, d); ``gradients`` is empty where nothing learns.

    ``centred``: what follows takes the mean off again, so b is not added and has no derivative.
    """

    def __init__(self, values: Parts, gradients: Parts, *, centred: bool = False) -> None:
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
        """Compute ∂W = ∂y xᵀ, ∂b = Σ ∂y, ∂x = Wᵀ ∂y."""
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
    twice and take half the time of those for BatchNorm.
    """

    def __init__(self, values: Parts, gradients: Parts, eps: float) -> None:
        self._values, self._gradients, self._eps = values, gradients, eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise with the statistics of the batch."""
        weight, bias = (self._values[name].reshape(-1) for name in ("weight", "bias"))
        channels, samples = len(weight), x.shape[2]
        self._x = x
        out, mean, inverse = torch.native_group_norm(
            x.view(1, channels, samples), weight, bias, 1, channels, samples, channels, self._eps
        )
        self.mean, self.inverse = mean.view(x.shape[:2]), inverse.view(x.shape[:2])
        return out.view(x.shape)

    def backward(self, above: Tensor, *, below: bool) -> Tensor:
        """Compute the derivatives by input, weight and bias in one kernel."""
        channels, samples = self.mean.numel(), above.shape[2]
        slope, weight, bias = torch.ops.aten.native_group_norm_backward(
            above.reshape(1, channels, samples),
            self._x.view(1, channels, samples),
            self.mean.view(1, channels),
            self.inverse.view(1, channels),
            self._values["weight"].reshape(-1),
            *(1, channels, samples, channels),
            [below, bool(self._gradients), bool(self._gradients)],
        )
        if self._gradients:
            self._gradients["weight"].copy_(weight.view(self.mean.shape))
            self._gradients["bias"].copy_(bias.view(self.mean.shape))
        return slope.view(above.shape) if below else above


class Relu:
    """max(x, 0), written over its input, which no other layer reads again."""

    def forward(self, x: Tensor) -> Tensor:
        """Cut off what is negative."""
        self._y = x.relu_()
        return self._y

    def backward(self, above: Tensor, *, below: bool) -> Tensor:
        """Pass on where the output is positive."""
        torch.ops.aten.threshold_backward.grad_input(above, self._y, 0, grad_input=above)
        return above


class RunningStatistics:
    """What BatchNorm layers remember of their batches, followed for all of them at once.

    As in ``nn.BatchNorm1d``, with the unbiased variance. Each layer comes with a module that has
    its ε and momentum, with its parts, whose running statistics become views of memory here, and
    with what the layer below should have added to its input, which only the running mean sees.
    """

    def __init__(
        self,
        norms: Sequence[BatchNorm],
        likes: Sequence[nn.BatchNorm1d],
        values: Sequence[Parts],
        shifts: Sequence[Tensor | None],
    ) -> None:
        self._norms = norms
        self._shifts = [
            torch.zeros_like(parts["running_mean"]) if shift is None else shift
            for parts, shift in zip(values, shifts, strict=True)
        ]
        widths = [parts["running_mean"].shape[1] for parts in values]
        self._mean = _share(values, "running_mean", widths)
        self._var = _share(values, "running_var", widths)
        per_layer = [(like.eps, like.momentum or 0.0) for like in likes]
        per_channel = self._mean.new_tensor(per_layer).repeat_interleave(torch.tensor(widths), 0)
        self._eps, self._momentum = per_channel.unbind(1)

    def follow(self, samples: int) -> None:
        """Take in the batch of ``samples`` that the layers have just normalised."""
        mean = torch.cat([norm.mean for norm in self._norms], dim=1)
        self._mean.lerp_(mean.add_(torch.cat(self._shifts, dim=1)), self._momentum)
        inverse = torch.cat([norm.inverse for norm in self._norms], dim=1)
        var = inverse.pow_(-2).sub_(self._eps).clamp_min_(0)
        self._var.lerp_(var.mul_(samples / (samples - 1)), self._momentum)


def _share(values: Sequence[Parts], name: str, widths: Sequence[int]) -> Tensor:
    """Join one entry of every layer, (S, ΣH), and put views of it where they were."""
    joined = torch.cat([parts[name] for parts in values], dim=1)
    for parts, view in zip(values, joined.split(list(widths), dim=1), strict=True):
        parts[name] = view
    return joined
