"""Gradients of single samples from one backward pass, layer by layer.

Of a layer y = W h + b a sample has the gradients Σ δ hᵀ and Σ δ over its positions, δ being the
gradient of y: what the layer read and the gradient of what it made are enough. A convolution is
such a layer on patches, an embedding one on tokens as rows of zeros with a one, which are not made.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call
from torch.nn import functional as F

from lawscope.capture.linear import keeps_turned
from lawscope.capture.outputs import find_logits
from lawscope.data.batches import Batch

if TYPE_CHECKING:
    from lawscope.capture.functional import WeightFunction, Weights

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
KNOWN = (nn.Linear, nn.Embedding, *CONVOLUTIONS, *NORMS)
NAMES = ("weight", "bias")
PROVEN = 4  # samples on which it is tried
EXACT = 1e-9  # relative difference that is rounding


class SampleLayer:
    """One use of a layer, on rows of single samples.

    Args:
        path: of the module.
        module: the layer.
        read: what came in, with a first axis of samples.
        made: what it made of that.
    """

    def __init__(self, path: str, module: nn.Module, read: Tensor, made: Tensor) -> None:
        self.path, self.module, self.read = path, module, read
        # The edge, because what follows may overwrite what was made.
        self.edge, self.shape = get_gradient_edge(made), made.shape
        self.names: set[str] = set()  # of the weights, "weight" or "bias", that gradients are of

    @property
    def row_bytes(self) -> int:
        """Bytes of what it read, unfolded into rows; 0 where that is not done."""
        return 0

    def take(self, samples: slice) -> Self:
        """Return the same of some samples."""
        part = copy.copy(self)
        part.read = self.read[samples]
        return part

    def full(self, name: str) -> str:
        """Return the name of a weight in the network."""
        return f"{self.path}.{name}" if self.path else name

    def gradient(self, name: str, slope: Tensor) -> Tensor:
        """Return the gradients of each sample of the weight or the bias."""
        raise NotImplementedError

    def energies(self, name: str, slope: Tensor) -> list[Tensor]:
        """Return Σ g² of each sample over all axes of a weight but one, for each axis."""
        return sum_squares(self.gradient(name, slope))


class MatrixLayer(SampleLayer):
    """A matrix W (O, I) for each of G groups, at P positions of each of n samples."""

    held: Tensor | None = None  # rows

    def take(self, samples: slice) -> Self:
        part = super().take(samples)
        part.held = None if self.held is None else self.held[samples]
        return part

    def hold_rows(self) -> None:
        """Keep the rows, so that they are made once."""
        self.held = self.rows

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """n, G, P and I."""
        outputs = self.shape[1 if isinstance(self.module, CONVOLUTIONS) else -1]
        positions = self.shape[1:].numel() // outputs
        weight: Any = self.module.weight
        groups: int = getattr(self.module, "groups", 1)
        return len(self.read), groups, positions, weight.numel() // outputs

    @property
    def row_bytes(self) -> int:
        return 8 * math.prod(self.sizes)

    @property
    def rows(self) -> Tensor:
        """What W is multiplied with, shape (n, G, P, I)."""
        if self.held is not None:
            return self.held
        module, x = self.module, self.read
        rows: Tensor
        if not isinstance(module, CONVOLUTIONS):
            return x.reshape(len(x), 1, -1, x.shape[-1])
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        x = F.pad(x, module._reversed_padding_repeated_twice, mode)
        kernel, dilation, stride = module.kernel_size, module.dilation, module.stride
        if isinstance(module, nn.Conv1d):
            x, kernel, dilation, stride = x[:, :, None], (1, *kernel), (1, *dilation), (1, *stride)
        patches = F.unfold(x, kernel, dilation=dilation, stride=stride)
        rows = patches.unflatten(1, (module.groups, -1)).transpose(2, 3)
        return rows

    def split(self, slope: Tensor) -> Tensor:
        """Return the gradient of the output, shape (n, G, P, O)."""
        if isinstance(self.module, CONVOLUTIONS):
            maps: Tensor = slope.flatten(2).unflatten(1, (self.module.groups, -1))
            return maps.transpose(2, 3)
        return slope.reshape(len(slope), 1, -1, slope.shape[-1])

    def multiply_pairs(self) -> Tensor:
        """Return h·h′ of all positions of all samples, shape (G, n·P, n·P)."""
        rows = self.rows.transpose(0, 1).flatten(1, 2)
        return rows @ rows.transpose(1, 2)

    def multiply(self, slopes: Tensor) -> Tensor:
        """Return Σ δ hᵀ of each sample, shape (n, G, O, I), from δ of shape (n, G, P, O)."""
        return slopes.transpose(2, 3) @ self.rows

    def gradient(self, name: str, slope: Tensor) -> Tensor:
        slopes = self.split(slope)
        if name == "bias":
            return slopes.sum(dim=2).flatten(1)
        found = self.multiply(slopes)
        if isinstance(self.module, nn.Embedding) or keeps_turned(self.module):
            found = found.transpose(2, 3)
        weight: Tensor = getattr(self.module, name)
        return found.reshape(len(slope), *weight.shape)

    def energies(self, name: str, slope: Tensor) -> list[Tensor]:
        if name == "bias" or self.sizes[1:3] != (1, 1) or type(self.module) is not nn.Linear:
            return super().energies(name, slope)
        # (δ hᵀ)² needs no product of the two.
        made, read = self.split(slope)[:, 0, 0].square(), self.rows[:, 0, 0].square()
        return [made * read.sum(1, keepdim=True), read * made.sum(1, keepdim=True)]


class EmbeddingLayer(MatrixLayer):
    """A table of vectors, read at tokens: h is 1 at the token, and 0 where that is padding."""

    module: nn.Embedding

    @property
    def row_bytes(self) -> int:
        return 0

    def hold_rows(self) -> None:
        """Hold nothing, since rows are never made."""

    @property
    def counts(self) -> Tensor:
        """Whether a position has a gradient, shape (n, P)."""
        tokens, padding = self.read.flatten(1), self.module.padding_idx
        return torch.ones_like(tokens).bool() if padding is None else tokens.ne(padding)

    def multiply_pairs(self) -> Tensor:
        tokens, counts = self.read.flatten(), self.counts.flatten()
        return ((tokens[:, None] == tokens) & counts)[None].double()

    def multiply(self, slopes: Tensor) -> Tensor:
        samples, groups, _, outputs = slopes.shape
        found = slopes.new_zeros(samples, groups, outputs, self.module.num_embeddings)
        values = (slopes * self.counts[:, None, :, None]).transpose(2, 3)
        tokens = self.read.reshape(samples, 1, 1, -1).expand_as(values)
        return found.scatter_add_(3, tokens, values)


class NormLayer(SampleLayer):
    """γ∘x̂ + β: a norm with a scale, in eval mode."""

    def gradient(self, name: str, slope: Tensor) -> Tensor:
        weight: Tensor = getattr(self.module, name)
        if name == "weight":
            slope = slope * self._normalise(weight)
        first = slope.dim() - weight.dim() if isinstance(self.module, LAST_AXES) else 1
        others = [axis for axis in range(1, slope.dim()) if not 0 <= axis - first < weight.dim()]
        return slope.sum(dim=others) if others else slope

    def _normalise(self, weight: Tensor) -> Tensor:
        tensors = {n: t.to(self.read) for n, t in self.module.named_buffers() if t.dim()}
        tensors["weight"] = torch.ones_like(weight, dtype=self.read.dtype)
        if getattr(self.module, "bias", None) is not None:
            tensors["bias"] = torch.zeros_like(weight, dtype=self.read.dtype)
        found: Tensor = functional_call(self.module, tensors, (self.read,))
        return found.detach()


LAST_AXES = (nn.LayerNorm, nn.RMSNorm)  # whose weights are of the last axes, not of the channels


class LayerRun:
    """One run of a network on a batch, layer by layer.

    Attributes:
        batch: the samples.
        output: the logits with their graph, as the network gives them.
        layers: those that ran once, on rows of single samples, with weights that nothing else uses.
        names: of the weights whose gradients they have.
    """

    def __init__(self, function: WeightFunction, batch: Batch) -> None:
        if function.by_layer is None:
            function.by_layer = _prove(function, batch.head(PROVEN))
        self.batch = batch
        self.output, layers, _ = _see_layers(function, batch)
        for layer in layers:
            layer.names = {name for name in NAMES if layer.full(name) in function.by_layer}
        self.layers = [layer for layer in layers if layer.names]
        self.names = {layer.full(name) for layer in self.layers for name in layer.names}

    def slopes(self, direction: Tensor) -> list[Tensor]:
        """Return the gradient of ⟨direction, output⟩ at the output of every layer."""
        return _slopes(self.output, direction, self.layers)


def compute_energies(
    function: WeightFunction, batch: Batch, names: Sequence[str], memory: int
) -> dict[str, list[Tensor]]:
    """Return Σ g² of these weights, g = ∇_θ ℓ of single samples, over all axes but one, for each.

    Each is of shape (samples, length of the axis). Patches of images are unfolded within the
    memory, in bytes, or one sample at a time.
    """
    run = LayerRun(function, batch)
    found: dict[str, list[Tensor]] = {}
    wanted = run.names.intersection(names)
    if wanted:
        slopes = run.slopes(function.loss_slopes(run.output, batch))
        for layer, slope in zip(run.layers, slopes, strict=True):
            parts = split_samples(batch.size, layer.row_bytes, memory)
            for name in layer.names:
                if layer.full(name) in wanted:
                    each = [layer.take(rows).energies(name, slope[rows]) for rows in parts]
                    found[layer.full(name)] = [torch.cat(c) for c in zip(*each, strict=True)]
    rest = [name for name in names if name not in wanted]
    if rest:
        gradients = function.loss_gradients_of(batch, rest)
        found |= {name: sum_squares(gradient) for name, gradient in gradients.items()}
    return found


def split_samples(samples: int, size: int, memory: int) -> list[slice]:
    """Return samples, which take ``size`` bytes together, in parts that fit the memory."""
    step = max(1, samples * memory // max(1, size))
    return [slice(start, start + step) for start in range(0, samples, step)]


def sum_squares(gradient: Tensor) -> list[Tensor]:
    """Return Σ g² of each sample over all axes of a weight but one, for each axis."""
    squares, axes = gradient.square(), range(1, gradient.dim())
    if len(axes) < 2:
        return [squares] * len(axes)
    return [squares.sum([other for other in axes if other != axis]) for axis in axes]


def _see_layers(
    function: WeightFunction, batch: Batch
) -> tuple[Tensor, list[SampleLayer], Weights]:
    """Run the network; return its output, the layers that ran once, and its weights as leaves."""
    calls: dict[str, list[SampleLayer | None]] = {}

    def see(path: str, module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        calls.setdefault(path, []).append(_open_layer(path, module, args, output, batch.size))

    with ExitStack() as stack, torch.enable_grad():
        for path, module in function.model.named_modules():
            if type(module) in KNOWN or keeps_turned(module):
                stack.callback(module.register_forward_hook(partial(see, path)).remove)
        leaves = {n: w.detach().requires_grad_() for n, w in function.weights.items()}
        output = find_logits(function.run(leaves, batch))
    assert output is not None
    once = [those[0] for those in calls.values() if len(those) == 1]
    return output, [layer for layer in once if layer is not None], leaves


def _prove(function: WeightFunction, batch: Batch) -> set[str]:
    """Return the weights whose gradients, of the first sample and of all, are what layers say."""
    output, layers, leaves = _see_layers(function, batch)
    for layer in layers:
        layer.names = {name for name in NAMES if layer.full(name) in leaves}
    names = [layer.full(name) for layer in layers for name in sorted(layer.names)]
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(output.shape, generator=generator, dtype=torch.float64)
    proven = set(names)
    for samples in (1, len(mix)):
        direction = mix.to(output)
        direction[samples:] = 0
        weights = [leaves[name] for name in names]
        expected = _differentiate(output, direction, [(each, each.shape) for each in weights])
        by_name = dict(zip(names, expected, strict=True))
        rows = [slice(row, row + 1) for row in range(samples)]
        for layer, slope in zip(layers, _slopes(output, direction, layers), strict=True):
            alone = not bool(slope[samples:].any())
            for name in layer.names:
                gap = whole = by_name[layer.full(name)]
                for row in rows:  # of one sample at a time, since tables may be large
                    gap = gap - layer.take(row).gradient(name, slope[row])[0]
                if not (alone and float(gap.norm()) <= EXACT * float(whole.norm())):
                    proven.discard(layer.full(name))
    return proven


def _slopes(output: Tensor, direction: Tensor, layers: Sequence[SampleLayer]) -> list[Tensor]:
    """Return the gradient of ⟨direction, output⟩ at the output of every layer."""
    return _differentiate(output, direction, [(layer.edge, layer.shape) for layer in layers])


def _differentiate(
    output: Tensor, direction: Tensor, there: Sequence[tuple[Tensor | GradientEdge, torch.Size]]
) -> list[Tensor]:
    """Return the gradients at some places of these shapes: zeros where nothing is read."""
    if not there:
        return []
    places: Any = [place for place, _ in there]
    found = torch.autograd.grad(output, places, direction, retain_graph=True, allow_unused=True)
    how: dict[str, Any] = {"dtype": torch.float64, "device": output.device}
    return [
        torch.zeros(shape, **how) if gradient is None else gradient.double()
        for gradient, (_, shape) in zip(found, there, strict=True)
    ]


def _open_layer(
    path: str, module: nn.Module, args: tuple[Any, ...], output: Any, size: int
) -> SampleLayer | None:
    """Return a layer that was called on rows of single samples."""
    tensors = [t for t in (*args[:1], output) if isinstance(t, Tensor) and t.shape[:1] == (size,)]
    if len(tensors) < 2 or not output.requires_grad:
        return None
    if isinstance(module, nn.Embedding) and (
        module.max_norm is not None or module.sparse or module.scale_grad_by_freq
    ):
        return None
    kinds = {nn.Embedding: EmbeddingLayer, **dict.fromkeys(NORMS, NormLayer)}
    kind = kinds.get(type(module), MatrixLayer)
    read = args[0].detach().to(torch.float64 if args[0].is_floating_point() else torch.int64)
    return kind(path, module, read.clone(), output)  # a copy: what follows may overwrite it
