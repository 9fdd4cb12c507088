"""SGD, momentum and Adam with a learning rate per network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lawscope.training.recipe import MOMENTUM, Recipe

BETAS, EPSILON = (0.9, 0.999), 1e-8  # torch's defaults, which the papers use


class StackOptimizer:
    """torch's update rules on stacked parameters (S, …), with one rate per network.

    All parameters, and all gradients, are views into one long vector, so that a step is a handful
    of operations whatever the number of layers.

    Args:
        parameters: of shape (S, …); their memory is replaced by views.
        recipes: S of them, which differ in ``lr`` and ``weight_decay`` only.
    """

    def __init__(self, parameters: Sequence[Tensor], recipes: Sequence[Recipe]) -> None:
        self._kind = recipes[0].optimizer
        self._values = torch.cat([p.detach().flatten() for p in parameters])
        self._gradients = torch.zeros_like(self._values)
        start = 0
        for parameter in parameters:
            part = slice(start, start + parameter.numel())
            parameter.data = self._values[part].view(parameter.shape)
            parameter.grad = self._gradients[part].view(parameter.shape)
            start = part.stop
        self._rates = _spread([r.lr for r in recipes], parameters)
        self._decays = _spread([r.weight_decay for r in recipes], parameters)
        self._first = torch.zeros_like(self._values)  # momentum, or Adam's mean gradient
        self._second = torch.zeros_like(self._values) if self._kind == "adam" else self._first
        self._steps = 0

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self._gradients.zero_()

    def drop(self) -> None:
        """Divide every learning rate by ten."""
        self._rates *= 0.1

    @torch.no_grad()
    def step(self) -> None:
        """One update of all networks."""
        self._steps += 1
        self._gradients.addcmul_(self._decays, self._values)
        if self._kind == "adam":
            self._adam_step()
            return
        direction = self._gradients
        if self._kind == "momentum":
            direction = self._first.mul_(MOMENTUM).add_(self._gradients)
        self._values.addcmul_(self._rates, direction, value=-1)

    def _adam_step(self) -> None:
        mean, square = BETAS
        self._first.lerp_(self._gradients, 1 - mean)
        self._second.mul_(square).addcmul_(self._gradients, self._gradients, value=1 - square)
        # The gradients have been used: their memory takes the denominator √v̂ + ε.
        spread = torch.sqrt(self._second, out=self._gradients)
        spread.div_((1 - square**self._steps) ** 0.5).add_(EPSILON)
        spread.reciprocal_().mul_(self._first).mul_(self._rates)
        self._values.sub_(spread, alpha=1 / (1 - mean**self._steps))


def _spread(numbers: Sequence[float], parameters: Sequence[Tensor]) -> Tensor:
    """One number per network, repeated for each of its parameters in the order of the vector."""
    column = torch.tensor(numbers, dtype=parameters[0].dtype)
    return torch.cat([column.repeat_interleave(p[0].numel()) for p in parameters])
