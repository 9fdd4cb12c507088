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
    if not (control is None or control == "auto" or isinstance(control, nn.Module)):
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
        if getattr(inner, "config", None) is None or not hasattr(inner, "_init_weights"):
            return _reset_copy(inner)
        torch.manual_seed(CONFIG_SEED)
        fresh: nn.Module = type(inner)(copy.deepcopy(inner.config))
    except Exception as error:  # whatever a constructor, or a copy, may raise
        if is_memory_error(error):
            raise LawscopeError(
                "Memory ran out on the same network untrained; go without it (control=None)."
            ) from error
        return None
    finally:
        before.restore()
    first = next(inner.parameters())
    return fresh.to(device=first.device, dtype=first.dtype)


def _reset_copy(model: nn.Module) -> nn.Module | None:
    """Return a copy whose every module has drawn new weights, or None when one cannot."""
    if not all(_reset(m) for m in model.modules() if any(True for _ in m.parameters(False))):
        return None
    torch.manual_seed(SEED)
    fresh = copy.deepcopy(model)
    for reset in filter(None, map(_reset, fresh.modules())):
        reset()
    kept = dict(model.named_parameters())
    if any(p.dim() > 1 and torch.equal(p, kept[name]) for name, p in fresh.named_parameters()):
        return None  # weights made of other tensors (weight_norm) were not drawn again
    return fresh


def _reset(module: nn.Module) -> Callable[..., object] | None:
    """Return how a module draws new weights; multi-head attention hides it."""
    methods = (getattr(module, name, None) for name in ("reset_parameters", "_reset_parameters"))
    return next(filter(callable, methods), None)
