"""The processes that torchrun started: one answer, which rank 0 gives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
PATIENCE = timedelta(days=1)  # a process on a slower device may take that much longer


def find_place() -> tuple[int, int, int]:
    """Return rank, number of processes and rank on this machine; (0, 1, 0) without torchrun."""
    if any(name not in os.environ for name in TORCHRUN):
        return 0, 1, 0
    rank, world, local = (int(os.environ[name]) for name in TORCHRUN[:3])
    return rank, world, local


def speaks() -> bool:
    """Return whether this process prints and writes."""
    return find_place()[0] == 0


@contextmanager
def join_processes() -> Iterator[None]:
    """Join the group of all processes under torchrun; nothing without it.

    Moments are gathered through main memory, so that gloo serves on every device.
    """
    rank, world, _ = find_place()
    if world == 1:
        yield
        return
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()
