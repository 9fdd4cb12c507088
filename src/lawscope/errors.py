"""What goes wrong in words a person can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class LawscopeError(ValueError):
    """A mistake in what was asked for or handed over: one sentence with the remedy.

    The command line prints the sentence and exits with code 2; ``--debug`` shows the traceback.
    """


class NotApplicableError(LawscopeError):
    """A law has no meaning for this network or data; a scan leaves it out and says why."""


class NoDataError(LawscopeError):
    """There are no samples; of several ranks others may have some."""


class LawscopeWarning(UserWarning):
    """A result was computed, and something about it deserves a look."""


_MEMORY_WORDS = ("out of memory", "allocate memory", "alloc_failed")


def is_memory_error(error: BaseException) -> bool:
    """Return whether an error of Python, NumPy, PyTorch or its libraries is about memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in said for word in _MEMORY_WORDS)


@contextmanager
def memory_error_as_sentence(on: str, remedy: str) -> Iterator[None]:
    """Turn running out of memory into a sentence; ``remedy`` is an imperative."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_memory_error(error):
            raise
        raise LawscopeError(f"Memory ran out on {on}; {remedy}.") from error
