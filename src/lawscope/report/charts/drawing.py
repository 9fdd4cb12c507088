"""A chart as page and notebook show it: drawings, legend, note."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from lawscope.formatting import number
from lawscope.report.charts.bars import draw_bars
from lawscope.report.charts.curve import draw_curve
from lawscope.report.charts.heat_map import draw_heat_map
from lawscope.report.charts.lines import coloured_lines, draw_lines, other_lines
from lawscope.report.charts.plane import draw_plane, group_slots
from lawscope.report.charts.svg import NARROW, WIDE
from lawscope.section import Bars, Chart, Curve, HeatMap, Lines, Plane

_DRAW: dict[type, Callable[[Any, int], Markup]] = {
    Curve: draw_curve,
    Lines: draw_lines,
    Bars: draw_bars,
    HeatMap: draw_heat_map,
    Plane: draw_plane,
}


@dataclass(frozen=True)
class Key:
    """An entry of a legend: the class of its colour, words, a number, and the line it toggles."""

    tone: str
    words: str
    value: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Drawing:
    """A drawn chart."""

    kind: str
    title: str
    note: str
    pictures: list[Markup]  # ``svg`` elements, one for each width it was drawn for
    legend: list[Key]
    others: dict[int, str]  # lines that can be shown on request, by number and name
    rows: int  # how many rows it has where it grows with them, else 0


def draw_chart(chart: Chart, widths: tuple[int, ...] = (WIDE, NARROW)) -> Drawing | None:
    """Return the drawings of a chart; None when it has nothing to draw."""
    draw = _DRAW[type(chart)]
    # A heat map is the same at every width.
    pictures = [draw(chart, w) for w in (widths[:1] if isinstance(chart, HeatMap) else widths)]
    if not pictures[0]:
        return None
    others = other_lines(chart) if isinstance(chart, Lines) else {}
    return Drawing(
        kind=type(chart).__name__.lower(),
        title=chart.title,
        note=chart.note,
        pictures=pictures,
        legend=_legend(chart),
        others=others,
        rows=len(chart.labels) if isinstance(chart, Bars) else 0,
    )


def _legend(chart: Chart) -> list[Key]:
    if isinstance(chart, Curve) and chart.control is not None:
        return [Key("trained", "measured"), Key("control", "untrained")]
    if isinstance(chart, Lines):
        lines = coloured_lines(chart)
        return [Key(f"c{each.slot}", each.name, number(each.last), each.row) for each in lines]
    if isinstance(chart, Plane):
        return [Key(f"c{slot}", group) for group, slot in group_slots(chart).items()]
    return []
