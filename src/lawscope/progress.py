"""One progress bar for everything that takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 2.0
Advance = Callable[[int], None]


@contextmanager
def progress(description: str, total: int | None, show: bool | None = None) -> Iterator[Advance]:
    """A bar with the time left on standard error; hidden until two seconds have passed.

    Args:
        description: what is going on.
        total: how many steps there will be, or None when that is not known.
        show: True or False to force it; by default only when standard error is a terminal.

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
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(description, total=total)
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
