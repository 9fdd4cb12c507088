"""A network is returned exactly as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from lawscope.errors import LawscopeError


def unwrapped(model: nn.Module) -> nn.Module:
    """The network inside ``torch.compile``, ``DataParallel`` and ``DistributedDataParallel``.

    The wrapped modules are the user's own, with the same parameters; measured in there, the
    hooks fire and station names are those of ``named_modules()``.

    Raises:
        LawscopeError: not a module, or one that hooks cannot see into.
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
    return model


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Evaluate without gradients, then put back modes, buffers and compiled calls.

    Also after an exception or ctrl-C. Random generators are put back by
    :class:`~lawscope.capture.source.Source`, hooks by whoever set them.
    """
    modules = list(model.modules())
    modes = [module.training for module in modules]
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    compiled = [(m, m._compiled_call_impl) for m in modules if m._compiled_call_impl is not None]
    for module, _ in compiled:
        module._compiled_call_impl = None
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for module, name, buffer, value in buffers:
            _put_back(module, name, buffer, value)
        for module, call in compiled:
            module._compiled_call_impl = call


def _put_back(module: nn.Module, name: str, buffer: Tensor, value: Tensor) -> None:
    """The same buffer object with the same value, even where the network replaced it."""
    module._buffers[name] = buffer
    if not torch.equal(buffer, value):
        with torch.no_grad():
            buffer.copy_(value)
