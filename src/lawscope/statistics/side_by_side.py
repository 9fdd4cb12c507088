"""Independent sums and solves on several cores at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from lawscope.statistics.blas_threads import one_blas_thread

MOST = 4  # solves at once: each holds matrices of its own

T = TypeVar("T")


def side_by_side(solves: Sequence[Callable[[], T]], most: int = MOST) -> list[T]:
    """What each of the solves gives, in their order.

    Factors and products with a vector leave most of several cores idle; two on one core each take
    three quarters of the time that one after the other takes on two. torch's threads are shared out
    meanwhile, and as before afterwards; BLAS beside torch has one thread for each.

    Args:
        solves: on the CPU; what they have in common is only read.
        most: at once.

    Example:
        >>> side_by_side([lambda: 1, lambda: 2])
        [1, 2]
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(solves), most)
    if workers < 2:
        return [solve() for solve in solves]
    inference = torch.is_inference_mode_enabled()  # which every thread has for itself

    def run(solve: Callable[[], T]) -> T:
        with torch.inference_mode(inference):
            return solve()

    try:
        # torch counts threads per thread, and new ones begin with the last number that was set.
        with (
            one_blas_thread(),
            ThreadPoolExecutor(
                workers, initializer=torch.set_num_threads, initargs=(threads // workers,)
            ) as pool,
        ):
            return list(pool.map(run, solves))
    finally:
        torch.set_num_threads(threads)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small steps on a single core: to share them out takes longer than to take them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(threads)
