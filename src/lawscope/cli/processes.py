"""The processes that torchrun started: who measures what, who speaks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch.distributed as dist

from lawscope.errors import LawscopeError
from lawscope.statistics.distributed import gathered

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
PATIENCE = timedelta(days=1)  # a process on a slower device may take that much longer
T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """This process among all.

    Attributes:
        rank: 0 … world − 1.
        world: how many there are.
        local: rank on this machine, for its device.
    """

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def speaks(self) -> bool:
        """Whether this one prints and writes."""
        return self.rank == 0

    def agree(self, work: Callable[[], T]) -> T:
        """Do ``work``; if it fails in any process, all stop and the first one says why.

        Raises:
            LawscopeError: on rank 0, what the first process that failed had to say.
            SystemExit: on the others, with the code of a mistake.
        """
        if self.world == 1:
            return work()
        result: T | None = None
        failure: LawscopeError | None = None
        try:
            result = work()
        except LawscopeError as error:
            failure = error
        sentences = [said for (said,) in gathered((None if failure is None else str(failure),))]
        first = next((said for said in sentences if said is not None), None)
        if first is None:
            return result  # type: ignore[return-value]
        if self.speaks:
            raise failure if failure is not None else LawscopeError(first)
        sys.exit(2)


@contextmanager
def joined() -> Iterator[Processes]:
    """The group of all processes under torchrun; this process alone without it.

    Moments are gathered through main memory, so that gloo serves on every device.
    """
    if any(name not in os.environ for name in NAMES) or os.environ["WORLD_SIZE"] == "1":
        yield Processes()
        return
    rank, world, local = (int(os.environ[name]) for name in NAMES[:3])
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=PATIENCE)
    try:
        yield Processes(rank, world, local)
    finally:
        dist.destroy_process_group()
