"""One step of gradient descent from where a network stands: how steep is it, and how sharp?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lawscope.arrays import FloatArray
from lawscope.capture.functional import WeightFunction, Weights, split
from lawscope.capture.session import Loss, Session
from lawscope.data.source import Source
from lawscope.errors import LawscopeError

PRECISION = 1e-6  # relative, of the sharpness


class Descent(NamedTuple):
    """The loss around a point."""

    loss: float
    gradient: float  # |∇L|
    sharpness: float  # largest eigenvalue of the Hessian
    stepped: float  # loss after one step of length 1/sharpness; NaN where that is not positive


class Landscape:
    """The mean loss of a network over data as a function of its weights, in float64, in eval mode.

    Args:
        model: the network; left as it was found.
        source: data, all of it held in memory.
        loss: of outputs and labels, the mean over a batch.
    """

    def __init__(self, model: nn.Module, source: Source, loss: Loss) -> None:
        session = Session(model, source)
        batches = [session.fit(batch) for batch in source]
        self.function = WeightFunction(session.model, split(batches[0].head(1)), loss)
        self.batches = [self.function.as_double(batch) for batch in batches]
        self.samples = sum(batch.size for batch in batches)

    def gradient(self, weights: Weights) -> tuple[float, Weights]:
        """Return the loss and its gradient."""
        total, slopes = 0.0, {name: torch.zeros_like(value) for name, value in weights.items()}
        with self.function.running(), torch.enable_grad():
            for batch in self.batches:
                leaves = {n: w.detach().requires_grad_() for n, w in weights.items()}
                share = self.function.loss_of(leaves, batch) * (batch.size / self.samples)
                found = torch.autograd.grad(
                    share, list(leaves.values()), allow_unused=True, materialize_grads=True
                )
                total += float(share.detach())
                for name, slope in zip(weights, found, strict=True):
                    slopes[name] += slope
        if not np.isfinite(total) or not all(slope.isfinite().all() for slope in slopes.values()):
            raise LawscopeError(
                "The loss or its gradient is NaN or infinite; look at the weights, the data and "
                "the loss."
            )
        return total, slopes

    def curve(self, weights: Weights, direction: Weights) -> Weights:
        """Return the Hessian times a direction."""
        curved = {name: torch.zeros_like(value) for name, value in weights.items()}
        # Fused attention has no second derivative.
        with self.function.running(), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            for batch in self.batches:
                leaves = {n: w.detach().requires_grad_() for n, w in weights.items()}
                inputs = list(leaves.values())
                share = self.function.loss_of(leaves, batch) * (batch.size / self.samples)
                slopes = torch.autograd.grad(
                    share, inputs, create_graph=True, allow_unused=True, materialize_grads=True
                )
                along = sum((s * d).sum() for s, d in zip(slopes, direction.values(), strict=True))
                if not isinstance(along, Tensor) or not along.requires_grad:
                    continue  # a loss that is linear in the weights
                found = torch.autograd.grad(
                    along, inputs, allow_unused=True, materialize_grads=True
                )
                for name, value in zip(weights, found, strict=True):
                    curved[name] += value
        return curved

    def sharpness(self, weights: Weights) -> float:
        """Return the largest eigenvalue of the Hessian, by Lanczos iteration."""
        size = sum(value.numel() for value in weights.values())

        def multiply(vector: FloatArray) -> FloatArray:
            direction = _split_up(torch.from_numpy(vector.ravel()), weights)
            return _flatten(self.curve(weights, direction)).numpy()

        hessian = LinearOperator((size, size), matvec=multiply, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(size)
        if size == 1:
            return float(multiply(np.ones(1))[0])
        values = eigsh(hessian, k=1, which="LA", v0=start, tol=PRECISION, return_eigenvectors=False)
        return float(values[0])

    def descend(self, weights: Weights | None = None) -> Descent:
        """Return loss, gradient and sharpness at a point, and the loss after one stable step."""
        weights = self.function.weights if weights is None else weights
        loss, slopes = self.gradient(weights)
        sharpness = self.sharpness(weights)
        length = float(_flatten(slopes).norm())
        stepped = float("nan")
        if sharpness > 0:
            there = {n: w - slopes[n] / sharpness for n, w in weights.items()}
            stepped, _ = self.gradient(there)
        return Descent(loss, length, sharpness, stepped)


def _flatten(weights: Weights) -> Tensor:
    return torch.cat([value.detach().flatten() for value in weights.values()]).cpu()


def _split_up(vector: Tensor, like: Weights) -> Weights:
    parts = vector.split([value.numel() for value in like.values()])
    return {
        name: part.view(value.shape).to(value)
        for part, (name, value) in zip(parts, like.items(), strict=True)
    }
