"""Local elasticity: the kernel from gradients of single samples, against a loop over them."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.row import Row, at_least, interleaved
from lawscope.arrays import FloatArray
from lawscope.capture.functional import WeightFunction
from lawscope.data.batches import Batch
from lawscope.laws.elasticity.kernel import multiply_gradients, normalise

PROBES, CLASSES, REPEATS, BAR = 80, 10, 5, 5.0


def mlp() -> nn.Module:
    """100–64–64–10."""
    layers = [nn.Linear(100, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES)]
    return nn.Sequential(*layers)


def lenet() -> nn.Module:
    """Two convolutions and three linear layers on 28×28 images."""
    convolutions = [nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)]
    convolutions += [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers = [nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES)]
    return nn.Sequential(*convolutions, *layers)


def loop(model: nn.Module, x: Tensor) -> FloatArray:
    """A backward pass for every logit of every sample, and one product of all gradients."""
    weights, rows = list(model.parameters()), []
    for sample in x.split(1):
        for column in range(CLASSES):
            found = torch.autograd.grad(model(sample)[0, column], weights)
            rows.append(torch.cat([gradient.flatten() for gradient in found]))
    gradients = torch.stack(rows).view(len(x), -1)
    kernel = gradients @ gradients.T
    size = kernel.diagonal().sqrt()
    return np.asarray(kernel / size / size[:, None])


def rows() -> Iterator[Row]:
    """Of 80 probes and 10 logits, in float64, as ``ls.elasticity`` does by default."""
    for name, model, shape in (("MLP", mlp(), (100,)), ("LeNet", lenet(), (1, 28, 28))):
        x = torch.randn(PROBES, *shape, generator=torch.Generator().manual_seed(0))
        double, inputs = copy.deepcopy(model).double().eval(), x.double()

        def ours(model: nn.Module = model, x: Tensor = x) -> FloatArray:
            function = WeightFunction(model, [Batch((row,), {}, None) for row in x.split(1)])
            with function.running():
                return normalise(multiply_gradients(function, range(CLASSES)).kernel)

        def theirs(model: nn.Module = double, x: Tensor = inputs) -> FloatArray:
            return loop(model, x)

        assert np.allclose(ours(), theirs(), atol=1e-9)
        pair = interleaved(ours, theirs, REPEATS)
        title = f"tangent kernel, {name}, {PROBES} probes, {CLASSES} logits"
        yield at_least(title, pair[0], "loop over samples and logits", pair[1], BAR)
