"""Studies in the terminal: progress, the catalogue, results with their claims, the store."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import progress
from rich.console import Console
from rich.table import Column as TableColumn
from rich.table import Table
from rich.text import Text

from lawscope.formatting import MISSING, count, number
from lawscope.studies.panels import brief
from lawscope.studies.study import BROKEN, DONE, FAILED, NOT_TRIED, PRESETS, VERDICTS, Study

if TYPE_CHECKING:
    from lawscope import section
    from lawscope.studies.result import StudyResult

COLOURS = ("green", "red", "blue", "yellow", "red")
STYLES = {word: f"bold {c}" for word, c in zip((*VERDICTS, BROKEN), COLOURS, strict=True)}
MOST_ROWS = 60
NARROW = TableColumn(max_width=56, no_wrap=True)
# An epoch of a deep network can take a minute.
SPEED_SECONDS = 300


class Display:
    """The progress of a run, on standard error while it is a terminal; ``bars`` is a context."""

    def __init__(self, show: bool | None = None) -> None:
        self._shown = sys.stderr.isatty() if show is None else show
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
        self._total = self.bars.add_task("network-epochs", total=0)
        self._elsewhere = self.bars.add_task("", total=None, visible=False)
        self._jobs: dict[int, progress.TaskID] = {}
        self._done: dict[int, int] = {}

    def expect(self, epochs: int) -> None:
        self.bars.update(self._total, total=(self.bars.tasks[0].total or 0) + epochs)

    def begin(self, job_id: int, what: str, total: int | None) -> None:
        self._jobs[job_id] = self.bars.add_task(what, total=total)

    def advance(self, job_id: int, news: int | str) -> None:
        """Show how many network-epochs a job has done so far, or what it does."""
        # On a cluster, progress may arrive after the end.
        if job_id not in self._jobs:
            return
        if isinstance(news, str):
            self.bars.update(self._jobs[job_id], description=news)
            return
        self.bars.update(self._jobs[job_id], completed=news)
        self.bars.advance(self._total, news - self._done.get(job_id, 0))
        self._done[job_id] = news

    def end(self, job_id: int, done: int = 0) -> None:
        """Remove a job that is over, having done so many network-epochs."""
        if done:
            self.advance(job_id, done)
        self.bars.remove_task(self._jobs.pop(job_id))

    def waiting(self, networks: int) -> None:
        """Show how many of the networks we need another process trains."""
        words = f"waiting for another process: it trains {networks} of these networks"
        self.bars.update(self._elsewhere, description=words, visible=networks > 0)

    def say(self, sentence: str) -> None:
        if self._shown:
            self.bars.console.print(sentence, markup=False, highlight=False)


def print_catalogue(studies: Mapping[str, Study], console: Console) -> None:
    """Families, one line per study, and what each preset takes on two cores."""
    families = dict.fromkeys(name.partition("/")[0] for name in studies)
    for family in families:
        table = _table()
        table.add_column(Text(family, "bold"), no_wrap=True)
        table.add_column("", ratio=1)
        for preset in PRESETS:
            table.add_column(preset, justify="right", no_wrap=True)
        for name, study in studies.items():
            if name.partition("/")[0] == family:
                times = (_minutes(study.minutes.get(preset)) for preset in PRESETS)
                table.add_row(Text(name), Text(study.title), *times)
        console.print(table)


def print_result(
    result: StudyResult, study: Study, console: Console, *, figure: Path | None, numbers: bool
) -> None:
    """Print one result: claims, answers and checks; numbers if asked for."""
    console.print(Text.assemble((result.name, "bold"), f"  {study.title}"))
    console.print(Text(", ".join(result.facts), "dim"))
    console.print(Text(f"paper: {study.paper} ({study.source})", "dim"))
    if departure := study.departures.get(result.preset):
        console.print(Text(f"departs from the paper: {departure}", "dim"))
    if result.why:
        style = "" if result.status == DONE else STYLES.get(result.status, "bold red")
        console.print(Text(f"{result.status}: {result.why}", style))
    for table in result.section().tables:
        console.print(_sentences(table))
    if result.numbers and result.status != FAILED and study.table is not None:
        console.print(_rows_of(study.table(dict(result.main_numbers()))))
    if numbers:
        rows = list(_rows(result.numbers))
        for depth, name, text in rows[:MOST_ROWS]:
            console.print(Text(f"{'  ' * depth}{name}: {text}"), soft_wrap=True)
        if len(rows) > MOST_ROWS:
            console.print(Text(f"… {len(rows) - MOST_ROWS} more in the result as JSON", "dim"))
    if figure is not None:
        console.print(Text(f"figure: {figure}"), soft_wrap=True)


def print_totals(results: Sequence[StudyResult], console: Console) -> None:
    """Print one line for many results."""
    verdicts = [claim.verdict for result in results for claim in result.claims]
    parts = [f"{verdicts.count(v)} {v}" for v in VERDICTS]
    failed = sum(result.status not in (DONE, NOT_TRIED) for result in results)
    line = f"{len(results)} studies, {len(verdicts)} claims: {', '.join(parts)}"
    line += f"; {failed} studies failed" if failed else ""
    console.print(Text(line), soft_wrap=True)


def size_text(size: int) -> str:
    """Bytes as people say them: 512 bytes, 3.40 MB."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "kB")):
        if size >= 1000**power:
            return f"{number(size / 1000**power)} {unit}"
    return f"{count(size)} bytes"


def _sentences(shown: section.Table) -> Table:
    """Return a table of claims, questions or checks, with its verdicts in colour."""
    table = _table()
    *columns, last = shown.columns
    for title in columns:
        if title == "protocol":
            table.add_column(title, no_wrap=True)
        else:
            ratio = {"paper": 2, "measured": 3}.get(title, 5)
            table.add_column(title, ratio=ratio, overflow="fold")
    table.add_column(last, no_wrap=last != "answer", ratio=3 if last == "answer" else None)
    for *cells, verdict in shown.rows:
        table.add_row(*map(Text, cells), Text(verdict, STYLES.get(verdict, "")))
    return table


def _table(above: int = 0) -> Table:
    return Table(box=None, pad_edge=False, padding=(above, 2, 0, 0))


def _rows_of(rows: Sequence[Sequence[str]]) -> Table:
    """Lay out the paper's table: titles first, numbers at the right."""
    table = _table(above=1)
    for index, title in enumerate(rows[0]):
        table.add_column(title, justify="left" if index == 0 else "right")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _rows(value: Any, depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """Nested numbers as lines: a name, and a short value or the lines below it."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, inside in pairs:
        nested = isinstance(inside, list) and any(isinstance(v, (list, Mapping)) for v in inside)
        if nested or isinstance(inside, Mapping):
            yield depth, str(name), ""
            yield from _rows(inside, depth + 1)
        else:
            yield depth, str(name), brief(inside)


def _minutes(minutes: float | None) -> str:
    """How long a preset takes: 6 s, 6 min, 10 h."""
    if minutes is None:
        return MISSING
    if minutes < 1:
        return f"{max(1, round(60 * minutes))} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
