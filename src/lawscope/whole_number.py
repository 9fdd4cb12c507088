"""A setting that counts something."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from lawscope.errors import LawscopeError


def is_whole(value: object) -> bool:
    """Whether it is an integer of Python, numpy or torch's kind; True and False are none.

    Example:
        >>> is_whole(3), is_whole(3.0), is_whole(True)
        (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole_number(name: str, value: Any, least: int, lacks: str) -> int:
    """The value as an ``int``.

    Args:
        name: of the setting, for sentences.
        value: what was given.
        least: that is allowed.
        lacks: what is wrong with less, as in "seeds=1 shows no spread".

    Raises:
        LawscopeError: no whole number, or less than ``least``.
    """
    if not is_whole(value):
        raise LawscopeError(f"{name}={value!r} is no whole number; give at least {least}.")
    if value < least:
        raise LawscopeError(f"{name}={value} {lacks}; give at least {least}.")
    return int(value)
