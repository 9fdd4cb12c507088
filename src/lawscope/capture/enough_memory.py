"""Running out of memory, in words that say what to lower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lawscope.errors import LawscopeError

_WORDS = ("out of memory", "allocate memory", "alloc_failed")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, NumPy, PyTorch or one of its libraries is about memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(w in str(error).lower() for w in _WORDS)


@contextmanager
def enough_memory(on: str, remedy: str) -> Iterator[None]:
    """Out of memory becomes a sentence.

    Args:
        on: what the memory is for.
        remedy: what to do, in the imperative.

    Raises:
        LawscopeError: memory ran out inside.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise LawscopeError(f"Memory ran out on {on}; {remedy}.") from error
