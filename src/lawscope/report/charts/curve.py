"""A quantity over stations: points with intervals, the fitted line, the untrained control."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from lawscope.arrays import FloatArray
from lawscope.formatting import between, number
from lawscope.report.charts import svg
from lawscope.section import Curve


def draw_curve(chart: Curve, width: int) -> Markup:
    """Return the chart as one ``svg`` element.

    On a log scale a station without a logarithm is a crossed gap; on a linear one NaN is not drawn.
    """
    found = curve_range(chart)
    if found is None:
        return Markup("")
    frame = svg.Frame(width, 420 if chart.log else 280, left=52, right=18)
    if width < svg.WIDE:
        frame = svg.Frame(width, 330 if chart.log else 250, left=46, right=10)
    # Room for a marker at both ends.
    x = svg.Scale(0, max(1, len(chart.values) - 1), frame.left + 16, frame.plot_right - 12)
    y = frame.upwards(*found, chart.log)
    ticks, axis = svg.station_axis(chart.stations, chart.unit, x)
    picture = svg.draw_axes(frame, x, y, ticks, (axis, chart.quantity))
    points = Markup("")
    for kind, values, fitted in series_of(chart):
        if fitted is not None:
            line = svg.drawable(fitted, chart.log)
            pixels = [None if math.isnan(v) else (x(i), y.clamp(v)) for i, v in enumerate(line)]
            picture += svg.polyline(pixels, class_=f"fit {kind}")
        places = svg.drawable(values, chart.log)
        marks = (_point(chart, kind, i, place, x, y) for i, place in enumerate(places))
        points += svg.element("g", *marks, class_=kind)
    first, last = (number(float(chart.values[i]), chart.digits) for i in (0, -1))
    described = (
        f"{chart.title}. {chart.symbol} goes from {first} at {chart.stations[0]} to {last} at "
        f"{chart.stations[-1]} over {len(chart.stations)} stations."
    )
    return svg.draw_figure(frame, described, picture, points)


def curve_range(chart: Curve) -> tuple[float, float] | None:
    """Return the range to show.

    Intervals count, but one that runs far out may not flatten everything else.
    """
    shown = [
        svg.drawable(v, chart.log) for _, *both in series_of(chart) for v in both if v is not None
    ]
    values = np.concatenate(shown)
    if np.isnan(values).all():
        return None
    low, high = np.nanmin(values), np.nanmax(values)
    if chart.interval is not None:
        far = (low / 4, high * 4) if chart.log else (2 * low - high, 2 * high - low)
        values = np.append(values, np.clip(svg.drawable(chart.interval, chart.log), *far))
    return svg.padded_range(values, chart.log, least=10.0 ** (1 - chart.digits))


def series_of(chart: Curve) -> list[tuple[str, FloatArray, FloatArray | None]]:
    """Return kind, values and line of everything drawn, the measured curve on top."""
    series: list[tuple[str, FloatArray, FloatArray | None]] = []
    if chart.control is not None:
        series.append(("control", chart.control, chart.control_fitted))
    if chart.estimate is not None:
        series.append(("population", chart.estimate, None))
    return [*series, ("trained", chart.values, chart.fitted)]


def ends_of(chart: Curve, kind: str, index: int) -> tuple[float, float] | None:
    """Return the interval of one point, which belongs to the estimate where there is one."""
    owner = "trained" if chart.estimate is None else "population"
    if chart.interval is None or kind != owner or np.isnan(chart.interval[index]).any():
        return None
    low, high = chart.interval[index].tolist()
    return low, high


def _point(chart: Curve, kind: str, index: int, place: float, x: svg.Scale, y: svg.Scale) -> Markup:
    at, marks = x(index), Markup("")
    if math.isnan(place) and not chart.log:
        return marks
    if math.isnan(place):
        gap = svg.element("line", x1=at, x2=at, y1=y.end, y2=y.start, class_="gap")
        cross = f"M{at - 5:.1f} {y.start - 11:.1f}l10 10m0-10l-10 10"
        marks = gap + svg.element("path", d=cross, class_="cross")
    else:
        if ends := ends_of(chart, kind, index):
            low, high = map(y.clamp, ends)
            # An open end has no cap.
            cap = "m-3 0h6" if math.isfinite(ends[1]) else ""
            path = f"M{at:.1f} {low:.1f}V{high:.1f}{cap}M{at - 3:.1f} {low:.1f}h6"
            marks = svg.element("path", d=path, class_="bar")
        # Smaller where stations stand close together.
        height, radius = y.clamp(place), max(2.0, min(4.5, 0.4 * (x(1) - x(0))))
        if kind == "control":
            half = f"{radius + 0.5:.1f}"
            path = f"M{at:.1f} {height:.1f}m0-{half}l{half} {half}-{half} {half}-{half}-{half}z"
            marks += svg.element("path", d=path, class_="mark")
        else:
            marks += svg.element("circle", cx=at, cy=height, r=radius, class_="mark")
    # Marks can be focused; the lines of the label are what the tooltip shows.
    label = ",\n".join(point_lines(chart, kind, index))
    return svg.element("g", marks, class_="point", tabindex=0, role="img", aria_label=label)


def point_lines(chart: Curve, kind: str, index: int) -> list[str]:
    """Return what there is to say about one station, the name first."""
    values, fitted = next(both for each, *both in series_of(chart) if each == kind)
    assert values is not None
    value, name = float(values[index]), f"{index} {chart.stations[index]}"
    said = {"trained": "", "control": " (untrained)", "population": " (population)"}
    lines = [name + said[kind]]
    if math.isnan(value):
        return [*lines, f"{chart.symbol} is not a number"]
    if math.isnan(svg.drawable(values[index], chart.log)):
        return [*lines, f"{chart.symbol} = {number(value)} has no place on a log scale"]
    lines.append(f"{chart.symbol} = {number(value, chart.digits)}")
    if ends := ends_of(chart, kind, index):
        lines.append(f"95 %: {between(ends, lambda end: number(end, chart.digits))}")
    if fitted is not None and chart.log and np.isfinite(fitted[index]):
        off = value / float(fitted[index]) - 1
        lines.append(f"{number(100 * abs(off))} % {'above' if off >= 0 else 'below'} the line")
    return lines
