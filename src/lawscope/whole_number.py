"""A setting that counts something."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from lawscope.errors import LawscopeError

LARGEST = 2**63 - 1  # that torch and numpy can hold
MOST_FOLDS = 1000


def is_whole(value: object) -> bool:
    """Return whether it is an integer of Python, numpy or torch; True and False are not.

    Example:
        >>> is_whole(3), is_whole(3.0), is_whole(True)
        (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole_number(name: str, value: Any, least: int, lacks: str, most: int = LARGEST) -> int:
    """Return a setting as an ``int``; ``lacks`` says what is wrong with less than ``least``."""
    if not is_whole(value):
        raise LawscopeError(f"{name}={value!r} is not a whole number; give at least {least}.")
    if value < least:
        raise LawscopeError(f"{name}={value} {lacks}; give at least {least}.")
    if value > most:
        raise LawscopeError(f"{name} is too large; give at most {most}.")
    return int(value)
