"""One progress bar for everything that takes longer than a moment."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.progress import TimeRemainingColumn as Remaining
from rich.text import Text

PATIENCE_SECONDS = 0.5
Advance = Callable[[int], None]


@contextmanager
def progress(
    description: str,
    total: int | None,
    show: bool | None = None,
    *,
    unit: str = "step",
    done: int = 0,
) -> Iterator[Advance]:
    """Show a bar with the time left on standard error, from half a second on.

    It appears before the first step is done, and says which step is under way. ``show`` forces it;
    by default standard error must be a terminal. ``unit`` is one step, as in "batch 1 of 12", or a
    plural where many are done at a time ("4 096 of 40 000 tokens, 900 per second"). ``done`` steps
    were done before. Yields a function to call with the number of steps just done.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda steps: None
        return
    columns = (_Step(unit), BarColumn(), Elapsed(), TextColumn("left"), Remaining())
    console = Console(stderr=True)
    bar = Progress(TextColumn("{task.description}"), *columns, console=console, transient=True)
    task = bar.add_task(description, total=total, completed=done)
    timer = threading.Timer(PATIENCE_SECONDS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda steps: bar.update(task, advance=steps)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def announce(sentence: str) -> None:
    """Say on a terminal what is about to take a while."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{sentence} …\n")


class _Step(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        done, of = int(task.completed), "" if task.total is None else f" of {task.total:,.0f}"
        if self.unit.endswith("s"):
            speed = "" if task.speed is None else f", {task.speed:,.0f} per second"
            return Text(f"{done:,}{of} {self.unit}{speed}")
        under_way = done + 1 if task.total is None else min(done + 1, int(task.total))
        return Text(f"{self.unit} {under_way:,}{of}")
