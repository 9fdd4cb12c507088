"""Points in a plane with regions, as of the phases of a layer."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from lawscope.formatting import between, number, short_names, shorten
from lawscope.report.charts import svg
from lawscope.section import Plane

NAMED = 24  # up to so many points have their name beside them


def draw_plane(chart: Plane, width: int) -> Markup:
    """Return the chart as one ``svg`` element, empty when no point has a place."""
    placed = np.isfinite(chart.values.reshape(-1, 2)).all(axis=1)
    if not placed.any():
        return Markup("")
    frame = svg.Frame(width, 420 if width >= svg.WIDE else 340, left=52, right=16)
    corners = [chart.values[placed], *(region.outline for region in chart.regions)]
    across, up = (svg.padded_range(axis, False) for axis in np.concatenate(corners).T)
    assert across is not None
    assert up is not None
    x = svg.Scale(*across, frame.left + 8, frame.plot_right - 8)
    y = frame.upwards(*up, False)
    picture = svg.draw_axes(frame, x, y, x.ticks(), (chart.x_label, chart.y_label))
    for region in chart.regions:
        outline = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in region.outline.tolist())
        at, height = (
            scale(float(m)) for scale, m in zip((x, y), region.outline.mean(0), strict=True)
        )
        picture += svg.element("polygon", points=outline, class_="region")
        picture += svg.element("text", region.name, x=at, y=height + 4, class_="tick middle")
    names = short_names(chart.names)
    points = [_point(chart, names, int(index), x, y) for index in np.flatnonzero(placed)]
    described = f"{chart.title}. {int(placed.sum())} points among {len(chart.regions)} regions."
    return svg.draw_figure(frame, described, picture, svg.element("g", *points))


def _point(chart: Plane, names: list[str], index: int, x: svg.Scale, y: svg.Scale) -> Markup:
    at, height = (float(v) for v in chart.values[index])
    marks, said = Markup(""), [chart.names[index]]
    for axis, label in enumerate((chart.x_label, chart.y_label)):
        ends = None if chart.interval is None else chart.interval[index, axis]
        known = ends is not None and bool(np.isfinite(ends).all())
        said.append(f"{label} = {number(float(chart.values[index, axis]))}")
        if ends is not None and known:
            said[-1] += f" [{between(ends.tolist())}]"
            low, high = map((x, y)[axis].clamp, ends.tolist())
            path = f"M{low:.1f} {y(height):.1f}H{high:.1f}"
            path = f"M{x(at):.1f} {low:.1f}V{high:.1f}" if axis else path
            marks += svg.element("path", d=path, class_="bar")
    if chart.details:
        said.append(chart.details[index])
    marks += svg.element("circle", cx=x(at), cy=y(height), r=4.5, class_="mark")
    if len(names) <= NAMED:
        name = shorten(names[index], 18)
        marks += svg.element("text", name, x=x(at) + 7, y=y(height) - 6, class_="tick halo")
    label = ",\n".join(said)
    return svg.element("g", marks, class_="point trained", tabindex=0, role="img", aria_label=label)
