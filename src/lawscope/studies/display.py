"""The progress of a run of studies: bars in a terminal, a line a minute in a log file."""

from __future__ import annotations

import sys
import time

from rich import progress
from rich.console import Console
from rich.table import Column

from lawscope.formatting import time_text

NARROW = Column(max_width=56, no_wrap=True)
# An epoch of a deep network can take a minute.
SPEED_SECONDS = 300
LINE_SECONDS = 60


class Display:
    """The progress of a run on standard error; ``bars`` is a context.

    By default bars where it is a terminal, and elsewhere, in a log file, lines from time to time.
    ``show`` forces or forbids the bars, and there are no lines then.
    """

    def __init__(self, show: bool | None = None, studies: int = 1) -> None:
        self._shown = sys.stderr.isatty() if show is None else show
        self._lines = show is None and not self._shown
        self._next_line = time.monotonic() + LINE_SECONDS
        self.bars = progress.Progress(
            progress.TextColumn("{task.description}", markup=False, table_column=NARROW),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            speed_estimate_period=SPEED_SECONDS,
            disable=not self._shown,
        )
        several = studies > 1
        self._studies = self.bars.add_task("studies", total=studies, visible=several)
        self._total = self.bars.add_task("network-epochs", total=0, visible=False)
        self._elsewhere = self.bars.add_task("", total=None, visible=False)
        self._jobs: dict[int, progress.TaskID] = {}
        self._done: dict[int, int] = {}

    def expect(self, epochs: int) -> None:
        total = (self._task(self._total).total or 0) + epochs
        self.bars.update(self._total, total=total, visible=total > 0)

    def begin(self, job_id: int, what: str, total: int | None) -> None:
        self._jobs[job_id] = self.bars.add_task(what, total=total)

    def advance(self, job_id: int, news: int | str) -> None:
        """Show how many network-epochs a job has done so far, or what it does."""
        # On a cluster, progress may arrive after the end.
        if job_id not in self._jobs:
            return
        if isinstance(news, str):
            self.bars.update(self._jobs[job_id], description=news)
        else:
            self.bars.update(self._jobs[job_id], completed=news)
            self.bars.advance(self._total, news - self._done.get(job_id, 0))
            self._done[job_id] = news
        self._write_line()

    def end(self, job_id: int, done: int = 0) -> None:
        """Remove a job that is over, having done so many network-epochs."""
        if done:
            self.advance(job_id, done)
        self.bars.remove_task(self._jobs.pop(job_id))

    def end_study(self, outcome: str) -> None:
        """Count a study that is over and, of several, say how it ended."""
        self.bars.advance(self._studies)
        if self._task(self._studies).visible:
            self.say(outcome)

    def waiting(self, networks: int) -> None:
        """Show how many of the networks we need another process trains."""
        words = f"waiting for another process: it trains {networks} of these networks"
        self.bars.update(self._elsewhere, description=words, visible=networks > 0)
        self._write_line()

    def say(self, sentence: str) -> None:
        if self._shown:
            self.bars.console.print(sentence, markup=False, highlight=False)
        elif self._lines:
            print(sentence, file=sys.stderr, flush=True)

    def _write_line(self) -> None:
        """Say, at most once a minute, how much is done, what remains, and what is under way."""
        if not self._lines or time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + LINE_SECONDS
        total = self._task(self._total)
        left = total.time_remaining
        remains = "" if left is None else f", about {time_text(left / 60)} left"
        done = f"{total.completed:,.0f} of {total.total:,.0f} network-epochs{remains}: "
        jobs = (self._task(job).description for job in (*self._jobs.values(), self._elsewhere)
                if self._task(job).visible)  # fmt: skip
        self.say((done if total.visible else "") + "; ".join(jobs))

    def _task(self, task: progress.TaskID) -> progress.Task:
        return next(each for each in self.bars.tasks if each.id == task)
