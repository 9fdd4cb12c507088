"""The same statistic gathered from all processes of a torch.distributed job."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import torch.distributed as dist

from lawscope.errors import LawscopeError


class Mergeable(Protocol):
    """A statistic that can take in what another has seen."""

    def merge(self, other: Any) -> None:
        """Add what ``other``, of the same settings, has seen."""


T = TypeVar("T")
M = TypeVar("M", bound=Mergeable)


def all_merge(statistic: M) -> M:
    """Merge the statistics of all ranks, in rank order, on every rank.

    Every rank must call it. The order makes the result the same to the last bit on all ranks,
    which the second pass relies on. States are small (K·F·d numbers), so they are gathered whole.

    Args:
        statistic: what this rank has seen.

    Returns:
        A new statistic that has seen everything.

    Raises:
        LawscopeError: no process group.
    """
    merged, *others = gathered(statistic)
    for other in others:
        merged.merge(other)
    return merged


def gathered(part: T) -> list[T]:
    """What every rank hands in, in rank order, on every rank.

    Raises:
        LawscopeError: no process group.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise LawscopeError(
            "distributed=True needs torch.distributed; call init_process_group() first, or start "
            "the program with torchrun."
        )
    parts: list[T | None] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, part)
    return [part for part in parts if part is not None]
