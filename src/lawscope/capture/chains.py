"""Layers whose units only one other layer reads: units there can go, be exchanged or be flipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.utils.parametrize import is_parametrized

from lawscope.capture.session import Session
from lawscope.capture.trace import Operation, join_name, trace
from lawscope.errors import LawscopeError

# Words in the names of functions and modules that act on each unit apart.
PER_CHANNEL = ("pool", "mean", "upsample", "interpolate", "dropout")


@dataclass(frozen=True)
class Chain:
    """A layer whose units only the next layer reads, and what stands between with a unit each."""

    first: str
    second: str
    between: tuple[str, ...]  # modules that have parameters for each unit
    units: int
    positions: int  # features of the second layer for each unit
    padded: bool  # the second layer adds zeros around maps, which no bias can imitate


def find_chains(session: Session) -> tuple[list[Chain], dict[str, str]]:
    """Return every layer whose units only the next one reads, and of the others why not."""
    found = session.look(lambda model, batch: trace(model, batch))
    operations, model = found.operations, session.model
    calls = Counter(o.path for o in operations if o.kind == "weight")
    pairs: list[Chain] = []
    refused: dict[str, str] = {}
    weights = [o for o in operations if o.kind == "weight"]
    for operation in weights[:-1]:
        try:
            pairs.append(_find_chain(model, operations, operation, calls))
        except LawscopeError as error:
            refused.setdefault(join_name(operation.path) or str(operation.function), str(error))
    return pairs, refused


def _find_chain(
    model: nn.Module, operations: Sequence[Operation], first: Operation, calls: Counter[str]
) -> Chain:
    """Follow what a layer gives to the layer that reads it; refuse where that is not a chain."""
    _check_layer(model, first, calls, "it")
    here, between = first, list[str]()
    while True:
        readers = set(here.consumers)
        if len(readers) != 1:
            raise LawscopeError(
                "what it gives is read in several places."
                if readers
                else "no other layer reads what it gives."
            )
        here = operations[readers.pop()]
        if here.kind == "weight":
            break
        module = model.get_submodule(here.path)
        named = f"{here.function or type(module).__name__}".lower()
        if here.kind == "norm":
            if here.function or not isinstance(module, _BatchNorm):
                raise LawscopeError(f"a {type(module).__name__} after it mixes its units.")
            between.append(here.path)
        elif here.kind == "activation":
            own = any(True for _ in module.parameters(recurse=False)) and here.function is None
            between += [here.path] if own else []
        elif here.kind == "add":
            raise LawscopeError("what it gives is added to something else, as a skip connection.")
        elif here.kind != "pass" and not any(word in named for word in PER_CHANNEL):
            raise LawscopeError(f"'{named}' after it is not known to keep units apart.")
    _check_layer(model, here, calls, f"the next layer '{join_name(here.path)}'")
    layer: Any = model.get_submodule(first.path)
    reader: Any = model.get_submodule(here.path)
    units, wide = layer.weight.shape[0], reader.weight.shape[1]
    if not units or wide % units:
        raise LawscopeError(f"'{here.path}' reads {wide} features of its {units} units.")
    padded = isinstance(reader, _ConvNd) and reader.padding_mode == "zeros"
    padded = padded and reader.padding not in ("valid", (0,) * len(reader.kernel_size))
    return Chain(first.path, here.path, tuple(between), int(units), int(wide // units), padded)


def _check_layer(model: nn.Module, o: Operation, calls: Counter[str], which: str) -> None:
    """Refuse all but a plain layer with weights of its own that runs once."""
    module = model.get_submodule(o.path)
    if o.function or not isinstance(module, nn.Linear | _ConvNd):
        kind = o.function or type(module).__name__
        raise LawscopeError(f"{which} is a {kind}, not an nn.Linear or a convolution.")
    if isinstance(module, _ConvTransposeNd) or getattr(module, "groups", 1) != 1:
        raise LawscopeError(f"{which} is a transposed or grouped convolution.")
    if is_parametrized(module) or type(module).__module__.partition(".")[0] != "torch":
        raise LawscopeError(f"{which} computes its weight, or is a class of its own.")
    if calls[o.path] > 1:
        raise LawscopeError(f"{which} runs several times in a forward pass.")
    for parameter in module.parameters(recurse=False):
        owners = [m for m in model.modules() if any(p is parameter for p in m._parameters.values())]
        if len(owners) > 1:
            raise LawscopeError(f"{which} shares its weights with another module.")
