"""Layers that multiply by a matrix, the rows they read and the rows they make."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from lawscope.capture.session import Session
from lawscope.capture.stations import Station
from lawscope.capture.trace import Trace, trace

GOLDEN = (math.sqrt(5) - 1) / 2
MOST_GROUPS = 16  # of a convolution: beyond it, as with a map for every channel, it is left out
PROJECTIONS = "qkvo"
# Names of projections in attention modules: heads are rows of these weights, and columns of those.
HEADS_IN_ROWS = frozenset("q_proj k_proj v_proj query key value q_lin k_lin v_lin q k v".split())
HEADS_IN_COLUMNS = frozenset("o_proj out_proj out_lin o dense c_proj".split())
HEAD_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")
Kind = Literal["linear", "convolution", "projection", "embedding"]


@dataclass(frozen=True)
class LinearLayer:
    """One use of a weight W (d_b, d_a) in a forward pass: h_b = W·h_a for each of its rows.

    Attributes:
        name: path of the module; "#2" for its second use, "attention.q" for a projection.
        station: where inputs, outputs and gradients are tapped.
        kind: what it is.
        outputs: d_b.
        inputs: d_a; of a convolution the numbers of one patch.
        positions: rows per sample: tokens, or positions of the map that it makes.
        group: of a grouped convolution, and how many there are.
        shared: others read its input too, so that more than it sends gradients there.
        entrance: where the gradient of the input is tapped if it is shared.
        heads: how many it has, 0 where that is not known.
        by_columns: heads are columns of W, as of the output of attention, and not rows.
        fused: rows are those of queries, keys and values, one after the other.
    """

    name: str
    station: Station
    kind: Kind
    outputs: int
    inputs: int
    positions: int = 1
    group: tuple[int, int] = (0, 1)
    shared: bool = False
    entrance: Station | None = None
    heads: int = 0
    by_columns: bool = False
    fused: bool = False

    def weight(self, model: nn.Module) -> Tensor:
        """Return W (d_b, d_a), detached."""
        module: Any = model.get_submodule(self.station.path)
        if self.kind == "projection":
            return _projection(module, self.station.function).detach()
        weight: Tensor = module.weight.detach()
        weight = weight.full_tensor() if hasattr(weight, "full_tensor") else weight  # of shards
        if self.kind == "convolution":
            number, groups = self.group
            return weight.chunk(groups)[number].flatten(1)
        return weight.T if self.kind == "embedding" or keeps_turned(module) else weight


@lru_cache(maxsize=256)
def choose_positions(positions: int, share: float) -> Tensor:
    """Return which positions are read: a share of them, evenly spread, the same in every batch.

    Position t is read where the fractional part of (t + ½)·0.618 is below the share, which keeps
    clear of the rows and columns of a map.
    """
    if share >= 1:
        return torch.arange(positions, device="cpu")
    places = torch.arange(positions, dtype=torch.float64, device="cpu")
    return torch.nonzero(((places + 0.5) * GOLDEN) % 1 < share).flatten()


def rows_by_sample(x: Tensor, size: int, batch_dim: int) -> Tensor | None:
    """Return rows as (B, positions, d), also where samples and positions share an axis."""
    if x.dim() > 2 and x.shape[batch_dim] == size:
        return x.movedim(batch_dim, 0).flatten(1, -2)
    if x.dim() > 1 and len(x) == size:
        return x.flatten(1, -2) if x.dim() > 2 else x[:, None]
    rows = x.reshape(-1, x.shape[-1])
    return rows.view(size, -1, x.shape[-1]) if len(rows) % size == 0 else None


def read_maps(g: Tensor, kept: Tensor, group: tuple[int, int]) -> Tensor:
    """Return what a convolution makes at the positions kept, (B, positions, channels)."""
    number, groups = group
    part = g.chunk(groups, dim=1)[number]
    return part.flatten(2)[:, :, kept.to(g.device)].transpose(1, 2)


def read_patches(module: _ConvNd, x: Tensor, kept: Tensor, group: tuple[int, int]) -> Tensor:
    """Return what a convolution reads at the positions kept, (B, positions, channels·kernel)."""
    number, groups = group
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    padding = module._reversed_padding_repeated_twice
    x = x.chunk(groups, dim=1)[number]
    x = F.pad(x, padding, mode=mode) if any(padding) else x
    reach = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size, strict=True)]
    sizes = [
        (n - r - 1) // s + 1 for n, r, s in zip(x.shape[2:], reach, module.stride, strict=True)
    ]
    places = torch.unravel_index(kept, sizes)
    axes, spatial = [], len(sizes)
    for axis, (start, step) in enumerate(zip(places, module.stride, strict=True)):
        steps = module.dilation[axis] * torch.arange(module.kernel_size[axis])
        shape = [len(kept)] + [1] * spatial
        shape[1 + axis] = len(steps)
        axes.append((start[:, None] * step + steps).view(shape).to(x.device))
    index: tuple[Any, ...] = (slice(None), slice(None), *axes)
    patches = x[index]  # (B, C, positions, kernel…)
    return patches.transpose(1, 2).flatten(2)


def find_linear_layers(session: Session) -> tuple[LinearLayer, ...]:
    """Return every use of a weight matrix in a forward pass, in the order the data meets them."""
    return session.look(lambda model, batch: _find(session, trace(model, batch)))


def split_heads(layer: LinearLayer) -> list[tuple[str, slice, slice]]:
    """Return name, rows and columns of W of every head, or of the layer where it has none."""
    whole = slice(None)
    if layer.heads < 2:
        return [(layer.name, whole, whole)]
    names = [f"{layer.name}.{part}" for part in "qkv"] if layer.fused else [layer.name]
    width = (layer.inputs if layer.by_columns else layer.outputs) // (layer.heads * len(names))
    parts = []
    for i, name in enumerate(names):
        for head in range(layer.heads):
            start = (i * layer.heads + head) * width
            part = slice(start, start + width)
            rows, columns = (whole, part) if layer.by_columns else (part, whole)
            parts.append((f"{name}[{head}]", rows, columns))
    return parts


def _find(session: Session, found: Trace) -> tuple[LinearLayer, ...]:
    known = {(s.path, s.call): s for s in session.stations if s.place == "output"}
    layers: list[LinearLayer] = []
    for seen in found.seen:
        if seen.function is not None:
            continue
        module = session.model.get_submodule(seen.path)
        station = known.get((seen.path, seen.call)) or Station(
            seen.name, "output", seen.shape[1:], seen.dtype, seen.path, seen.call
        )
        station = replace(station, name=seen.name)
        source = None if seen.source is None else found.operations[seen.source]
        others = set() if source is None else set(source.consumers) - {seen.operation}
        entered = Station(
            f"{seen.name}:in",
            "entrance",
            (),
            seen.dtype,
            seen.path,
            seen.call,
            batch_dim=station.batch_dim,
        )
        if isinstance(module, nn.MultiheadAttention):
            # Queries, keys and values of one tensor share it; of several, none is known to.
            inputs = found.operations[seen.operation].inputs
            read = [i for i in inputs if found.operations[i].origin == "data"]
            others = {-1} if len(set(read)) == 1 else set()
        more: dict[str, Any] = {"shared": bool(others), "entrance": entered if others else None}
        layers += _layers_of(session.model, module, station, seen.shape, found.batch, more)
    return tuple(layers)


def _layers_of(
    model: nn.Module,
    module: nn.Module,
    station: Station,
    shape: tuple[int, ...],
    batch: int,
    more: dict[str, Any],
) -> list[LinearLayer]:
    """Return the layers that a module is: one, one for each group, four of attention, or none."""
    name = station.name
    rows = max(1, math.prod(shape[:-1]) // batch)
    if isinstance(module, nn.MultiheadAttention):
        own = {part: {} if part == "o" else more for part in PROJECTIONS}
        return [_project(module, station, part, rows, own[part]) for part in PROJECTIONS]
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        return []
    if isinstance(module, nn.Embedding):
        dim, count = module.embedding_dim, module.num_embeddings
        return [LinearLayer(name, station, "embedding", dim, count, rows)]
    if isinstance(module, _ConvNd) and not isinstance(module, _ConvTransposeNd):
        groups, positions = module.groups, math.prod(shape[2:])
        outputs, inputs = weight.shape[0] // groups, math.prod(weight.shape[1:])
        return [
            LinearLayer(
                name if groups == 1 else f"{name}[{i}]",
                station,
                "convolution",
                outputs,
                inputs,
                positions,
                (i, groups),
            )
            for i in range(groups if groups <= MOST_GROUPS else 0)
        ]
    if not (isinstance(module, nn.Linear) or keeps_turned(module)) or weight.dim() != 2:
        return []
    outputs, inputs = weight.shape[::-1] if keeps_turned(module) else weight.shape
    of_heads = _find_heads(model, station.path, outputs, inputs)
    return [
        LinearLayer(
            name,
            station,
            "linear",
            outputs,
            inputs,
            rows,
            **of_heads,
            **more,
        )
    ]


def _project(
    module: nn.MultiheadAttention,
    station: Station,
    part: str,
    rows: int,
    more: dict[str, Any],
) -> LinearLayer:
    outputs, inputs = _projection(module, part).shape
    inside = replace(
        station,
        place="projection",
        function=part,
        name=f"{station.name}.{part}",
        batch_dim=1,
    )
    return LinearLayer(
        inside.name,
        inside,
        "projection",
        outputs,
        inputs,
        rows,
        heads=module.num_heads,
        by_columns=part == "o",
        **more,
    )


def _projection(module: Any, part: str) -> Tensor:
    """Return the weight of one projection of multi-head attention."""
    if part == "o":
        weight: Tensor = module.out_proj.weight
    elif module._qkv_same_embed_dim:
        weight = module.in_proj_weight.chunk(3)[PROJECTIONS.index(part)]
    else:
        weight = getattr(module, f"{part}_proj_weight")
    return weight


def keeps_turned(module: nn.Module) -> bool:
    """Return whether a module keeps Wᵀ, as the Conv1D of GPT-2 does."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def _find_heads(model: nn.Module, path: str, outputs: int, inputs: int) -> dict[str, Any]:
    """Return the heads of a projection, as fields of its layer; nothing where none are known."""
    parent, _, name = path.rpartition(".")
    by_columns, fused = name in HEADS_IN_COLUMNS, outputs == 3 * inputs
    if not (by_columns or fused or name in HEADS_IN_ROWS):
        return {}
    size = inputs if by_columns else outputs // 3 if fused else outputs
    holder = model.get_submodule(parent)
    holders = [holder]
    if parent and not _has_heads(holder):  # attention.output.dense lies beside attention.self
        above = model.get_submodule(parent.rpartition(".")[0])
        if not _is_attention(above):  # a block, of which this is the MLP
            return {}
        holders = [m for m in (above, *above.children()) if _is_attention(m)]
    for owner in (each for m in holders for each in (m, getattr(m, "config", None))):
        heads = _has_heads(owner)
        if not heads or (owner is not holder and not any(map(_is_attention, holders))):
            continue
        # Keys and values may have fewer heads of the same width.
        width = getattr(owner, "head_dim", None)
        if isinstance(width, int) and width > 0 and size % width == 0:
            heads = size // width
        if size % heads == 0:
            return {"heads": heads, "by_columns": by_columns, "fused": fused and not by_columns}
    return {}


def _has_heads(owner: Any) -> int:
    """Return how many heads a module, or a configuration, says that it has."""
    counts = (getattr(owner, key, None) for key in HEAD_COUNTS)
    return next((c for c in counts if isinstance(c, int) and c > 0), 0)


def _is_attention(module: nn.Module) -> bool:
    return "attention" in type(module).__name__.lower()
