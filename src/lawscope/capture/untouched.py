"""A network is returned exactly as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
        raise LawscopeError(_SCRIPTED.format("model"))
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

    Also after an exception or ctrl-C, and all the rest where one of them cannot be put back.
    Random generators are put back by :class:`~lawscope.capture.source.Source`, hooks by whoever
    set them.

    Raises:
        LawscopeError: a part of the network is scripted.
    """
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise LawscopeError(_SCRIPTED.format(f"model's part '{name}'"))
    modules = list(model.modules())
    with ExitStack() as stack, torch.no_grad():
        for module in modules:
            _keep_buffers(module, stack)
            _keep_compiled_call(module, stack)
        _keep_modes(modules, stack)
        model.train(mode == "train")
        yield


def _keep_buffers(module: nn.Module, stack: ExitStack) -> None:
    """Names too: a network may fill a buffer that was None, or register a new one."""
    found = dict(module._buffers)
    for buffer in found.values():
        if buffer is not None:
            stack.callback(_put_back, buffer, buffer.detach().clone())

    def names() -> None:
        module._buffers.clear()
        module._buffers.update(found)

    stack.callback(names)


def _keep_compiled_call(module: nn.Module, stack: ExitStack) -> None:
    call = module._compiled_call_impl
    if call is not None:
        stack.callback(setattr, module, "_compiled_call_impl", call)
        module._compiled_call_impl = None


def _keep_modes(modules: list[nn.Module], stack: ExitStack) -> None:
    """By ``train()``, which may be the module's own, then to the bit.

    An adapter's own ``train()`` may merge its weights in eval mode and take them apart again;
    what that rounds off is put back too.
    """
    modes = [module.training for module in modules]
    for module, training in zip(modules, modes, strict=True):
        stack.callback(setattr, module, "training", training)
        if type(module).train is not nn.Module.train:
            for parameter in module.parameters(recurse=False):
                stack.callback(_put_back, parameter.data, parameter.detach().clone())

    def back(module: nn.Module, training: bool) -> None:
        if module.training != training:
            module.train(training)

    # The stack is emptied from its end, and a parent has to come before its children.
    for module, training in reversed(list(zip(modules, modes, strict=True))):
        stack.callback(back, module, training)


def _put_back(tensor: Tensor, value: Tensor) -> None:
    """Write the old value into the old tensor, where it has been changed."""
    if tensor.is_meta:
        return  # it has no values
    # Sparse tensors have no test of equality.
    if tensor.layout != torch.strided or not torch.equal(tensor, value):
        with torch.no_grad():
            tensor.copy_(value)


_SCRIPTED = (
    "The {} is a TorchScript module, which hides its layers; pass the nn.Module it was made from."
)
