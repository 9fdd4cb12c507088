"""A result in the terminal: verdict, key numbers, the first chart as rows, advice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from lawscope.arrays import FloatArray
from lawscope.formatting import between, number, percent, short_names, shorten
from lawscope.lazy import pd
from lawscope.report.charts.svg import drawable
from lawscope.section import Bars, Curve, KeyNumber, Section, used_columns
from lawscope.section import Table as Texts

if TYPE_CHECKING:
    from lawscope.report.outline import Outline
    from lawscope.result import Result

Side = Literal["left", "right"]
TONES = {"good": "bold green", "bad": "bold red", "open": "bold yellow"}
MOST_ROWS = 40  # of more stations every n-th has a row
LEAST_STRIP, MOST_STRIP = 8, 32
LEAST_NAME = 10
LEAST_SPAN = 1.25  # of a log axis
LONGEST_WHOLE = 24  # cells of a table up to this length are not folded
LONGEST_NAME = 40  # nor are cells up to this length that have no space to fold at
FOLDED = 16  # room that a folded column should have
GAP = 2  # between the columns of a table
EIGHTHS = " ▏▎▍▌▋▊▉█"
# How a terminal without Unicode spells what we write.
SPELLED = str.maketrans(
    {"ρ": "rho", "−": "-", "–": "-", "—": "-", "×": "x", "…": "..", "∞": "inf", "≈": "~"}
    | {"Σ": "sum", "’": "'", "²": "2", "ε": "eps", "→": "->", "·": "*", "⁺": "+", "\u202f": " "}
    | {"ˡ": "^l", "⁻": "-", "¹": "1", "λ": "lambda", "¼": "1/4"}
)


def render_terminal(result: Result) -> RenderableType:
    """Return what ``rich`` prints of a result, in at most the width of its console."""
    from lawscope.report.outline import outline_of  # torch comes with it

    outline = outline_of(result)
    return _LaidOut(lambda writer: writer.summary(outline))


def render_table(table: Texts) -> RenderableType:
    """Return what ``rich`` prints of a table."""
    return _LaidOut(lambda writer: iter([writer.table(table)]))


def render_frame(frame: pd.DataFrame) -> RenderableType:
    """Return what ``rich`` prints of a table of pandas: numbers rounded, names whole."""
    return _LaidOut(lambda writer: iter([writer.frame(frame)]))


def _find_ends(values: FloatArray, log: bool) -> tuple[float, float]:
    """Return the ends of an axis: a linear one holds zero, a log one spans at least a quarter.

    Values that hardly differ would else look as if the smallest were nothing.
    """
    if not np.isfinite(values).any():
        return 1.0, 1.0
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if not log:
        return min(low, 0.0), max(high, 0.0)
    wider = math.sqrt(max(1.0, LEAST_SPAN * low / high))
    return low / wider, high * wider


class _LaidOut:
    """What is laid out when the console is known."""

    def __init__(self, lay_out: Callable[[_Writer], Iterator[RenderableType]]) -> None:
        self.lay_out = lay_out

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        return self.lay_out(_Writer(options.max_width, options.ascii_only))


class _Writer:
    """Lays out text for one console: spelled in ASCII where it must be, never as markup."""

    def __init__(self, width: int, ascii_only: bool) -> None:
        self.width, self.ascii = width, ascii_only

    def plain(self, words: str) -> str:
        """Return what this console can show of ``words``; control characters become "?"."""
        spaced = "".join(" " if letter in "\t\n\r" else letter for letter in words)
        shown = "".join(c if c.isprintable() or c == "\u202f" else "?" for c in spaced)
        return shown.translate(SPELLED).encode("ascii", "replace").decode() if self.ascii else shown

    def text(self, words: str, style: str = "") -> Text:
        return Text(self.plain(words), style=style)

    def dots(self, share: float, beside: float, width: int) -> Text:
        """Return a strip with a dot at ``share`` and a diamond for the control, nothing for NaN."""
        marks = ("o", "*") if self.ascii else ("◇", "●")
        strip = Text(" " * width)
        for at, mark, style in ((beside, marks[0], "yellow"), (share, marks[1], "cyan")):
            if not math.isnan(at):
                place = round(at * (width - 1))
                strip = Text.assemble(strip[:place], (mark, style), strip[place + 1 :])
        return strip

    def bar(self, share: float, width: int) -> str:
        """Return a bar that fills ``share`` of ``width`` cells from zero; nothing for NaN."""
        if math.isnan(share):
            return ""
        if self.ascii:
            return "#" * round(share * width)
        whole, eighths = divmod(round(8 * share * width), 8)
        return "█" * whole + EIGHTHS[eighths].strip()

    def table(self, shown: Texts) -> Table:
        """Return a table whose long cells are folded; words with a tone have its colour."""
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        lines = [shown.columns, *shown.rows]
        columns = [[line[place] for line in lines] for place in range(len(shown.columns))]
        whole = self._find_whole(columns)
        for place, (title, *_) in enumerate(columns):
            side: Side = "left" if place < shown.words else "right"
            table.add_column(
                self.text(title, "dim"), justify=side, no_wrap=place in whole, overflow="fold"
            )
        for row in shown.rows:
            styles = (TONES.get(shown.tones.get(cell, ""), "") for cell in row)
            table.add_row(*map(self.text, row, styles))
        return table

    def _find_whole(self, columns: Sequence[Sequence[str]]) -> set[int]:
        """Return the columns whose cells are not folded.

        Where the table is too wide for that, the widest that have spaces are folded there: rich
        would cut the ends of cells off, and half a number is another number.
        """
        widths = [self.measure(words) for words in columns]
        names = {i for i, cells in enumerate(columns) if not any(" " in cell for cell in cells)}
        whole = {
            i
            for i, width in enumerate(widths)
            if width <= (LONGEST_NAME if i in names else LONGEST_WHOLE)
        }
        spaced = whole - names

        def needed() -> int:
            rooms = (
                width if i in whole else min(math.ceil(width / 2), FOLDED)
                for i, width in enumerate(widths)
            )
            return sum(rooms) + GAP * len(columns)

        while spaced and needed() > self.width:
            widest = max(spaced, key=widths.__getitem__)
            spaced.remove(widest)
            whole.remove(widest)
        return whole

    def frame(self, frame: pd.DataFrame) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name, kind in frame.dtypes.items():
            side: Side = "right" if kind.kind in "fiu" else "left"
            table.add_column(self.text(str(name), "dim"), justify=side, overflow="fold")
        for row in frame.itertuples(index=False):
            cells = (number(v) if isinstance(v, float) else str(v) for v in row)
            table.add_row(*map(self.text, cells))
        return table

    def summary(self, outline: Outline) -> Iterator[RenderableType]:
        yield self.text(outline.name, "bold")
        if outline.facts:
            yield self.text(", ".join(outline.facts), "dim")
        for section in outline.sections:
            yield ""
            yield from self.section(section, outline)
        skipped = [f"{law}: {why}" for law, why in outline.skipped.items()]
        yield from self.sentences("not measured", "-", skipped)

    def section(self, section: Section, outline: Outline) -> Iterator[RenderableType]:
        if section.title != outline.name:
            yield self.text(section.title, "bold")
        verdict = self.text(section.verdict, TONES.get(section.tone, "bold"))
        joint = ": " if section.verdict and section.headline else ""
        yield Text.assemble(verdict, joint, self.text(section.headline))
        if section.numbers:
            yield ""
            yield self.key_numbers(section.numbers)
        chart = section.charts[0] if section.charts else None
        main = [each for each in section.tables if each.main]  # says what rows of a curve would
        if isinstance(chart, Curve) and len(chart.values) and not main:
            yield ""
            yield self.curve(chart)
        elif isinstance(chart, Bars) and len(chart.values):
            yield ""
            yield self.text(chart.title, "dim")
            yield self.bars(chart)
        for each in main:
            yield ""
            yield self.table(each)
        yield from self.sentences("advice", "{}.", section.advice)
        yield from self.sentences("findings", "-", section.findings)
        yield from self.sentences("warnings", "!", section.warnings)

    def key_numbers(self, numbers: Sequence[KeyNumber]) -> Table:
        """Return one row per number."""
        used = used_columns(numbers)
        titles = {"interval": "95 %", "predicted": "predicted", "control": "untrained"}
        table = Table.grid(padding=(0, 2))
        for name in used:
            side: Side = "right" if name in ("value", "predicted", "control") else "left"
            table.add_column(justify=side, no_wrap=name != "meaning", overflow="fold")
        if titles.keys() & used:
            table.add_row(*(self.text(titles.get(name, ""), "dim") for name in used))
        styles = {"symbol": "bold", "interval": "dim", "meaning": "dim"}
        for each in numbers:
            table.add_row(*(self.text(getattr(each, n), styles.get(n, "")) for n in used))
        return table

    def curve(self, chart: Curve) -> Table:
        """Return one row per station: value, interval, what it keeps, its place on the axis."""
        values = drawable(chart.values, chart.log)
        control = np.full(len(values), np.nan)
        if chart.control is not None and len(chart.control) == len(values):
            control = drawable(chart.control, chart.log)
        low, high = _find_ends(np.concatenate([values, control]), chart.log)
        scaled: Callable[[Any], FloatArray] = np.log if chart.log else np.asarray
        start, reach = scaled(low), (scaled(high) - scaled(low)) or 1.0
        shares, beside = ((scaled(each) - start) / reach for each in (values, control))
        columns = {chart.symbol: [number(float(value), chart.digits) for value in chart.values]}
        if chart.interval is not None:
            write = partial(number, digits=chart.digits)
            if chart.estimate is not None:
                columns["population"] = [write(float(value)) for value in chart.estimate]
            columns["95 %"] = [between(ends, write) for ends in chart.interval.tolist()]
        if chart.log:
            kept = values[1:] / values[:-1]
            columns["keeps"] = ["", *("" if math.isnan(each) else percent(each) for each in kept)]

        def axis(width: int) -> str:
            ends = [number(float(end), chart.digits) for end in (low, high)]
            title = f"log {chart.symbol}" if chart.log else chart.symbol
            room = width - len(ends[0]) - len(ends[1])
            if room < 1:
                return ""
            return f"{ends[0]}{(title if room > len(title) + 1 else '').center(room)}{ends[1]}"

        def strip(index: int, width: int) -> Text:
            return self.dots(float(shares[index]), float(beside[index]), width)

        return self.rows(chart.unit, chart.stations, columns, axis, strip)

    def bars(self, chart: Bars) -> Table:
        """Return one row per label: a bar from zero as long as the size of the value."""
        longest = max((abs(value) for value in chart.values if math.isfinite(value)), default=0.0)
        shares = np.abs(chart.values) / (longest or 1.0)
        columns = {" ": list(chart.notes)} if chart.notes else {}

        def strip(index: int, width: int) -> Text:
            style = "red" if chart.values[index] < 0 else "cyan"
            return Text(self.bar(float(shares[index]), width), style=style)

        return self.rows("", chart.labels, columns, lambda _: "", strip)

    def rows(
        self,
        unit: str,
        names: Sequence[str],
        columns: dict[str, list[str]],
        axis: Callable[[int], str],
        strip: Callable[[int, int], Text],
    ) -> Table:
        """Return a table that fits: number, name, columns of numbers, and a drawn strip."""
        widths = {title: 1 + self.measure((title, *cells)) for title, cells in columns.items()}
        left = self.width - len(str(len(names) - 1)) - sum(widths.values())
        if left < LEAST_NAME + LEAST_STRIP and "95 %" in columns:
            del columns["95 %"]
            left += widths["95 %"]
        most = max(LEAST_NAME, left - left // 3 - 2)
        short = short_names(names, most)
        name_width = max(LEAST_NAME, min(self.measure((unit, *short)), most))
        strip_width = max(1, min(MOST_STRIP, left - name_width - 2))
        titles = ["#" if unit else "", shorten(unit, name_width), *columns, axis(strip_width)]
        table = Table.grid(padding=(0, 1))
        for place in range(len(titles)):
            side: Side = "left" if place in (1, len(titles) - 1) else "right"
            table.add_column(justify=side, no_wrap=True, overflow="crop")
        if any(title.strip() for title in titles):
            table.add_row(*(self.text(title, "dim") for title in titles))
        step = math.ceil(len(short) / MOST_ROWS)
        for row, name in enumerate(short):
            if row % step and row != len(short) - 1:
                continue
            cells = [
                self.text(of[row], "dim" if title == "95 %" else "")
                for title, of in columns.items()
            ]
            shown = shorten(self.plain(name), name_width, self.plain("…"))
            index = self.text(str(row) if unit else "", "dim")
            table.add_row(index, Text(shown), *cells, strip(row, strip_width))
        return table

    def measure(self, cells: Iterable[str]) -> int:
        return max(cell_len(self.plain(cell)) for cell in cells)

    def sentences(self, title: str, mark: str, said: Iterable[str]) -> Iterator[RenderableType]:
        """Yield a list with a heading, or nothing."""
        grid = Table.grid(padding=(0, 1))
        for index, sentence in enumerate(said, start=1):
            grid.add_row(self.text(mark.format(index), "dim"), self.text(sentence))
        if grid.rows:
            yield ""
            yield self.text(title, "bold")
            yield grid
