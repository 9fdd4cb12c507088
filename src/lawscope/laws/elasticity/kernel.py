"""Products of the gradients of a few samples: of logits with one another, and with the loss.

Where a layer meets few positions of a sample its gradients Σ δ hᵀ are never made: the product of
two of them is Σ (δ·δ′)(h·h′) over pairs of positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from lawscope.arrays import FloatArray
from lawscope.capture.functional import BYTES, WeightFunction, blocks_of
from lawscope.capture.sample_gradients import LayerRun, MatrixLayer, SampleLayer
from lawscope.progress import Advance


@dataclass(frozen=True, eq=False)
class Products:
    """Sums over all weights.

    Attributes:
        kernel: K(x, x′) = Σ_c ⟨∇_θ f_c(x), ∇_θ f_c(x′)⟩ over some logits c, shape (n, n).
        changes: ⟨∇_θ f_c(x′), ∇_θ ℓ(x)⟩ of x (row), x′ and c: what a step on x takes off f_c(x′),
            per length of the step in its limit, shape (n, n, K); empty where it was not asked for.
    """

    kernel: Tensor
    changes: Tensor


def multiply_gradients(
    function: WeightFunction,
    columns: Sequence[int],
    memory: int = 10**9,
    width: int = 0,
    advance: Advance = lambda steps: None,
) -> Products:
    """Multiply gradients of single samples with one another.

    Args:
        function: the network on the probes.
        columns: the logits that the kernel sums over.
        memory: bytes of gradients, and of what layers read, that are held at a time.
        width: number of logits that changes are asked for; 0 for none.
        advance: told of every probe done.
    """
    count = len(function.samples)
    zeros = torch.zeros(count, count, width + 1, dtype=torch.float64, device=function.device)
    products = Products(zeros[..., width], zeros[..., :width])
    names = set[str]()
    if len(function.groups) == 1:
        run = LayerRun(function, function.groups[0][1])
        names = run.names
        multiply_layers(function, run, columns, memory, products, advance)
    rest = [name for name in function.weights if name not in names]
    if rest:
        multiply_rest(function, columns, rest, memory, products)
    return products


def normalise(kernel: Tensor) -> FloatArray:
    """Return K(x, x′)/√(K(x, x) K(x′, x′)), NaN for a probe whose logits have no gradient.

    The kernel does not depend on loss and labels; of one logit this is the normalised kernelised
    similarity of He & Su 2020 as η → 0.
    """
    size = kernel.diagonal().sqrt()
    normalised: FloatArray = (kernel / size / size[:, None]).clamp(-1, 1).cpu().numpy()
    return normalised


def multiply_layers(
    function: WeightFunction,
    run: LayerRun,
    columns: Sequence[int],
    memory: int,
    products: Products,
    advance: Advance,
) -> None:
    """Add the products over the weights of layers, from one backward pass for each logit."""
    count, width = len(products.kernel), products.changes.shape[2]
    losses: Sequence[Tensor | None] = [None] * len(run.layers)
    if width:
        losses = run.slopes(function.loss_slopes(run.output, run.batch))
    budget = Budget(memory // 2)
    layers = [LayerProducts(*pair, budget) for pair in zip(run.layers, losses, strict=True)]
    wanted = range(width) if width else columns
    for i, column in enumerate(wanted):
        direction = torch.zeros_like(run.output, memory_format=torch.contiguous_format)
        direction.view(count, -1)[:, column] = 1
        for layer, slope in zip(layers, run.slopes(direction), strict=True):
            own, *with_loss = layer.multiply(slope)
            if column in columns:
                products.kernel.add_(own)
            for each in with_loss:
                products.changes[..., column] += each
        advance(count * (i + 1) // len(wanted) - count * i // len(wanted))


def multiply_rest(
    function: WeightFunction,
    columns: Sequence[int],
    names: Sequence[str],
    memory: int,
    products: Products,
) -> None:
    """Add the products over these weights, from the gradients of single samples."""
    width = products.changes.shape[2]
    weights = {name: function.weights[name] for name in names}
    blocks = blocks_of(len(products.kernel), weights, memory // 3)
    for rows in blocks:
        here = slice(rows.start, rows.stop)
        losses = function.loss_gradients(rows, names) if width else {}
        for column in range(width) if width else columns:
            left = function.logit_gradients(column, rows, names) if column in columns else {}
            for others in blocks:
                there = slice(others.start, others.stop)
                right = left
                if others is not rows or not left:
                    right = function.logit_gradients(column, others, names)
                for name, gradient in right.items():
                    if left:
                        products.kernel[here, there] += (
                            left[name].flatten(1) @ gradient.flatten(1).T
                        )
                    if width:
                        products.changes[here, there, column] += (
                            losses[name].flatten(1) @ gradient.flatten(1).T
                        )


class Budget:
    """Bytes that may be held for the next logit; what is beyond them is computed again."""

    def __init__(self, memory: int) -> None:
        self.memory, self.room = memory, memory

    def take(self, size: int) -> bool:
        """Return whether so many bytes are left, and take them."""
        fits = size <= self.room
        self.room -= size if fits else 0
        return fits


class LayerProducts:
    """Products of the gradients of single samples with respect to the weights of one layer.

    Args:
        layer: the layer, on all samples.
        loss: gradient of the losses at its output, or None.
        budget: what may be held.
    """

    def __init__(self, layer: SampleLayer, loss: Tensor | None, budget: Budget) -> None:
        self.layer, self.loss, self.room = layer, loss, budget.memory // 4
        self.pairs: Tensor | None = None  # h·h′, shape (G, n·P, n·P)
        if isinstance(layer, MatrixLayer) and "weight" in layer.names:
            samples, groups, positions, inputs = layer.sizes
            size = BYTES * groups * (samples * positions) ** 2
            if positions**2 <= inputs and size <= self.room and budget.take(size):
                self.pairs = layer.multiply_pairs()
            elif budget.take(layer.row_bytes):
                layer.hold_rows()
        self.of_loss: list[Tensor] | None = None
        sizes = [getattr(layer.module, name).numel() for name in layer.names]
        if loss is not None and budget.take(BYTES * len(loss) * sum(sizes)):
            self.of_loss = list(self._parts(loss))

    def multiply(self, slope: Tensor) -> list[Tensor]:
        """Return ⟨∇f(x), ∇f(x′)⟩ of a logit f, and ⟨∇ℓ(x), ∇f(x′)⟩ if there is a loss, (n, n)."""
        sums = [slope.new_zeros(len(slope), len(slope)) for _ in range(1 + (self.loss is not None))]
        kept = self._parts(self.loss) if self.of_loss is None else self.of_loss
        for part, of_loss in zip_longest(self._parts(slope), kept):
            for total, other in zip(sums, (part, of_loss), strict=False):
                total += self._product(other, part, len(slope))
        return sums

    def _product(self, left: Tensor, right: Tensor, samples: int) -> Tensor:
        if left.dim() == 2:
            return left @ right.T
        assert self.pairs is not None
        products = (left @ right.transpose(1, 2)).mul_(self.pairs)
        return products.view(len(left), samples, -1, samples, left.shape[1] // samples).sum(
            (0, 2, 4)
        )

    def _parts(self, slope: Tensor | None) -> Iterator[Tensor]:
        """Yield gradients (n, p), and δ of shape (G, n·P, O) where ``pairs`` belong to it."""
        if slope is None:
            return
        layer, names = self.layer, set(self.layer.names)
        if isinstance(layer, MatrixLayer) and "weight" in names:
            names.remove("weight")
            if self.pairs is not None:
                yield _fold(layer.split(slope))
            else:
                samples, groups, _, inputs = layer.sizes
                units = max(1, self.room // (BYTES * samples * groups * inputs))
                block = max(1, self.room * samples // max(1, layer.row_bytes))
                parts = [slice(start, start + block) for start in range(0, samples, block)]
                for some in layer.split(slope).split(units, dim=3):
                    found = [layer.take(part).multiply(some[part]) for part in parts]
                    yield torch.cat(found).flatten(1)
        for name in sorted(names):
            yield layer.gradient(name, slope).flatten(1)


def _fold(x: Tensor) -> Tensor:
    """Return rows (n, G, P, d) as (G, n·P, d)."""
    return x.transpose(0, 1).flatten(1, 2)
