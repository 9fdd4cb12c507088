"""One progress bar for everything that takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

PATIENCE_SECONDS = 2.0
Advance = Callable[[int], None]


@contextmanager
def progress(
    description: str,
    total: int | None,
    show: bool | None = None,
    *,
    unit: str | None = None,
    done: int = 0,
) -> Iterator[Advance]:
    """A bar with the time left on standard error; hidden until two seconds have passed.

    Args:
        description: what is going on.
        total: how many steps there will be, or None when that is not known.
        show: True or False to force it; by default only when standard error is a terminal.
        unit: what is counted, for its number per second, as in "tokens"; none by default.
        done: steps that were done before, as after an interruption.

    Yields:
        A function to call with the number of steps just done.
    """
    if show is None:
        show = sys.stderr.isatty()
    if not show:
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        *([] if unit is None else [_speed(unit)]),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(description, total=total, completed=done)
    begun = time.monotonic()
    visible = False

    def advance(steps: int) -> None:
        nonlocal visible
        bar.update(task, advance=steps)
        if not visible and time.monotonic() - begun > PATIENCE_SECONDS:
            bar.start()
            visible = True

    try:
        yield advance
    finally:
        if visible:
            bar.stop()


def _speed(unit: str) -> ProgressColumn:
    """A column with what is done per second."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f} {unit}/s")

    return Speed()
