"""What the runner asks of those who do the work, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Tell = Callable[[int | str], None]
"""How a job reports: network-epochs done so far, or a few words."""


class Job(Protocol):
    """Work that can be sent to another process; does the same if it is done twice."""

    def __call__(self, tell: Tell) -> Any:
        """Do it, and return what can be pickled."""
        ...


@dataclass(frozen=True)
class Told:
    """A job reports how far it is."""

    ticket: int
    news: int | str


@dataclass(frozen=True)
class Done:
    """A job is finished."""

    ticket: int
    value: Any


@dataclass(frozen=True)
class Raised:
    """A job raised an exception: what it said, where (for ``--debug``), and its type's name."""

    ticket: int
    why: str
    trace: str
    kind: str = ""


@dataclass(frozen=True)
class Retried:
    """The worker of a job was lost; another one has begun it again."""

    ticket: int


@dataclass(frozen=True)
class Lost:
    """The workers of a job were lost more often than it is retried."""

    ticket: int
    why: str


Event = Told | Done | Raised | Retried | Lost


class Crew(Protocol):
    """Workers that do jobs, and say what happens."""

    size: int

    @property
    def free(self) -> int:
        """How many more jobs can begin now."""
        ...

    def submit(self, ticket: int, job: Job) -> None:
        """Begin a job; its events carry the ticket."""
        ...

    def events(self, timeout: float) -> Sequence[Event]:
        """What has happened, after at most ``timeout`` seconds."""
        ...

    def close(self) -> None:
        """End all workers, also those at work."""
        ...
