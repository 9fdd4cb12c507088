"""Stations: the places of a network where a law can be measured, and which of them to choose."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import nn

from lawscope.capture.blocks import StreamBlocks, find_repeated_blocks
from lawscope.capture.layers import find_layers, is_sequence, name_operations
from lawscope.capture.pooling import OF_STEPS, Pooling, choose_pooling
from lawscope.capture.residual import find_residual_blocks
from lawscope.capture.trace import Seen, Trace, join_name
from lawscope.errors import LawscopeError, NotApplicableError
from lawscope.lazy import pd

GRANULARITIES = ("layers", "blocks")
Place = Literal["input", "output", "entrance", "function", "operand", "projection", "projected"]
Shape = tuple[int, ...]
_SHARED = ("path", "call", "operation", "dtype", "device")  # of a station and what was seen


def stations(model: nn.Module, example: Any) -> Stations:
    """List the stations of a network: every module output and every activation.

    Args:
        model: any module; it is left exactly as it was.
        example: a batch (x, y), a dict, a tensor, or a loader of batches.

    Returns:
        The stations in the order the data meets them; ``.table()`` shows which of them the
        selectors "layers" and "blocks" take.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> [s.name for s in stations(net, torch.zeros(3, 4)).granularity("layers")]
        ['input', '1']
    """
    from lawscope.capture.session import Session
    from lawscope.data.source import as_source

    return Session(model, as_source(example)).stations


@dataclass(frozen=True)
class Station:
    """A place where activations are read.

    Attributes:
        name: module path as ``named_modules()`` spells it; ``path.relu()`` for an activation
            called as a function; ``path:in`` for what enters a module; ``input`` for the raw
            data. The second call of the same thing ends in ``#2``.
        place: the raw "input", the "output" of a module, its "entrance", the output of a
            "function", or the first "operand" of one; a "projection" of multi-head attention, or
            what is "projected", with the name of the projection as function.
        shape: of the activations of one sample.
        dtype: of the activations.
        path: of the module.
        call: which call within one forward pass, counted from 1.
        function: bare name of the function, else empty.
        layer: the linear or convolutional layer that this station completes, if any.
        batch_dim: the axis that counts samples.
        sequence: activations are (tokens, channels) and get pooled.
        read: what the network reads of the steps, behind a recurrent layer: "last", "mean", ….
        granularities: which of "layers" and "blocks" this station belongs to.
        operation: what made the tensor; equal for two names of the same tensor.
        channels_first: channels come before positions, as after a convolution.
        stream: the tensor is the one with a row per token, wherever it is among the module's
            inputs or outputs.
        device: where the activations live.
    """

    name: str
    place: Place
    shape: tuple[int, ...]
    dtype: torch.dtype
    path: str = ""
    call: int = 1
    function: str = ""
    layer: str = ""
    batch_dim: int = 0
    sequence: bool = False
    read: str = ""
    granularities: tuple[str, ...] = ()
    operation: int = -1
    channels_first: bool = False
    stream: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def choose_pooling(self, pooling: Pooling) -> Pooling:
        """Return what is done with the activations here, where this pooling is asked for."""
        maps = self.channels_first and len(self.shape) > 1
        return choose_pooling(
            pooling, self.shape, sequence=self.sequence, maps=maps, read=self.read
        )


@dataclass(frozen=True)
class Stations:
    """Everything that can be measured in a network, in the order the data meets it.

    Attributes:
        all: the stations.
        skipped: layers whose activations have no row per sample, or are not floats.
        residual: skips are added to branches, and the blocks are those that end in such sums.
        remarks: what cannot be seen, in sentences.
    """

    all: tuple[Station, ...]
    skipped: tuple[str, ...] = ()
    residual: bool = False
    remarks: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Station]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def granularity(self, name: str) -> tuple[Station, ...]:
        """Return the stations of "layers" or "blocks"."""
        return tuple(s for s in self.all if name in s.granularities)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all stations."""
        return tuple(s.name for s in self.all)

    def table(self) -> pd.DataFrame:
        """Return one row per station."""
        return pd.DataFrame(
            {
                "station": list(self.names),
                "shape": ["×".join(map(str, s.shape)) for s in self.all],
                "dtype": [str(s.dtype).removeprefix("torch.") for s in self.all],
                "completes": [s.layer for s in self.all],
                "selected by": [", ".join(s.granularities) for s in self.all],
            }
        )

    def __repr__(self) -> str:
        return "\n".join([self.table().to_string(index=False), *self.remarks])


def find_stations(found: Trace, again: Trace | None = None) -> Stations:
    """Turn a trace into named stations and say which are layers and which are blocks.

    ``again`` is a trace with another number of samples, where the first :func:`is_ambiguous`.
    """
    layers, residual = find_layers(found), find_residual_blocks(found)
    blocks = list(residual.ends) if residual else find_repeated_blocks(found.seen)
    entering = None if residual is None else residual.entrance
    before = None if entering is None else name_operations(found.seen).get(entering)
    first = blocks[0] if blocks and entering is None else None
    every = [*found.seen, *(s for s in blocks if s not in found.seen)]
    looked_again = [*again.seen, *again.sums.values()] if again else []
    seen_again = {(s.path, s.function, s.call): s for s in looked_again}
    skipped: list[str] = []

    def make(
        name: str, place: Place, seen: Seen, other: Shape | None, **more: Any
    ) -> Station | None:
        axis = _find_batch_axis(seen.shape, found.batch, other, again.batch if again else 0)
        if axis is None or not seen.dtype.is_floating_point:
            return None
        return Station(
            name,
            place,
            seen.shape[:axis] + seen.shape[axis + 1 :],
            batch_dim=axis,
            sequence=is_sequence(found.operations, seen.operation, seen.shape),
            channels_first=found.operations[seen.operation].channels_first,
            read=found.steps_read or "" if found.operations[seen.operation].recurrent else "",
            function=seen.function or "",
            **{shared: getattr(seen, shared) for shared in _SHARED},
            **more,
        )

    # Raw data is module zero of the layers, and of the blocks when nothing precedes them.
    at_once = entering == 0 or (first is not None and first.source == 0)
    direct = ("layers", "blocks") if at_once else ("layers",)
    raw_again = again.raw.shape if again else None
    stations = [make("input", "input", found.raw, raw_again, granularities=direct)]
    modules = {(s.path, s.operation) for s in found.seen if s.function is None and not s.composite}
    for seen in every:
        if seen.function is not None and (seen.path, seen.operation) in modules:
            continue  # a function that is all its module does: the module names it
        same = seen_again.get((seen.path, seen.function, seen.call))
        place: Place = "output" if seen.function is None else "function"
        groups = ("layers",) * (seen in layers) + ("blocks",) * (seen in blocks or seen is before)
        more = {"layer": layers.get(seen, ""), "granularities": groups}
        station = make(seen.name, place, seen, same.shape if same else None, **more)
        # A stem or an embedding comes before the first block: what enters it counts too.
        if station and seen is first and seen.source and seen.input_shape:
            entered = replace(seen, operation=seen.source, shape=seen.input_shape)
            name, other = f"{join_name(seen.path)}:in", same.input_shape if same else None
            stations.append(make(name, "entrance", entered, other, granularities=("blocks",)))
        stations.append(station)
        if station is None and seen in layers:
            skipped.append(seen.name)
    # By operation, so that the entrance of the first block stands where its tensor was made.
    made = sorted((s for s in stations if s is not None), key=lambda s: s.operation)
    return Stations(tuple(made), tuple(skipped), residual is not None, _remark_on_steps(found))


def _remark_on_steps(found: Trace) -> tuple[str, ...]:
    """Return what cannot be told about recurrent layers."""
    several = {o.path: o.inner for o in found.operations if o.inner > 1}
    sentences = [
        f"'{join_name(path)}' runs its {layers} layers in one call, of which only the last can be "
        "seen; with a module for each layer all are measured."
        for path, layers in several.items()
    ]
    if found.steps_read == "":
        sentences.append(
            "What the network reads of the steps of its recurrent layers is not one of "
            f"{', '.join(OF_STEPS)}; pass it as pooling=, a function of (B, T, C), else their mean "
            "is measured."
        )
    return tuple(sentences)


def stations_of_stream(blocks: StreamBlocks) -> Stations:
    """Return what enters the first block of a language model, "embedding", and every block."""
    made: list[Station] = []
    for path, tensor in zip((blocks.names[0], *blocks.names), blocks.streams, strict=True):
        place: Place = "output" if made else "entrance"
        name, shape = join_name(path) if made else "embedding", tuple(tensor.shape[1:])
        more: dict[str, Any] = {"granularities": ("blocks",), "device": tensor.device}
        more |= {"sequence": True, "stream": True}
        made.append(Station(name, place, shape, tensor.dtype, path, **more))
    return Stations(tuple(made))


def select(
    stations: Stations, selector: str | Sequence[str], module_names: Sequence[str]
) -> tuple[Station, ...]:
    """Choose stations by "layers", "blocks", a glob such as ``encoder.*.mlp``, or a list of both.

    ``module_names`` tell "never ran" from "no such thing", whose message offers the nearest names.
    """
    if isinstance(selector, str) and selector in GRANULARITIES:
        chosen = stations.granularity(selector)
        if len(chosen) > 1:
            return chosen
        if selector == "blocks":
            raise LawscopeError(
                "The network has no repeated composite modules to call blocks; select "
                "stations='layers', a glob, or a list of names (lawscope.stations shows them all)."
            )
        raise NotApplicableError(
            "The network shows fewer than two layers (a linear or convolutional module with what "
            "follows it); select stations by a glob or a list of names: "
            f"{', '.join(stations.names[:12]) or 'none ran'}."
        )
    patterns = [selector] if isinstance(selector, str) else list(selector)
    if not patterns:
        raise LawscopeError("The list of stations is empty; name at least two.")
    names: set[str] = set()
    for pattern in patterns:
        if not (matched := _matching(stations.names, pattern)):
            raise LawscopeError(_nothing(pattern, stations, module_names))
        names.update(matched)
    return tuple(s for s in stations if s.name in names)


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    return [n for n in names if n == pattern or fnmatch.fnmatchcase(n, pattern)]


def _nothing(pattern: str, stations: Stations, module_names: Sequence[str]) -> str:
    for name in filter(None, _matching(module_names, pattern)):
        return (
            f"Station '{name}' was asked for and never ran (or made no float activations with one "
            "row per sample) in the forward pass; drop it from stations=, or feed data that "
            "reaches it."
        )
    return (
        f"No station matches '{pattern}'.{name_nearest(pattern, stations.names)} "
        f"lawscope.stations(model, batch) lists all {len(stations)}; 'layers', 'blocks' and 'auto' "
        "choose for you."
    )


def name_nearest(name: str, names: Sequence[str]) -> str:
    """Return a sentence with the names most like one that is not among them, or nothing."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.3)
    return f" Near it: {', '.join(near)}." if near else ""


def is_ambiguous(found: Trace) -> bool:
    """Return whether an axis other than the first has as many entries as there are samples.

    Then one look cannot tell tokens from samples: a batch of 8 sequences of 8 tokens.
    """
    every = (found.raw, *found.seen)
    shapes = [shape for seen in every for shape in (seen.shape, seen.input_shape or ())]
    return any(found.batch in shape[1:] for shape in shapes)


def _find_batch_axis(
    shape: Shape, batch: int, other_shape: Shape | None, other_batch: int
) -> int | None:
    """Return the axis of samples: first, or second where tokens come first; in both looks."""
    axes = [axis for axis in (0, 1) if len(shape) >= axis + 2 and shape[axis] == batch]
    if other_shape is not None and len(other_shape) == len(shape):
        axes = [axis for axis in axes if other_shape[axis] == other_batch]
    return axes[0] if axes else None
