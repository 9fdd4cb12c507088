"""Activations that come and go need not be fresh memory every time.

glibc hands large freed blocks back to the system, and the pages of the next ones are faulted in and
zeroed anew: a tenth of the time of a plain forward pass on the CPU, and far more where other memory
comes and goes between its activations.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

LEARNT = 2**25  # bytes up to which glibc raises its threshold by itself; it keeps twice that
KEPT = 2**30
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names in mallopt(3)
_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> None:
    """Let the C library keep freed blocks of up to 32 MB, 64 MB of them, from here on.

    glibc's threshold follows the largest block freed so far, from 128 kB up to 32 MB; so one of
    that size is allocated, not touched, and freed. Other allocators, and a glibc whose thresholds
    are set by environment variables, take no notice.
    """
    torch.empty(LEARNT - 2**16, dtype=torch.uint8)


@contextmanager
def kept_memory() -> Iterator[None]:
    """The same, and up to 1 GB of freed memory stays inside: for large activations of many blocks.

    Nothing happens with another C library, or where environment variables set the thresholds.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None or any(name in os.environ for name in _VARIABLES):
        yield
        return
    mallopt(_MMAP_THRESHOLD, LEARNT)
    mallopt(_TRIM_THRESHOLD, KEPT)
    try:
        yield
    finally:
        mallopt(_TRIM_THRESHOLD, 2 * LEARNT)
