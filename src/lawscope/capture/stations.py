"""Stations: the places of a network where a law can be measured, and which of them to choose."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from lawscope.capture.blocks import StreamBlocks, find_repeated_blocks
from lawscope.capture.layers import find_layers, is_sequence
from lawscope.capture.trace import Seen, Trace
from lawscope.errors import LawscopeError

if TYPE_CHECKING:
    import pandas as pd

GRANULARITIES = ("layers", "blocks")
Place = Literal["input", "output", "entrance", "function", "operand"]
Shape = tuple[int, ...]
_SHARED = ("path", "call", "dtype", "device")  # of a station and the tensor seen there


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
    from lawscope.data.source import Source

    single = isinstance(example, Tensor | dict)
    if isinstance(example, tuple | list) and example:
        named = isinstance(example, tuple) and isinstance(example[0], dict)
        single = named or isinstance(example[0], Tensor)
    return Session(model, Source([example] if single else example)).stations


@dataclass(frozen=True)
class Station:
    """A place where activations are read.

    Attributes:
        name: module path as ``named_modules()`` spells it; ``path.relu()`` for an activation
            called as a function; ``path:in`` for what enters a module; ``input`` for the raw
            data. The second call of the same thing ends in ``#2``.
        place: the raw "input", the "output" of a module, its "entrance", the output of a
            "function", or the first "operand" of one.
        shape: of the activations of one sample.
        dtype: of the activations.
        path: of the module.
        call: which call within one forward pass, counted from 1.
        function: bare name of the function, else empty.
        layer: the linear or convolutional layer that this station completes, if any.
        batch_dim: the axis that counts samples.
        sequence: activations are (tokens, channels) and get pooled.
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
    granularities: tuple[str, ...] = ()
    operation: int = -1
    channels_first: bool = False
    stream: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


@dataclass(frozen=True)
class Stations:
    """Everything that can be measured in a network, in the order the data meets it.

    Attributes:
        all: the stations.
        skipped: layers whose activations have no row per sample, or are not floats.
    """

    all: tuple[Station, ...]
    skipped: tuple[str, ...] = ()

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
        import pandas as pd

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
        return self.table().to_string(index=False)


def find_stations(found: Trace, again: Trace | None = None) -> Stations:
    """Turn a trace into named stations and say which are layers and which are blocks.

    ``again`` is a trace with another number of samples, where the first :func:`is_ambiguous`.
    """
    layers, blocks = find_layers(found), find_repeated_blocks(found.seen)
    first = blocks[0] if blocks else None
    seen_again = {(s.path, s.function, s.call): s for s in (again.seen if again else [])}
    stations: list[Station | None] = []
    skipped: list[str] = []

    def make(
        name: str, place: Place, operation: int, shape: Shape, other: Shape | None, **more: Any
    ) -> Station | None:
        axis = _find_batch_axis(shape, found.batch, other, again.batch if again else 0)
        if axis is None or not more["dtype"].is_floating_point:
            return None
        return Station(
            name,
            place,
            shape[:axis] + shape[axis + 1 :],
            batch_dim=axis,
            sequence=is_sequence(found.operations, operation, shape),
            operation=operation,
            channels_first=found.operations[operation].channels_first,
            **more,
        )

    # Raw data is module zero of the layers, and of the blocks when nothing precedes them.
    direct = ("layers", "blocks") if first and first.source == 0 else ("layers",)
    shapes = found.input_shape, again.input_shape if again else None
    stations.append(
        make("input", "input", 0, *shapes, dtype=found.input_dtype, granularities=direct)
    )
    for seen in _unique_names(found.seen):
        same = seen_again.get((seen.path, seen.function, seen.call))
        at: dict[str, Any] = {name: getattr(seen, name) for name in _SHARED}
        station = make(
            _name(seen),
            "output" if seen.function is None else "function",
            seen.operation,
            seen.shape,
            same.shape if same else None,
            **at,
            function=seen.function or "",
            layer=layers.get(seen, ""),
            granularities=("layers",) * (seen in layers) + ("blocks",) * (seen in blocks),
        )
        # A stem or an embedding comes before the first block: what enters it counts too.
        if station and seen is first and seen.source and seen.input_shape:
            shapes = seen.input_shape, same.input_shape if same else None
            name = f"{seen.path}:in"
            stations.append(
                make(name, "entrance", seen.source, *shapes, **at, granularities=("blocks",))
            )
        stations.append(station)
        if station is None and seen in layers:
            skipped.append(_name(seen))
    # By operation, so that the entrance of the first block stands where its tensor was made.
    made = sorted((s for s in stations if s is not None), key=lambda s: s.operation)
    return Stations(tuple(made), tuple(skipped))


def stations_of_stream(blocks: StreamBlocks) -> Stations:
    """Return what enters the first block of a language model, "embedding", and every block."""
    names = ("embedding", *blocks.names)
    paths = (blocks.names[0], *blocks.names)
    return Stations(
        tuple(
            Station(
                name,
                "output" if i else "entrance",
                tuple(tensor.shape[1:]),
                tensor.dtype,
                path,
                sequence=True,
                granularities=("blocks",),
                stream=True,
                device=tensor.device,
            )
            for i, (name, path, tensor) in enumerate(zip(names, paths, blocks.streams, strict=True))
        )
    )


def select(
    stations: Stations, selector: str | Sequence[str], module_names: Sequence[str]
) -> tuple[Station, ...]:
    """Choose stations by "layers", "blocks", a glob such as ``encoder.*.mlp``, or a list of both.

    ``module_names`` tell "never ran" from "no such thing", whose message offers the nearest names.
    """
    if isinstance(selector, str) and selector in GRANULARITIES:
        return _granularity(stations, selector)
    patterns = [selector] if isinstance(selector, str) else list(selector)
    if not patterns:
        raise LawscopeError("The list of stations is empty; name at least two.")
    chosen: set[str] = set()
    for pattern in patterns:
        matched = [n for n in stations.names if n == pattern or fnmatch.fnmatchcase(n, pattern)]
        if not matched:
            raise LawscopeError(_nothing(pattern, stations, module_names))
        chosen.update(matched)
    return tuple(s for s in stations if s.name in chosen)


def _granularity(stations: Stations, name: str) -> tuple[Station, ...]:
    chosen = stations.granularity(name)
    if len(chosen) > 1:
        return chosen
    if name == "blocks":
        raise LawscopeError(
            "The network has no repeated composite modules to call blocks; select "
            "stations='layers', a glob, or a list of names (lawscope.stations shows them all)."
        )
    raise LawscopeError(
        "The network shows fewer than two layers (a linear or convolutional module with what "
        "follows it); select stations by a glob or a list of names: "
        f"{', '.join(stations.names[:12]) or 'none ran'}."
    )


def _nothing(pattern: str, stations: Stations, module_names: Sequence[str]) -> str:
    ran_not = [n for n in module_names if n and (n == pattern or fnmatch.fnmatchcase(n, pattern))]
    if ran_not:
        return (
            f"Station '{ran_not[0]}' was asked for and never ran (or made no float activations "
            "with one row per sample) in the forward pass; drop it from stations=, or feed data "
            "that reaches it."
        )
    near = difflib.get_close_matches(pattern, stations.names, n=3, cutoff=0.3)
    hint = f" Near it: {', '.join(near)}." if near else ""
    return (
        f"No station matches '{pattern}'.{hint} lawscope.stations(model, batch) lists all "
        f"{len(stations)}; 'layers', 'blocks' and 'auto' choose for you."
    )


def _unique_names(seen: list[Seen]) -> Iterator[Seen]:
    """Leave out a function that is all its module does: the module names it."""
    modules = {(s.path, s.operation) for s in seen if s.function is None and not s.composite}
    for s in seen:
        if s.function is None or (s.path, s.operation) not in modules:
            yield s


def _name(seen: Seen) -> str:
    name = seen.path
    if seen.function is not None:
        name = f"{name}.{seen.function}()" if name else f"{seen.function}()"
    return name if seen.call == 1 else f"{name}#{seen.call}"


def is_ambiguous(found: Trace) -> bool:
    """Return whether an axis other than the first has as many entries as there are samples.

    Then one look cannot tell tokens from samples: a batch of 8 sequences of 8 tokens.
    """
    shapes = [shape for seen in found.seen for shape in (seen.shape, seen.input_shape or ())]
    return any(found.batch in shape[1:] for shape in (found.input_shape, *shapes))


def _find_batch_axis(
    shape: Shape, batch: int, other_shape: Shape | None, other_batch: int
) -> int | None:
    """Return the axis of samples: first, or second where tokens come first; in both looks."""
    axes = [axis for axis in (0, 1) if len(shape) >= axis + 2 and shape[axis] == batch]
    if other_shape is not None and len(other_shape) == len(shape):
        axes = [axis for axis in axes if other_shape[axis] == other_batch]
    return axes[0] if axes else None
