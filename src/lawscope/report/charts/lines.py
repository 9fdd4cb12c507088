"""Several lines over the same stations or steps: all of a few, the ends and a band of many."""

from __future__ import annotations

import math
from itertools import groupby
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from lawscope.arrays import FloatArray
from lawscope.formatting import number, shorten
from lawscope.report.charts import svg
from lawscope.section import Lines

ALL_DRAWN = 12  # up to this many lines all have a colour
ENDS = 3  # beyond it: so many of the highest and of the lowest at the end
MOST_PICKED = 200  # up to this many lines any can be shown on request
LABEL_GAP = 14.0
Pixels = list[tuple[float, float] | None]


class Line(NamedTuple):
    """A coloured line: its row of the values, number of the colour, name, last value."""

    row: int
    slot: int
    name: str
    last: float


def coloured_lines(chart: Lines) -> list[Line]:
    """Return the lines that have a colour, from the highest at the end to the lowest."""
    usable = svg.drawable(chart.values, chart.log)
    known = [values[~np.isnan(values)] for values in usable]
    last = [float(values[-1]) if len(values) else math.nan for values in known]
    order = sorted(range(len(last)), key=lambda row: (math.isnan(last[row]), -last[row]))
    if len(order) > ALL_DRAWN:
        order = order[:ENDS] + order[-ENDS:]
    return [Line(row, slot, chart.names[row], last[row]) for slot, row in enumerate(order)]


def other_lines(chart: Lines) -> dict[int, str]:
    """Return row and name of lines without a colour, which can be shown on request."""
    coloured = {line.row for line in coloured_lines(chart)}
    return {k: n for k, n in enumerate(chart.names[:MOST_PICKED]) if k not in coloured}


def draw_lines(chart: Lines, width: int) -> Markup:
    """Return the chart as one ``svg`` element, empty when no value has a place."""
    found = svg.padded_range(chart.values, chart.log)
    if found is None:
        return Markup("")
    frame = svg.Frame(width, 400, left=52, right=128)
    if width < svg.WIDE:
        frame = svg.Frame(width, 320, left=46, right=10)
    low, high = (float(np.min(chart.x)), float(np.max(chart.x))) if len(chart.x) else (0.0, 1.0)
    high = high if high > low else low + 1
    x = svg.Scale(low, high, frame.left + 16, frame.plot_right - 12, chart.log_x and low > 0)
    y = frame.upwards(*found, chart.log)
    ticks, label = x.ticks(), f"{chart.x_label}{', log scale' if x.log else ''}"
    if chart.ticks:
        ticks, label = svg.station_axis(chart.ticks, chart.x_label, x)
    picture = svg.draw_axes(frame, x, y, ticks, (label, chart.y_label))
    values, lines = svg.drawable(chart.values, chart.log), coloured_lines(chart)
    if len(lines) < len(values):
        picture += _bands(values, chart.x, x, y)
        for row in other_lines(chart):
            pixels = _pixels(values[row], chart.x, x, y)
            picture += svg.polyline(pixels, class_="line picked off", data_line=row)
    for line in lines:
        title = svg.element("title", f"{line.name}: {number(line.last)} at the end")
        pixels = _pixels(values[line.row], chart.x, x, y)
        path = svg.polyline(pixels, class_=f"line c{line.slot}", data_line=line.row)
        picture += svg.element("g", title, path)
    if width >= svg.WIDE:
        picture += _end_labels(lines, x.end + 10, y)
    described = f"{chart.title}. {len(values)} lines"
    if lines and not math.isnan(lines[0].last):
        described += (
            f"; at the end {lines[0].name} is highest with {number(lines[0].last)}, "
            f"{lines[-1].name} lowest with {number(lines[-1].last)}"
        )
    return svg.draw_figure(frame, f"{described}.", picture)


def _pixels(values: FloatArray, at: FloatArray, x: svg.Scale, y: svg.Scale) -> Pixels:
    return [
        None if math.isnan(value) else (x(float(place)), y(float(value)))
        for place, value in zip(at, values, strict=True)
    ]


def _bands(values: FloatArray, at: FloatArray, x: svg.Scale, y: svg.Scale) -> Markup:
    """Return the range of all lines, their middle half and their median at every position."""
    known = [column[~np.isnan(column)] for column in values.T]
    quantiles = np.array(
        [np.quantile(c, [0, 0.25, 0.5, 0.75, 1]) if len(c) else np.full(5, np.nan) for c in known]
    )
    parts = []
    for low, high, kind in ((0, 4, "all"), (1, 3, "half")):
        ends = zip(*(_pixels(quantiles[:, end], at, x, y) for end in (high, low)), strict=True)
        for gap, stretch in groupby(ends, key=lambda pair: None in pair):
            over, under = zip(*stretch, strict=True)
            if not gap:
                points = " ".join(f"{a:.1f},{b:.1f}" for a, b in (*over, *reversed(under)))
                parts.append(svg.element("polygon", points=points, class_=f"band {kind}"))
    parts.append(svg.polyline(_pixels(quantiles[:, 2], at, x, y), class_="median"))
    return Markup("").join(parts)


def _end_labels(lines: list[Line], place: float, y: svg.Scale) -> Markup:
    """Return the names at the ends of their lines, moved apart so that they can be read."""
    named = [line for line in lines if math.isfinite(line.last)]
    heights = spread([y(line.last) for line in named], LABEL_GAP, y.start)
    parts = []
    for line, height in zip(named, heights, strict=True):
        leader = f"M{place - 6:.1f} {y(line.last):.1f}L{place + 6:.1f} {height:.1f}"
        mark = svg.element("path", d=leader, class_="leader", fill="none")
        name, tone = shorten(line.name, 16), f"ending c{line.slot}"
        text = svg.element("text", name, x=place + 9, y=height + 4, class_="line-name")
        parts.append(svg.element("g", mark, text, class_=tone, data_line=line.row))
    return Markup("").join(parts)


def spread(heights: list[float], gap: float, floor: float) -> list[float]:
    """Return heights moved apart so that neighbours are ``gap`` apart and none sinks."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + gap) if moved else height)
    for index in range(len(moved) - 1, -1, -1):
        moved[index] = min(moved[index], floor - gap * (len(moved) - 1 - index))
    return moved
