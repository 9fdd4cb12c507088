"""One look at a network at work: every module call, every activation, and how data flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.batches import Batch, tensors_in
from lawscope.capture.flow import Operation, Trace
from lawscope.capture.outputs import main_tensor
from lawscope.capture.watcher import Watcher, version


def trace(model: nn.Module, example: Batch) -> Trace:
    """Run the example once and write down what happens.

    The caller sees to it that the network is untouched (:func:`~lawscope.capture.untouched`).
    """
    watcher = Watcher(model)
    inputs = list(tensors_in((example.args, example.kwargs)))
    raw = main_input(example)
    for tensor in [raw, *(t for t in inputs if t is not raw)]:
        watcher.add(Operation("input", "", 1, None, ()), [tensor])
    versions = [version(tensor) for tensor in inputs]
    with hooked(model, _unwatched(watcher.enter), _unwatched(watcher.leave)), watcher:
        output = main_tensor(model(*example.args, **example.kwargs))
    first_weight = next((o for o in watcher.operations if o.kind == "weight"), None)
    if first_weight is not None:
        watcher.operations[0].channels_first = first_weight.channels_first
    shape, dtype = tuple(raw.shape), raw.dtype
    out = () if output is None else tuple(output.shape)
    # Inference tensors keep no version: the worst is assumed of a network that runs on them.
    overwrites = any(t.is_inference() for t in inputs) or versions != [version(t) for t in inputs]
    return Trace(watcher.operations, watcher.seen, example.size, shape, dtype, out, overwrites)


def _unwatched(hook: Callable[..., None]) -> Callable[..., None]:
    """The hook, asking tensors for their shape without being taken for the network."""

    def quietly(*args: Any) -> None:
        with torch._C.DisableTorchFunction():
            hook(*args)

    return quietly


def main_input(batch: Batch) -> Tensor:
    """The raw data of a batch: its first floating tensor, or its first tensor."""
    inputs = tensors_in((batch.args, batch.kwargs))
    return next((t for t in inputs if t.is_floating_point()), batch.first)


@contextmanager
def hooked(model: nn.Module, enter: Any, leave: Any) -> Iterator[None]:
    """Call ``enter`` and ``leave`` around every module of ``model``."""
    handles = []
    try:
        for module in model.modules():
            handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            handles.append(module.register_forward_hook(leave, with_kwargs=True, always_call=True))
        yield
    finally:
        for handle in handles:
            handle.remove()
