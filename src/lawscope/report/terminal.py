"""A report in the terminal: verdict, key numbers, stations as bars, advice."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lawscope.laws.collapse_result import Collapse
from lawscope.laws.line import log_or_nan
from lawscope.laws.report import Report
from lawscope.laws.separation_result import Separation
from lawscope.report.collapse_view import VERDICTS as COLLAPSE_VERDICTS
from lawscope.report.collapse_view import short_table
from lawscope.report.numbers import count, number, one_of, percent, shorten
from lawscope.report.view import VERDICTS, fit_cards, size_cards
from lawscope.report.writer import STYLES, Writer, card_table, log_shares, print_sentences

MANY_STATIONS = 40
ENDS = 8  # of so many stations, how many of the first and of the last have a row
CHART_ROWS = 6
LEAST_BAR = 6


def print_summary(report: Report, console: Console) -> None:
    """Print what matters of a report, in at most the width of the console.

    On a terminal that cannot show Unicode everything is spelled in ASCII.

    Args:
        report: what was measured.
        console: where to print.
    """
    law = report.separation
    write = Writer(console)
    console.print(write.text(report.name, "bold"))
    verdict = write.text(VERDICTS.get(law.verdict, law.verdict), STYLES[law.verdict])
    console.print(Text.assemble(verdict, write.text(f": {law.reason}")))
    console.print()
    console.print(_key_numbers(report, write))
    sizes = ", ".join(f"{card.value} {card.symbol}" for card in size_cards(law))
    console.print(write.text(sizes, "dim"))
    console.print()
    if len(law.stations) > MANY_STATIONS:
        console.print(_condensed(law, write))
        console.print()
    console.print(_stations(law, write))
    if report.collapse is not None:
        console.print()
        _print_collapse(report.collapse, write)
    print_sentences("advice", "{}.", report.advice, write)
    print_sentences("warnings", "!", report.warnings, write)
    print_sentences("not measured", "-", _skipped(report), write)


def _key_numbers(report: Report, write: Writer) -> Table:
    """The numbers of the fit as rows, those of the untrained network beside them."""
    law, control = report.separation, report.control
    unit = one_of(law.granularity)
    meanings = (f"kept per {unit}", "−1 is a perfect line", f"{unit}s to halve D", "kept by all")
    beside = None if control is None else fit_cards(control)
    return card_table(fit_cards(law), meanings, beside, write)


def _stations(law: Separation, write: Writer) -> Table:
    """One row per station with a bar in log scale; of very many the first and the last."""
    ratios = np.exp(np.diff(log_or_nan(law.values), prepend=np.nan))
    rows = [
        [
            str(index),
            law.stations[index],
            count(law.dims[index]),
            number(law.values[index]),
            "" if law.interval is None else " to ".join(number(end) for end in law.interval[index]),
            percent(ratios[index]) if index else "",
        ]
        for index in _shown(len(law.stations))
    ]
    titles = ["#", "station", "features", "D", "95 %" if law.interval is not None else "", "keeps"]
    fixed = sum(_width(write.plain(cell) for cell in column) for column in _columns(titles, rows))
    left = write.console.width - fixed - len(titles)
    longest = _width(write.plain(row[1]) for row in rows)
    name_width = max(8, min(longest, left - max(LEAST_BAR, left // 3)))
    bar_width = max(1, min(30, left - name_width))

    table = Table.grid(padding=(0, 1))
    for index in range(len(titles)):
        table.add_column(justify="left" if index == 1 else "right", no_wrap=True, overflow="crop")
    table.add_column(no_wrap=True, overflow="crop")
    table.add_row(*(write.text(title, "dim") for title in titles), write.text("log D", "dim"))
    shares = log_shares(law.values)
    for row in rows:
        if int(row[0]) == len(law.stations) - ENDS and len(rows) < len(law.stations):
            table.add_row("", write.text("…", "dim"))
        index = int(row[0])
        raises = "red" if ratios[index] > 1 else ""
        name = shorten(write.plain(row[1]), name_width, write.plain("…"))
        table.add_row(
            write.text(row[0], "dim"),
            Text(name),
            *(write.text(cell) for cell in row[2:4]),
            write.text(row[4], "dim"),
            write.text(row[5], raises),
            Text(write.bar(float(shares[index]), bar_width), style="cyan"),
        )
    return table


def _print_collapse(result: Collapse, write: Writer) -> None:
    """The verdict on the head and its few numbers, the prediction beside them."""
    verdict = write.text(
        COLLAPSE_VERDICTS.get(result.verdict, result.verdict), STYLES[result.verdict]
    )
    where = write.text(f"collapse at {result.head.name}: ", "bold")
    write.console.print(Text.assemble(where, verdict, write.text(f": {result.reason}")))
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "left", "right"):
        table.add_column(justify=justify, no_wrap=True, overflow="crop")
    table.add_row(*(write.text(title, "dim") for title in ("", "", "95 %", "predicted")))
    for name, value, between, told in short_table(result):
        table.add_row(
            write.text(name), write.text(value), write.text(between, "dim"), write.text(told)
        )
    write.console.print(table)


def _skipped(report: Report) -> list[str]:
    return [f"{name}: {sentence}" for name, sentence in report.skipped.items()]


def _shown(length: int) -> list[int]:
    if length <= MANY_STATIONS:
        return list(range(length))
    return [*range(ENDS), *range(length - ENDS, length)]


def _columns(titles: list[str], rows: list[list[str]]) -> list[tuple[str, ...]]:
    """The cells of every column but the names, which take what is left."""
    return [column for place, column in enumerate(zip(titles, *rows, strict=True)) if place != 1]


def _width(cells: Iterable[str]) -> int:
    return max(cell_len(cell) for cell in cells)


def _condensed(law: Separation, write: Writer) -> Text:
    """A small column chart of log D over all stations, several to a column if they are many."""
    groups = np.array_split(log_shares(law.values), min(len(law.values), write.console.width - 12))
    columns = [write.column(float(np.mean(group)), CHART_ROWS) for group in groups]
    known = law.values[np.isfinite(law.values) & (law.values > 0)]
    edges = (
        [number(known.max()), *[""] * (CHART_ROWS - 2), number(known.min())] if len(known) else []
    )
    lines = [
        f"{write.plain(edge):>9} {''.join(cells)}"
        for edge, cells in zip(edges, zip(*columns, strict=True), strict=False)
    ]
    lines.append(" " * 10 + write.plain(f"log D over stations 0 to {len(law.values) - 1}"))
    return Text("\n".join(lines), style="cyan", no_wrap=True)
