"""One statistic merged over all processes of a torch.distributed job."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import torch.distributed as dist

from lawscope.errors import LawscopeError
from lawscope.statistics.base import Statistic


class OtherRankFailedError(LawscopeError):
    """A rank failed; the sentence says which and why."""


class _Failure(str):
    """What a rank that failed hands in: why."""


T = TypeVar("T")
S = TypeVar("S", bound=Statistic)


def merges_ranks(distributed: bool | None) -> bool:
    """Return whether to merge over ranks: by default where a group of several is initialised."""
    if distributed is not None:
        return distributed
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def place_among_ranks(merges: bool) -> tuple[int, int]:
    """Return this rank and how many there are; (0, 1) for a process on its own."""
    if not merges:
        return 0, 1
    _check_initialized()
    return dist.get_rank(), dist.get_world_size()


def agree(work: Callable[[], T], distributed: bool) -> T:
    """Return what ``work`` gives on this rank; where it fails on one rank, all fail.

    A rank that gave up alone would leave the others waiting for it. It hands in why instead of
    what they wait for, wherever that is.
    """
    if not distributed:
        return work()
    try:
        result = work()
    except OtherRankFailedError:
        raise
    except Exception as error:
        with suppress(OtherRankFailedError):  # what this rank has to say comes first
            gathered(_Failure(str(error) or type(error).__name__))
        raise
    gathered(True)
    return result


def all_merge(statistic: S) -> S:
    """Merge the statistics of all ranks, in rank order, on every rank; every rank must call it.

    The order makes the result the same to the last bit on all ranks, which the second pass relies
    on. States are small (K·F·d numbers), so they are gathered whole.
    """
    merged, *others = gathered(statistic)
    for other in others:
        merged.merge(other)
    return merged


def gathered(part: T) -> list[T]:
    """Return what every rank hands in, in rank order, on every rank."""
    _check_initialized()
    parts: list[T | None] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, part)
    for rank, each in enumerate(parts):
        if isinstance(each, _Failure):
            raise OtherRankFailedError(f"Rank {rank} failed: {each}")
    return [part for part in parts if part is not None]


def _check_initialized() -> None:
    if not (dist.is_available() and dist.is_initialized()):
        raise LawscopeError(
            "distributed=True needs torch.distributed; call init_process_group() first, or start "
            "the program with torchrun."
        )
