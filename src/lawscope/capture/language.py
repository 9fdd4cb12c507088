"""The blocks of a language model, found by watching it run: no list of class names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.batches import tensors_in
from lawscope.capture.trace import hooked
from lawscope.errors import LawscopeError

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The repeated part of a language model.

    Attributes:
        modules: the L blocks in the order in which they run.
        names: their paths, as ``named_modules()`` spells them.
        width: number of features d of the residual stream.
        dtypes: of what enters the first block and of every block's output, L + 1 of them.
        devices: where those live.
        entrance: the first block of the model; its input is the embedding.
    """

    modules: tuple[nn.Module, ...]
    names: tuple[str, ...]
    width: int
    dtypes: tuple[torch.dtype, ...]
    devices: tuple[torch.device, ...]
    entrance: nn.Module

    def thinned(self, every: int) -> Blocks:
        """Every so many-th block only, the entrance kept."""
        return dataclasses.replace(
            self,
            modules=self.modules[every - 1 :: every],
            names=self.names[every - 1 :: every],
            dtypes=(self.dtypes[0], *self.dtypes[every::every]),
            devices=(self.devices[0], *self.devices[every::every]),
        )


@dataclass(frozen=True, eq=False)
class Call:
    """One run of one module: the stream that came in and the stream that went out."""

    module: nn.Module
    entered: int
    stream_in: Tensor | None
    stream_out: Tensor | None


def stream(value: Any, shape: Sequence[int]) -> Tensor | None:
    """The first floating tensor of shape (B, T, …) three deep in inputs or outputs of a module.

    Unwrapped by type: outputs are tensors, tuples, lists or dicts.
    """
    found = (t for t in tensors_in(_open(value)) if t.dim() == 3 and t.is_floating_point())
    return next((t for t in found if tuple(t.shape[:2]) == tuple(shape)), None)


def _open(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else value


def watch(model: nn.Module, inputs: Inputs, shape: Sequence[int]) -> list[Call]:
    """Run the model once and note what each module makes of the stream.

    Args:
        model: the language model.
        inputs: positional and keyword inputs.
        shape: (B, T) of the stream to follow.

    Returns:
        Every module call, in the order in which they returned. The tensors are copies: a network
        may overwrite its own.
    """
    calls: list[Call] = []
    open_calls: list[tuple[int, Tensor | None]] = []
    entered = 0

    def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
        nonlocal entered
        given = stream((args, kwargs), shape)
        open_calls.append((entered, None if given is None else given.clone()))
        entered += 1

    def leave(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        order, given = open_calls.pop()
        made = stream(output, shape)
        calls.append(Call(module, order, given, None if made is None else made.clone()))

    with hooked(model, enter, leave):
        model(*inputs[0], **inputs[1])
    return calls


def find_blocks(model: nn.Module, calls: Sequence[Call]) -> Blocks:
    """The children of one container that carry the stream from (B, T, d) to (B, T, d).

    Candidates are runs of neighbouring children of any module, each called once, in order, with
    the same width d in and out, and with parameters. Outside ``ModuleList`` and ``Sequential``
    they must be of one class. The candidate with most parameters is taken; of several around the
    same parameters the one with most modules of one class, else the outermost: attention and
    feed-forward layers of a model with a single block are no blocks.

    Args:
        model: the language model.
        calls: from :func:`watch`.

    Raises:
        LawscopeError: there is no such container.
    """
    once = _called_once(calls)
    candidates = [run for parent in model.modules() for run in _runs(parent, once)]
    if not candidates:
        raise LawscopeError(
            f"{type(model).__name__} has no blocks that lawscope can find: no list of modules, "
            "called once each in order, that map (batch, tokens, d) to the same shape. Keep the "
            "blocks in a ModuleList or Sequential."
        )
    sizes = [sum(_parameters(call.module) for call in run) for run in candidates]
    chosen = candidates[max(range(len(sizes)), key=lambda i: (sizes[i], _depth(candidates[i])))]
    paths = {module: path for path, module in model.named_modules()}
    tensors = [chosen[0].stream_in, *(call.stream_out for call in chosen)]
    streams = [t for t in tensors if t is not None]
    return Blocks(
        modules=tuple(call.module for call in chosen),
        names=tuple(paths[call.module] for call in chosen),
        width=streams[0].shape[2],
        dtypes=tuple(t.dtype for t in streams),
        devices=tuple(t.device for t in streams),
        entrance=chosen[0].module,
    )


def _called_once(calls: Sequence[Call]) -> dict[nn.Module, Call]:
    counts: dict[nn.Module, int] = {}
    for call in calls:
        counts[call.module] = counts.get(call.module, 0) + 1
    return {call.module: call for call in calls if counts[call.module] == 1}


def _runs(parent: nn.Module, once: dict[nn.Module, Call]) -> list[list[Call]]:
    """Maximal runs of neighbouring children that are blocks."""
    loose = not isinstance(parent, nn.ModuleList | nn.Sequential | nn.ModuleDict)
    runs: list[list[Call]] = [[]]
    for child in parent.children():
        call = once.get(child)
        if call is None or not _carries(call):
            runs.append([])
            continue
        before = runs[-1][-1] if runs[-1] else None
        if before is not None and not _follows(before, call, loose):
            runs.append([])
        runs[-1].append(call)
    return [r for r in runs if len(r) > (1 if loose else 0)]


def _depth(run: Sequence[Call]) -> int:
    """How many blocks a run is: modules of several classes may be the layers of one."""
    return len(run) if len({type(call.module) for call in run}) == 1 else 1


def _carries(call: Call) -> bool:
    """(B, T, d) in, (B, T, d) out, with parameters of its own."""
    given, made = call.stream_in, call.stream_out
    same = given is not None and made is not None and given.shape == made.shape
    return same and _parameters(call.module) > 0


def _follows(before: Call, call: Call, loose: bool) -> bool:
    if loose and type(before.module) is not type(call.module):
        return False
    assert before.stream_out is not None
    assert call.stream_in is not None
    return before.entered < call.entered and before.stream_out.shape == call.stream_in.shape


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
