"""The same network untrained, to hold a measurement against: one mechanism for all laws."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from lawscope.capture.restore import unwrap
from lawscope.data.source import RandomState
from lawscope.errors import LawscopeError, NotApplicableError, is_memory_error

SEED = 20221030
CONFIG_SEED = 20240824
Control = nn.Module | str | None


def check_control(control: object) -> None:
    """Raise a sentence when this cannot be a control."""
    auto = isinstance(control, str) and control == "auto"
    if not (control is None or auto or isinstance(control, nn.Module)):
        raise LawscopeError(f"control={control!r} is not known; pass a module, 'auto' or None.")


def find_control(model: nn.Module, control: nn.Module | str) -> nn.Module:
    """Return the network to measure beside ``model``."""
    found = control if isinstance(control, nn.Module) else make_untrained(model)
    if found is None:
        raise NotApplicableError(
            "Not every module of the network can draw new weights (reset_parameters), and it has "
            "no configuration to build it from again; pass the untrained network itself as "
            "control=."
        )
    return found


def make_untrained(model: nn.Module) -> nn.Module | None:
    """Return a network of the same kind with new weights, or None where none can be made.

    A model that knows its configuration (Hugging Face) is built again from it; a copy of any
    other draws new weights where every module can. A model spread over devices has none. The
    random generators are left as found.
    """
    inner = unwrap(model)
    if getattr(inner, "hf_device_map", None):
        return None
    before = RandomState(None)
    try:
        if not _knows_configuration(inner):
            return _reset_copy(inner)
        fresh = _build_again(inner)
    except Exception as error:  # whatever a constructor, or a copy, may raise
        if is_memory_error(error):
            raise LawscopeError(
                "Memory ran out on the same network untrained; go without it (control=None)."
            ) from error
        return None
    finally:
        before.restore()
    return fresh


def _knows_configuration(model: nn.Module) -> bool:
    return getattr(model, "config", None) is not None and hasattr(model, "_init_weights")


def _build_again(model: nn.Module) -> nn.Module:
    torch.manual_seed(CONFIG_SEED)
    fresh: nn.Module = type(model)(copy.deepcopy(model.config))
    first = next(model.parameters())
    return fresh.to(device=first.device, dtype=first.dtype)


def _reset_copy(model: nn.Module) -> nn.Module | None:
    """Return a copy whose every module has drawn new weights, or None when one cannot.

    A part that knows its configuration, as where a person's own module holds a model of Hugging
    Face, is built again from it.
    """
    parts: tuple[str, ...] = ()  # paths, each with a point at its end
    for name, module in model.named_modules():
        if _knows_configuration(module) and not name.startswith(parts):
            parts = (*parts, f"{name}.")
    own = [name for name, _ in model.named_modules() if not f"{name}.".startswith(parts)]
    drawn = [model.get_submodule(name) for name in own]
    if not all(_reset(m) for m in drawn if any(True for _ in m.parameters(False))):
        return None
    fresh = copy.deepcopy(model)
    for part in parts:
        fresh.set_submodule(part[:-1], _build_again(model.get_submodule(part[:-1])))
    torch.manual_seed(SEED)
    for reset in filter(None, (_reset(fresh.get_submodule(name)) for name in own)):
        reset()
    kept = {n: p for n, p in model.named_parameters() if not n.startswith(parts) and p.dim() > 1}
    if any(torch.equal(fresh.get_parameter(name), p) for name, p in kept.items()):
        return None  # weights made of other tensors (weight_norm) were not drawn again
    return fresh


def _reset(module: nn.Module) -> Callable[..., object] | None:
    """Return how a module draws new weights; multi-head attention hides it."""
    methods = (getattr(module, name, None) for name in ("reset_parameters", "_reset_parameters"))
    return next(filter(callable, methods), None)
