"""A matrix as colours, with the scale of the colours under it."""

from __future__ import annotations

import math
import warnings

import numpy as np
from markupsafe import Markup

from lawscope.arrays import FloatArray
from lawscope.formatting import number, shorten
from lawscope.report.charts.svg import Frame, draw_figure, element, tick_label
from lawscope.section import HeatMap

MOST_CELLS = 30  # of more rows or columns neighbours share a cell
NAMED = 12  # up to this many rows have their name beside them
LEVELS = 12  # shades of each colour
FAINTEST = 0.55  # exponent of the shade: small values stay visible
WIDTH, LEFT, TOP, SCALE = 340, 84, 4, 46


def draw_heat_map(chart: HeatMap, width: int = WIDTH) -> Markup:
    """Return the chart as one ``svg`` element, the same for every width."""
    if not chart.values.size:
        return Markup("")
    cells = average_neighbours(chart.values)
    size = (WIDTH - LEFT - 4) / max(cells.shape)
    across, down = size * cells.shape[1], size * cells.shape[0]
    frame = Frame(WIDTH, round(TOP + down + SCALE + 14), LEFT, 4, TOP, SCALE)
    picture = Markup("").join(_shades(cells, size, chart))
    border = {"x": LEFT, "y": TOP, "width": across, "height": down}
    picture += element("rect", **border, class_="frame", fill="none")
    if len(chart.rows) <= NAMED:
        for index, name in enumerate(chart.rows):
            at = TOP + (index + 0.5) * size + 4
            picture += element("text", shorten(name, 11), x=LEFT - 8, y=at, class_="tick end")
    picture += _scale(chart, TOP + down + 12, across)
    described, known = f"{chart.title}.", chart.values[np.isfinite(chart.values)]
    if len(known):
        rows, columns = chart.values.shape
        ends = [number(float(end)) for end in (known.min(), known.max(), chart.low, chart.high)]
        described += f" {rows} by {columns} values between {ends[0]} and {ends[1]}, "
        described += f"colours from {ends[2]} to {ends[3]}."
    return draw_figure(frame, described, picture)


def average_neighbours(values: FloatArray) -> FloatArray:
    """Return at most 30 rows and columns: means over neighbours where there are more."""
    if max(values.shape) <= MOST_CELLS:
        return values
    rows, columns = (np.array_split(np.arange(n), min(n, MOST_CELLS)) for n in values.shape)
    # A block without any number stays NaN.
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return np.array([[np.nanmean(values[np.ix_(a, b)]) for b in columns] for a in rows])


def _levels(values: FloatArray, chart: HeatMap) -> FloatArray:
    """Return −LEVELS to LEVELS on either side of zero, or 0 to LEVELS where zero is not inside."""
    middle = min(max(0.0, chart.low), chart.high)
    reach = max(middle - chart.low, chart.high - middle) or 1.0
    return np.asarray(np.round(LEVELS * (np.clip(values, chart.low, chart.high) - middle) / reach))


def _shades(cells: FloatArray, size: float, chart: HeatMap) -> list[Markup]:
    """Return squares of one shade as one path, which is far shorter than an element per cell."""
    levels, square = _levels(cells, chart), f"h{size:.1f}v{size:.1f}h-{size:.1f}z"
    shades = []
    for level in filter(None, np.unique(levels)):  # NaN comes last, once
        where = np.argwhere(np.isnan(levels) if np.isnan(level) else levels == level)
        path = "".join(f"M{LEFT + x * size:.1f} {TOP + y * size:.1f}{square}" for y, x in where)
        tone, opacity = _shade(float(level))
        shades.append(element("path", d=path, class_=f"cell {tone}", fill_opacity=opacity))
    return shades


def _shade(level: float) -> tuple[str, float]:
    """Return class and opacity of a level."""
    if math.isnan(level):
        return "unknown", 1.0
    return "positive" if level > 0 else "negative", (abs(level) / LEVELS) ** FAINTEST


def _scale(chart: HeatMap, y: float, across: float) -> Markup:
    """Return a strip of all shades with its ends and its zero, and what the colours mean."""
    steps = 2 * LEVELS + 1
    strip = across / steps
    parts = []
    for index, level in enumerate(_levels(np.linspace(chart.low, chart.high, steps), chart)):
        if level:
            tone, opacity = _shade(float(level))
            place = {"x": LEFT + index * strip, "y": y, "width": strip, "height": 9}
            parts.append(element("rect", **place, class_=f"cell {tone}", fill_opacity=opacity))
    parts.append(element("rect", x=LEFT, y=y, width=across, height=9, class_="frame", fill="none"))
    marks = [(chart.low, "start"), (0.0, "middle"), (chart.high, "end")]
    for value, anchor in marks if chart.low < 0 < chart.high else marks[::2]:
        at = LEFT + across * (value - chart.low) / ((chart.high - chart.low) or 1.0)
        parts.append(element("text", tick_label(value), x=at, y=y + 22, class_=f"tick {anchor}"))
    middle = LEFT + across / 2
    parts.append(element("text", chart.scale_label, x=middle, y=y + 38, class_="label middle"))
    return Markup("").join(parts)
