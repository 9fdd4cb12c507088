"""Points in a plane, with the regions that they may lie in."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from lawscope.formatting import number
from lawscope.report.charts import svg
from lawscope.report.charts.curve import draw_mark
from lawscope.section import Plane


def group_slots(chart: Plane) -> dict[str, int]:
    """Return the number of the colour of every group, in the order of appearance."""
    return {group: slot % 12 for slot, group in enumerate(dict.fromkeys(chart.groups))}


def draw_plane(chart: Plane, width: int) -> Markup:
    """Return the chart as one ``svg`` element, empty when no point has a place."""
    corners = [corner for region in chart.regions for corner in region.corners]
    both = [
        svg.padded_range(np.array([*points, *(corner[axis] for corner in corners)]), log=False)
        for axis, points in enumerate((chart.x, chart.y))
    ]
    if both[0] is None or both[1] is None:
        return Markup("")
    frame = svg.Frame(width, 420 if width >= svg.WIDE else 330, left=52, right=18)
    x = svg.Scale(*both[0], frame.left + 4, frame.plot_right - 4)
    y = svg.value_scale(*both[1], frame, log=False)
    picture = Markup("")
    for index, region in enumerate(chart.regions):
        pixels = [(x(a), y(b)) for a, b in region.corners]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in pixels)
        picture += svg.element("polygon", points=points, class_=f"region r{index % 4}")
        if pixels:
            at, height = (sum(p[axis] for p in pixels) / len(pixels) for axis in (0, 1))
            picture += svg.element("text", region.name, x=at, y=height, class_="label middle")
    ticks = [(tick, svg.tick_label(tick)) for tick in svg.linear_ticks(x.low, x.high)]
    picture += svg.draw_axes(frame, x, y, ticks, (chart.x_label, chart.y_label))
    slots, marks = group_slots(chart), []
    for index, (a, b) in enumerate(zip(chart.x.tolist(), chart.y.tolist(), strict=True)):
        if not (math.isfinite(a) and math.isfinite(b)):
            continue
        tone = f"c{slots[chart.groups[index]]}" if chart.groups else "trained"
        lines = [
            chart.labels[index],
            f"{chart.x_label} {number(a)}",
            f"{chart.y_label} {number(b)}",
        ]
        mark = svg.focusable(draw_mark(tone, x(a), y(b), 4.5), lines)
        marks.append(svg.element("g", mark, class_=tone))
    described = f"{chart.title}. {len(marks)} points of {chart.y_label} against {chart.x_label}."
    return svg.draw_figure(frame, described, picture, Markup("").join(marks))
