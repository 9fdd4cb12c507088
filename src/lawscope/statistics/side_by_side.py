"""Independent sums and solves on several cores at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

MOST = 4  # solves at once: each holds matrices of its own

T = TypeVar("T")


def side_by_side(solves: Sequence[Callable[[], T]], most: int = MOST) -> list[T]:
    """What each of the solves gives, in their order.

    Factors and products with a vector leave most of several cores idle; two on one core each take
    three quarters of the time that one after the other takes on two. torch's threads are shared out
    meanwhile, and as before afterwards. BLAS beside torch has one thread for each: where several
    callers ask it for more, they wait for each other.

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
        with threads_of_torch():
            return [solve() for solve in solves]
    inference = torch.is_inference_mode_enabled()  # which every thread has for itself

    def run(solve: Callable[[], T]) -> T:
        with torch.inference_mode(inference):
            return solve()

    try:
        # torch counts threads per thread, and new ones begin with the last number that was set.
        with (
            _blas_threads(1),
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
        with _blas_threads(1):
            yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def threads_of_torch() -> Iterator[None]:
    """BLAS beside torch has as many threads as torch; not for several threads at once."""
    with _blas_threads(torch.get_num_threads()):
        yield


@contextmanager
def _blas_threads(count: int) -> Iterator[None]:
    """So many threads for the libraries of NumPy and SciPy, which know nothing of torch's."""
    with _libraries().limit(limits=count, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg.cython_blas  # noqa: F401 - what is to be told must have been loaded

    return ThreadpoolController()
