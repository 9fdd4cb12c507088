"""The progress of a run of studies: all of it, each stack, the time left."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

WIDTH = 56


class Display:
    """Bars on standard error while it is a terminal; otherwise silent.

    Args:
        show: True or False to force it.
    """

    def __init__(self, show: bool | None = None) -> None:
        self._bars: Progress | None = None
        self._rows: dict[int | str, Any] = {}
        self._done: dict[int | str, int] = {}
        if sys.stderr.isatty() if show is None else show:
            self._bars = _bars()

    def __enter__(self) -> Display:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def expect(self, epochs: int) -> None:
        """So many network-epochs more are to be trained."""
        if self._bars is None:
            return
        if "total" not in self._rows:
            self._rows["total"] = self._bars.add_task("network-epochs", total=0)
        row = self._rows["total"]
        task = next(task for task in self._bars.tasks if task.id == row)
        self._bars.update(row, total=(task.total or 0) + epochs)

    def begin(self, ticket: int, what: str, total: int | None) -> None:
        """A job has begun."""
        if self._bars is not None:
            self._rows[ticket] = self._bars.add_task(_cut(what), total=total)

    def advance(self, ticket: int, news: int | str) -> None:
        """A job says how many network-epochs it has done so far, or what it does."""
        if self._bars is None or ticket not in self._rows:
            return
        if isinstance(news, str):
            self._bars.update(self._rows[ticket], description=_cut(news))
            return
        self._bars.update(self._rows[ticket], completed=news)
        self._bars.advance(self._rows["total"], news - self._done.get(ticket, 0))
        self._done[ticket] = news

    def end(self, ticket: int, done: int = 0) -> None:
        """A job is over, having done so many network-epochs."""
        if self._bars is not None and ticket in self._rows:
            if done:
                self.advance(ticket, done)
            self._bars.remove_task(self._rows.pop(ticket))

    def waiting(self, networks: int) -> None:
        """Another process trains so many of the networks we need."""
        if self._bars is None:
            return
        if networks and "waiting" not in self._rows:
            self._rows["waiting"] = self._bars.add_task("", total=None)
        if networks:
            words = f"waiting for another process: it trains {networks} of these networks"
            self._bars.update(self._rows["waiting"], description=words)
        elif "waiting" in self._rows:
            self._bars.remove_task(self._rows.pop("waiting"))

    def rows(self) -> list[tuple[str, float, float | None]]:
        """What the bars show: words, done, total."""
        tasks = self._bars.tasks if self._bars is not None else []
        return [(task.description, task.completed, task.total) for task in tasks]

    def say(self, sentence: str) -> None:
        """One line above the bars."""
        if self._bars is not None:
            self._bars.console.print(sentence, markup=False, highlight=False)


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=300,  # an epoch of a deep network can take a minute
    )


def _cut(words: str) -> str:
    return words if len(words) <= WIDTH else words[: WIDTH - 1] + "…"
