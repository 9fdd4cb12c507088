"""The same language model untrained, to hold a measurement against."""

from __future__ import annotations

import copy

import torch
from torch import nn

from lawscope.capture.enough_memory import enough_memory, out_of_memory
from lawscope.capture.source import RandomState
from lawscope.laws.scan import reinitialised

SEED = 20240824


def untrained(model: nn.Module) -> nn.Module | None:
    """A network of the same configuration with new weights, or None where none can be built.

    A model that knows its configuration is built anew from it; of others a copy draws new weights
    where every module can. A model spread over devices goes without. The random generators are
    left as found.

    Raises:
        LawscopeError: too little memory.
    """
    with enough_memory("the same network untrained", "go without it (control=None, --no-control)"):
        return _untrained(model)


def _untrained(model: nn.Module) -> nn.Module | None:
    if getattr(model, "hf_device_map", None):
        return None
    config = getattr(model, "config", None)
    before = RandomState(None)
    try:
        if config is None or not hasattr(model, "_init_weights"):
            return reinitialised(model)
        torch.manual_seed(SEED)
        fresh = type(model)(copy.deepcopy(config))
    except Exception as error:  # whatever the model's own constructor, or a copy, may raise
        if out_of_memory(error):
            raise
        return None
    finally:
        before.restore()
    first = next(model.parameters())
    return fresh.to(device=first.device, dtype=first.dtype)
