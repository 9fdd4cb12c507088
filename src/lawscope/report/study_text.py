"""Studies in the terminal: the catalogue, results with their claims, the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lawscope.report.numbers import count, number
from lawscope.studies.result import DONE, StudyResult
from lawscope.studies.study import NOT_SHOWN, NOT_TRIED, PRESETS, SHOWN, Study

STYLES = {SHOWN: "bold green", NOT_SHOWN: "bold red", NOT_TRIED: "bold yellow"}
MOST_ITEMS = 9  # three depths of three optimisers, datasets or seeds
MOST_ROWS = 60


def print_catalogue(studies: Mapping[str, Study], console: Console) -> None:
    """Families, one line per study, and what each preset takes on two cores."""
    families = dict.fromkeys(name.partition("/")[0] for name in studies)
    for family in families:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
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
    """One result: title, claims with paper's number, ours and the verdict; numbers if asked for."""
    console.print(Text.assemble((result.name, "bold"), f"  {study.title}"))
    seeds = result.settings.get("seeds")
    told = [result.preset, f"{seeds} seeds" if seeds not in (None, 1) else "1 seed"]
    if result.mode != "eval":
        told.append(f"measured in {result.mode} mode")
    if result.status == DONE:
        told.append(f"{number(result.seconds)} core-seconds")
    console.print(Text(f"{', '.join(told)}, {result.date}", "dim"))
    console.print(Text(f"paper: {study.paper} ({study.source})", "dim"))
    if result.why:
        style = "" if result.status == DONE else STYLES.get(result.status, "bold red")
        console.print(Text(f"{result.status}: {result.why}", style))
    if result.status == DONE:
        console.print(_claims(result))
        if study.table is not None:
            console.print(_rows_of(study.table(dict(result.numbers))))
    if numbers:
        _print_numbers(result.numbers, console)
    if figure is not None:
        console.print(Text(f"figure: {figure}"), soft_wrap=True)


def print_totals(results: Sequence[StudyResult], console: Console) -> None:
    """One line for many results."""
    verdicts = [claim.verdict for result in results for claim in result.claims]
    parts = [f"{verdicts.count(v)} {v}" for v in (SHOWN, NOT_SHOWN, NOT_TRIED)]
    failed = sum(result.status not in (DONE, NOT_TRIED) for result in results)
    line = f"{len(results)} studies, {len(verdicts)} claims: {', '.join(parts)}"
    console.print(Text(line + (f"; {failed} studies failed" if failed else "")))


def brief(value: Any) -> str:
    """A measured value in a few characters.

    Example:
        >>> brief([0.12345, 2, "a"]), brief(None), brief({"r": -0.99876})
        ('0.123, 2, a', '–', 'r −0.999')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {brief(inside)}" for key, inside in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        shown = [brief(inside) for inside in value[:MOST_ITEMS]]
        more = len(value) - len(shown)
        return ", ".join(shown) + (f", … {more} more" if more else "")
    return str(value)


def size_text(size: int) -> str:
    """Bytes as people say them.

    Example:
        >>> size_text(512), size_text(3_400_000)
        ('512 bytes', '3.40 MB')
    """
    for power, unit in ((3, "GB"), (2, "MB"), (1, "kB")):
        if size >= 1000**power:
            return f"{number(size / 1000**power)} {unit}"
    return f"{count(size)} bytes"


def _claims(result: StudyResult) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title, ratio in (("claim", 5), ("paper", 2), ("measured", 3)):
        table.add_column(title, ratio=ratio, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for claim in result.claims:
        measured = brief(claim.measured) if not claim.why else f"{claim.why}"
        table.add_row(
            Text(claim.text), Text(claim.paper), Text(measured),
            Text(claim.verdict, STYLES.get(claim.verdict, "")),
        )  # fmt: skip
    return table


def _rows_of(rows: Sequence[Sequence[str]]) -> Table:
    """The paper's table: titles first, numbers at the right."""
    table = Table(box=None, pad_edge=False, padding=(1, 2, 0, 0))
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
        console.print(Text(f"… {len(rows) - MOST_ROWS} more; --json has them all", "dim"))


def _rows(value: Any, depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """Nested numbers as lines: a name, and a short value or the lines below it."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, inside in pairs:
        if _is_deep(inside):
            yield depth, str(name), ""
            yield from _rows(inside, depth + 1)
        else:
            yield depth, str(name), brief(inside)


def _is_deep(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and any(isinstance(v, (list, Mapping)) for v in value)


def _minutes(minutes: float | None) -> str:
    """How long a preset takes.

    Example:
        >>> _minutes(0.1), _minutes(6), _minutes(600), _minutes(None)
        ('6 s', '6 min', '10 h', '–')
    """
    if minutes is None:
        return "–"
    if minutes < 1:
        return f"{max(1, round(60 * minutes))} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
