"""A network is returned exactly as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from lawscope.errors import LawscopeError

Mode = Literal["eval", "train"]
MODES: tuple[Mode, ...] = ("eval", "train")


def unwrapped(model: nn.Module) -> nn.Module:
    """The network inside ``torch.compile``, ``DataParallel`` and ``DistributedDataParallel``.

    The wrapped modules are the user's own, with the same parameters; measured in there, the
    hooks fire and station names are those of ``named_modules()``.

    Raises:
        LawscopeError: not a module, one that hooks cannot see into, or one without values.
    """
    if not isinstance(model, nn.Module):
        raise LawscopeError(f"The model is a {type(model).__name__}, not a torch.nn.Module.")
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(
            model, nn.DataParallel | nn.parallel.DistributedDataParallel
        ):
            inner = model.module
        if not isinstance(inner, nn.Module):
            break
        model = inner
    if isinstance(model, torch.jit.ScriptModule):
        raise LawscopeError(
            "The model is a TorchScript module, which hides its layers; pass the nn.Module it was "
            "made from."
        )
    empty = next((name for name, value in model.named_parameters() if value.is_meta), None)
    # accelerate keeps such parameters too, and its hooks bring the values when they are needed.
    if empty is not None and not any(hasattr(module, "_hf_hook") for module in model.modules()):
        raise LawscopeError(
            f"The parameter {empty} is on the meta device, where it has no values; load weights "
            "first, with model.load_state_dict(weights, assign=True)."
        )
    return model


@contextmanager
def untouched(model: nn.Module, mode: Mode = "eval") -> Iterator[None]:
    """Run without gradients in ``mode``, then put back modes, buffers and compiled calls.

    Also after an exception or ctrl-C. Random generators are put back by
    :class:`~lawscope.capture.source.Source`, hooks by whoever set them.
    """
    modules = list(model.modules())
    modes = [module.training for module in modules]
    # Names too: a network may fill a buffer that was None, or register a new one.
    buffers = [
        (
            m,
            dict(m._buffers),
            {n: b.detach().clone() for n, b in m._buffers.items() if b is not None},
        )
        for m in modules
    ]
    compiled = [(m, m._compiled_call_impl) for m in modules if m._compiled_call_impl is not None]
    for module, _ in compiled:
        module._compiled_call_impl = None
    model.train(mode == "train")
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in zip(modules, modes, strict=True):
            module.training = training
        for module, found, values in buffers:
            module._buffers.clear()
            module._buffers.update(found)
            for name, value in values.items():
                _put_back(found[name], value)
        for module, call in compiled:
            module._compiled_call_impl = call


def _put_back(buffer: Tensor | None, value: Tensor) -> None:
    """Write the old value into the old tensor, where the network has changed it."""
    if buffer is not None and not torch.equal(buffer, value):
        with torch.no_grad():
            buffer.copy_(value)
