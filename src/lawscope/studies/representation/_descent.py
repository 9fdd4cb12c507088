"""Fully connected networks without biases, several at once, with the gradients of every sample.

Written out instead of left to autograd, since every step needs g_b = ∂ℓ/∂h_b of each sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lawscope.lazy import Tensor, torch
from lawscope.studies.representation._networks import RELU, bias_free


class Pass(NamedTuple):
    """What a batch leaves in every layer.

    Attributes:
        inputs: h_a of every layer, each of shape (networks, d_a, n).
        gradients: g_b of every sample, each of shape (networks, d_b, n).
        loss: cross-entropy, shape (networks,).
    """

    inputs: list[Tensor]
    gradients: list[Tensor]
    loss: Tensor


@dataclass
class Stack:
    """Networks of one shape with the weights of each layer, (networks, d_b, d_a), float64."""

    weights: list[Tensor]
    activation: str

    def look(self, x: Tensor, y: Tensor) -> Pass:
        """Return inputs and gradients of samples x (networks, n, d) with labels y (networks, n)."""
        h = x.transpose(1, 2)
        inputs, slopes = [h], []
        for W in self.weights[:-1]:
            before = W @ h
            h = before.clamp(min=0) if self.activation == RELU else before.tanh()
            slopes.append((before > 0).to(h) if self.activation == RELU else 1 - h**2)
            inputs.append(h)
        logs = torch.log_softmax(self.weights[-1] @ h, dim=1)
        right = y[:, None]
        g = logs.exp().scatter_add(1, right, -torch.ones_like(right, dtype=h.dtype))
        gradients = [g]
        for W, slope in zip(self.weights[:0:-1], slopes[::-1], strict=True):
            g = W.transpose(1, 2) @ g * slope
            gradients.append(g)
        loss = -logs.gather(1, right).mean(dim=(1, 2))
        return Pass(inputs, gradients[::-1], loss)

    def step(self, found: Pass, rate: float, decay: float) -> list[Tensor]:
        """Move W by −ηF, F = ∇_W ℓ + λW; return F of every layer."""
        moves = []
        for index, W in enumerate(self.weights):
            h, g = found.inputs[index], found.gradients[index]
            F = g @ h.transpose(1, 2) / h.shape[2] + decay * W
            self.weights[index] = W - rate * F
            moves.append(F)
        return moves

    def loss(self, x: Tensor, y: Tensor) -> list[float]:
        """Return the cross-entropy of each network."""
        return [float(each) for each in self.look(x, y).loss]


def begin(seeds: Sequence[int], activation: str) -> Stack:
    """Return networks with the first weights of their seeds."""
    each = []
    for seed in seeds:
        torch.manual_seed(seed)
        each.append([p.detach().double() for p in bias_free(activation).parameters()])
    return Stack([torch.stack(layer) for layer in zip(*each, strict=True)], activation)


class Batches:
    """Random batches, by the seed of each network, so that more seeds leave the others as is."""

    def __init__(self, x: Tensor, y: Tensor, seeds: Sequence[int], size: int) -> None:
        self._x, self._y, self._size = x.double(), y, size
        self._random: list[torch.Generator] = [torch.Generator().manual_seed(s) for s in seeds]

    def draw(self) -> tuple[Tensor, Tensor]:
        """Return samples (networks, n, d) and labels (networks, n)."""
        rows = torch.stack(
            [torch.randint(len(self._x), (self._size,), generator=g) for g in self._random]
        )
        return self._x[rows], self._y[rows]

    def all(self) -> tuple[Tensor, Tensor]:
        """Return all samples, for every network."""
        count = len(self._random)
        return self._x.expand(count, *self._x.shape), self._y.expand(count, -1)
