"""Computing in the precision that was chosen, whatever autocast runs around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

import torch


@contextmanager
def without_autocast() -> Iterator[None]:
    """Switch off the autocast of a network, or of the user, which would round to half precision."""
    with ExitStack() as stack:
        for device in _devices_with_autocast():
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@cache
def _devices_with_autocast() -> tuple[str, ...]:
    kinds = ("cpu", "cuda", "mps", "xpu", "hpu")
    return tuple(kind for kind in kinds if torch.amp.is_autocast_available(kind))
