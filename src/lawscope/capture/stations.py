"""Stations: the places of a network where a law can be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from lawscope.capture.batch_axis import BatchAxis
from lawscope.capture.flow import Seen, Trace
from lawscope.capture.layers import blocks_of, layers_of
from lawscope.capture.sequences import is_sequence

if TYPE_CHECKING:
    import pandas as pd

Place = Literal["input", "output", "entrance", "function", "operand"]
Reduce = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Station:
    """A place where activations are read.

    Attributes:
        name: module path as ``named_modules()`` spells it; ``path.relu()`` for an activation
            called as a function; ``path:in`` for what enters a module; ``input`` for the raw
            data. The second call of the same thing ends in ``#2``.
        place: the raw "input", the "output" of a module, its "entrance", the output of a
            "function", or the first "operand" of one.
        path: of the module.
        call: which call within one forward pass, counted from 1.
        function: bare name of the function, else empty.
        layer: the linear or convolutional layer that this station completes, if any.
        shape: of the activations of one sample.
        dtype: of the activations.
        batch_dim: the axis that counts samples.
        sequence: activations are (tokens, channels) and get pooled.
        granularities: which of "layers" and "blocks" this station belongs to.
        operation: what made the tensor; equal for two names of the same tensor.
        reduce: makes rows (B, d) of activations and mask, where the session's pooling does not
            decide.
    """

    name: str
    place: Place
    path: str
    call: int
    function: str
    layer: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    batch_dim: int
    sequence: bool
    granularities: tuple[str, ...]
    operation: int
    reduce: Reduce | None = None


@dataclass(frozen=True)
class Stations:
    """Everything that can be measured in a network, in the order the data meets it.

    Attributes:
        all: the stations.
        skipped: layers whose activations have no row per sample, or are no floats.
    """

    all: tuple[Station, ...]
    skipped: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Station]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def granularity(self, name: str) -> tuple[Station, ...]:
        """The stations of "layers" or "blocks"."""
        return tuple(s for s in self.all if name in s.granularities)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all stations."""
        return tuple(s.name for s in self.all)

    def table(self) -> pd.DataFrame:
        """One row per station."""
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

    Args:
        found: a look at the network.
        again: another with a different number of samples, where the first
            :func:`~lawscope.capture.batch_axis.is_ambiguous`.
    """
    axis = BatchAxis(found, again)
    layers = layers_of(found)
    blocks = blocks_of(found.seen)
    entrance = _entrance(blocks)
    stations: list[Station] = []
    skipped: list[str] = []
    root_input = _input_station(found, blocks, axis.of_input())
    if root_input is not None:
        stations.append(root_input)
    for seen in _unique_names(found.seen):
        batch_dim = axis.of(seen)
        if batch_dim is None or not seen.dtype.is_floating_point:
            if seen in layers:
                skipped.append(_name(seen))
            continue
        if entrance is not None and seen is entrance:
            stations.append(_entrance_station(found, seen, axis.of_entrance(seen) or 0))
        granularities = tuple(
            name
            for name, chosen in (("layers", seen in layers), ("blocks", seen in blocks))
            if chosen
        )
        stations.append(
            Station(
                name=_name(seen),
                place="output" if seen.function is None else "function",
                path=seen.path,
                call=seen.call,
                function=seen.function or "",
                layer=layers.get(seen, ""),
                shape=_without(seen.shape, batch_dim),
                dtype=seen.dtype,
                batch_dim=batch_dim,
                sequence=is_sequence(found.operations, seen.operation, seen.shape),
                granularities=granularities,
                operation=seen.operation,
            )
        )
    # By operation, so that the entrance of the first block stands where its tensor was made.
    return Stations(tuple(sorted(stations, key=lambda s: s.operation)), tuple(skipped))


def _input_station(found: Trace, blocks: list[Seen], batch_dim: int | None) -> Station | None:
    shape, dtype = found.input_shape, found.input_dtype
    if batch_dim is None or not dtype.is_floating_point:
        return None
    # Raw data is module zero of the layers, and of the blocks when nothing precedes them.
    direct = bool(blocks) and blocks[0].source == 0
    return Station(
        name="input",
        place="input",
        path="",
        call=1,
        function="",
        layer="",
        shape=_without(shape, batch_dim),
        dtype=dtype,
        batch_dim=batch_dim,
        sequence=is_sequence(found.operations, 0, shape),
        granularities=("layers", "blocks") if direct else ("layers",),
        operation=0,
    )


def _entrance(blocks: list[Seen]) -> Seen | None:
    """The first block, when something with features stands before it."""
    if not blocks or blocks[0].source in (None, 0) or blocks[0].input_shape is None:
        return None
    return blocks[0]


def _entrance_station(found: Trace, block: Seen, batch_dim: int) -> Station:
    """What enters the first block: D_0 of the blocks when a stem or an embedding comes first."""
    assert block.source is not None
    assert block.input_shape is not None
    return Station(
        name=f"{block.path}:in",
        place="entrance",
        path=block.path,
        call=block.call,
        function="",
        layer="",
        shape=_without(block.input_shape, batch_dim),
        dtype=block.dtype,
        batch_dim=batch_dim,
        sequence=is_sequence(found.operations, block.source, block.input_shape),
        granularities=("blocks",),
        operation=block.source,
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


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
