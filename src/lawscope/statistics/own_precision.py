"""Statistics are computed in the precision they choose, whatever runs around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def own_precision(*kinds: str) -> Iterator[None]:
    """Switch off the autocast of a network, or of the user, which would round to half precision.

    Args:
        kinds: of the devices to compute on, as in ``tensor.device.type``.

    Example:
        >>> one = torch.ones(1, 1)
        >>> with torch.autocast("cpu", dtype=torch.bfloat16), own_precision("cpu"):
        ...     (one @ one).dtype
        torch.float32
    """
    with ExitStack() as stack:
        for kind in set(kinds):
            if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield
