"""One line of the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A measurement against its bar.

    ``ratio`` is ours over the reference where less is better (``bar`` is a maximum), and the
    reference over ours where more is better (``bar`` is a minimum). ``unit`` is that of the two
    measured numbers: seconds, or megabytes for memory. ``note`` is what else the run found.
    """

    name: str
    ours_s: float
    reference: str
    reference_s: float
    ratio: float
    bar: str
    holds: bool
    unit: str = "s"
    note: str = ""


def at_most(
    name: str, ours: float, reference: str, theirs: float, bar: float, unit: str = "s"
) -> Row:
    """Ours over theirs must not exceed ``bar``."""
    ratio = ours / theirs
    return Row(name, ours, reference, theirs, ratio, f"<= {bar:g}", ratio <= bar, unit)


def at_least(name: str, ours: float, reference: str, theirs: float, bar: float) -> Row:
    """Theirs over ours must reach ``bar``."""
    ratio = theirs / ours
    return Row(name, ours, reference, theirs, ratio, f">= {bar:g}", ratio >= bar)


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def processor_seconds(action: Callable[[], object]) -> float:
    """Processor time of one call, in which neighbours on the machine do not count."""
    begun = time.process_time()
    action()
    return time.process_time() - begun


def interleaved(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    repeats: int,
    clock: Callable[[Callable[[], object]], float] = seconds,
) -> tuple[float, float]:
    """Fastest of several calls of each, taken in turns so that both meet the same machine."""
    pairs = [(clock(ours), clock(theirs)) for _ in range(repeats)]
    return min(p[0] for p in pairs), min(p[1] for p in pairs)
