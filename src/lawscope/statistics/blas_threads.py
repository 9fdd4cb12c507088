"""How many threads the BLAS of NumPy and SciPy has, which knows nothing of torch's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One inside, and as before afterwards.

    More would wait for each other where several threads call it, and for the cores where threads
    of torch, which do not sleep at once when their work is done, still have them. Where the number
    is one for the whole process, the first thread inside decides.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg.cython_blas  # noqa: F401 - what is to be told must have been loaded

    return ThreadpoolController()
