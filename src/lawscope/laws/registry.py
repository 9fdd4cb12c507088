"""The laws there are; a law joins scans and the contract test by being registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from torch import Tensor

from lawscope.capture.session import Observer, Session
from lawscope.capture.stations import Station
from lawscope.errors import NotApplicableError


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


class IfItApplies:
    """A measurement that steps aside, with the reason, where its law does not apply.

    Args:
        maker: the measurement class.
        session: the opened network.
        settings: keyword settings; those the law does not know are left out.

    Attributes:
        reason: why the law does not apply, or empty.
    """

    def __init__(self, maker: Maker, session: Session, settings: dict[str, Any]) -> None:
        known = inspect.signature(maker).parameters
        self.reason = ""
        self.inner: Measurement | None = None
        try:
            self.inner = maker(session, **{k: v for k, v in settings.items() if k in known})
        except NotApplicableError as error:
            self.reason = str(error)

    def wanted(self) -> Sequence[Station]:
        """What the measurement wants; nothing once it has stepped aside."""
        return [] if self.inner is None else self.inner.wanted()

    def begin_batch(self, labels: Tensor | None, size: int) -> None:
        """Pass it on."""
        self._call("begin_batch", labels, size)

    def see(self, station: Station, features: Tensor) -> None:
        """Pass it on."""
        self._call("see", station, features)

    def end_pass(self) -> None:
        """Pass it on."""
        self._call("end_pass")

    def result(self) -> Any:
        """The frozen result, or None."""
        return None if self.inner is None else self.inner.result()

    def _call(self, name: str, *args: Any) -> None:
        if self.inner is None:
            return
        try:
            getattr(self.inner, name)(*args)
        except NotApplicableError as error:
            self.reason, self.inner = str(error), None
