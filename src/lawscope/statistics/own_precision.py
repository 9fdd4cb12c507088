"""Statistics are computed in the precision they choose, whatever runs around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache

import torch


def own_precision(*kinds: str) -> AbstractContextManager[object]:
    """Switch off the autocast of a network, or of the user, which would round to half precision.

    Args:
        kinds: of the devices to compute on, as in ``tensor.device.type``.

    Example:
        >>> one = torch.ones(1, 1)
        >>> with torch.autocast("cpu", dtype=torch.bfloat16), own_precision("cpu"):
        ...     (one @ one).dtype
        torch.float32
    """
    on = [kind for kind in kinds if _has_autocast(kind) and torch.is_autocast_enabled(kind)]
    return _without_autocast(on) if on else _AS_IT_IS  # asked for at every station and batch


_AS_IT_IS = nullcontext()


@cache
def _has_autocast(kind: str) -> bool:
    return torch.amp.is_autocast_available(kind)


@contextmanager
def _without_autocast(kinds: Sequence[str]) -> Iterator[None]:
    with ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield
