"""Studies in the terminal: the catalogue, results with their claims, the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lawscope.formatting import MISSING, count, number
from lawscope.studies.panels import brief
from lawscope.studies.result import DONE, FAILED, StudyResult
from lawscope.studies.study import BROKEN, NOT_TRIED, PRESETS, VERDICTS, Column, Judged, Study

COLOURS = ("green", "red", "blue", "yellow", "red")
STYLES = {word: f"bold {c}" for word, c in zip((*VERDICTS, BROKEN), COLOURS, strict=True)}
MOST_ROWS = 60


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
    seeds = result.settings.get("seeds")
    facts = [result.preset, f"{seeds} seeds" if seeds not in (None, 1) else "1 seed"]
    if result.numbers:
        facts.append(f"{number(result.seconds)} core-seconds")
    console.print(Text(f"{', '.join(facts)}, {result.date}", "dim"))
    console.print(Text(f"paper: {study.paper} ({study.source})", "dim"))
    if departure := study.departures.get(result.preset):
        console.print(Text(f"departs from the paper: {departure}", "dim"))
    if result.why:
        style = "" if result.status == DONE else STYLES.get(result.status, "bold red")
        console.print(Text(f"{result.status}: {result.why}", style))
    if result.numbers and result.status != FAILED:
        for title, last in (("claim", "verdict"), ("question", "answer"), ("check", "")):
            if sentences := getattr(result.judgement, f"{title}s"):
                console.print(_sentences(title, last, sentences))
        if study.table is not None:
            console.print(_rows_of(study.table(dict(result.main_numbers()))))
    if numbers:
        _print_numbers(result.numbers, console)
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


def _sentences(title: str, last: str, sentences: Sequence[Judged]) -> Table:
    """One row per sentence and protocol; the sentence stands once."""
    several = any(len(sentence.columns) > 1 for sentence in sentences)
    with_paper = any(sentence.paper for sentence in sentences)
    table = _table()
    table.add_column(title, ratio=5, overflow="fold")
    if with_paper:
        table.add_column("paper", ratio=2, overflow="fold")
    if several:
        table.add_column("protocol", no_wrap=True)
    table.add_column("measured", ratio=3, overflow="fold")
    table.add_column(last, no_wrap=last != "answer", ratio=3 if last == "answer" else None)
    for sentence in sentences:
        words = [sentence.text, *([sentence.paper] if with_paper else [])]
        for protocol, column in sentence.columns.items():
            cells = [*words, *([protocol] if several else []), measured_text(column)]
            verdict = Text(column.verdict, STYLES.get(column.verdict, ""))
            table.add_row(*map(Text, cells), verdict)
            words = [""] * len(words)
    return table


def measured_text(column: Column) -> str:
    """Return what was measured and why the verdict is not a plain one."""
    if column.measured is None:
        return column.why
    return brief(column.measured) + (f" ({column.why})" if column.why else "")


def _table(above: int = 0) -> Table:
    return Table(box=None, pad_edge=False, padding=(above, 2, 0, 0))


def _rows_of(rows: Sequence[Sequence[str]]) -> Table:
    """The paper's table: titles first, numbers at the right."""
    table = _table(above=1)
    for index, title in enumerate(rows[0]):
        table.add_column(title, justify="left" if index == 0 else "right")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _print_numbers(numbers: Mapping[str, Any], console: Console) -> None:
    rows = list(_rows(numbers))
    for depth, name, text in rows[:MOST_ROWS]:
        console.print(Text(f"{'  ' * depth}{name}: {text}"), soft_wrap=True)
    if len(rows) > MOST_ROWS:
        console.print(Text(f"… {len(rows) - MOST_ROWS} more in the result as JSON", "dim"))


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
