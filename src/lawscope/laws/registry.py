"""The laws there are; a law joins scans and the contract test by being registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from lawscope.capture.session import Observer


class Measurement(Observer, Protocol):
    """An observer that can say what it found."""

    def result(self) -> Any:
        """The frozen result, once all passes are done."""


Maker = Callable[..., Measurement]
M = TypeVar("M", bound=Maker)
LAWS: dict[str, Maker] = {}


def law(name: str) -> Callable[[M], M]:
    """Register a measurement class under the name of its law.

    The class is called with an opened :class:`~lawscope.capture.session.Session` and keyword
    settings, and is fed by :meth:`Session.measure`.
    """

    def register(maker: M) -> M:
        LAWS[name] = maker
        return maker

    return register
