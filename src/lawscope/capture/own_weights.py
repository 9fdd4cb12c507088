"""A network that rewrites its own weights when it runs gets them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_PLAIN = (bool, int, float, str, type(None))


@contextmanager
def own_weights(model: nn.Module) -> Iterator[TorchFunctionMode]:
    """Put back parameters changed in place, and plain attributes, whatever happens inside.

    RWKV halves weights every few blocks when it first runs in eval mode, and remembers that in an
    attribute. Only what changes is copied: the network's first run inside must be under the mode
    that is yielded, which keeps a parameter's old value at the moment it is written to.

    Yields:
        The mode for the first run.
    """
    attributes = [
        (m, {k: v for k, v in vars(m).items() if isinstance(v, _PLAIN)}) for m in model.modules()
    ]
    keeper = _Keeper(model)
    try:
        yield keeper
    finally:
        for module, found in attributes:
            for name, value in found.items():
                if vars(module).get(name, value) is not value:
                    setattr(module, name, value)
        with torch.no_grad():
            for parameter, before in keeper.kept:
                parameter.copy_(before)


class _Keeper(TorchFunctionMode):
    """Keeps a copy of every parameter just before something is written into it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.unchanged = {p.data_ptr(): p for p in model.parameters() if p.numel()}
        self.kept: list[tuple[nn.Parameter, Tensor]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let the function run; in-place functions end in an underscore."""
        name = getattr(func, "__name__", "")
        if name.endswith("_") and not name.endswith("__") and args and isinstance(args[0], Tensor):
            parameter = self.unchanged.pop(args[0].data_ptr(), None)
            if parameter is not None:
                self.kept.append((parameter, parameter.detach().clone()))
        return func(*args, **(kwargs or {}))
