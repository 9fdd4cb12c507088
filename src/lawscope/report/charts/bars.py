"""One horizontal bar per label, from zero."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from lawscope.formatting import short_names, shorten
from lawscope.report.charts.svg import WIDE, Frame, Scale, draw_figure, element
from lawscope.section import Bars

WIDE_ROW, NARROW_ROW = 34, 50
MOST_LETTERS = 24  # of a label


def draw_bars(chart: Bars, width: int) -> Markup:
    """Return the chart as one ``svg`` element; labels above the bars where it is narrow."""
    if not len(chart.labels):
        return Markup("")
    wide = width >= WIDE
    row = WIDE_ROW if wide else NARROW_ROW
    side, notes = (210, 150 if any(chart.notes) else 12) if wide else (0, 0)
    top = 26 if chart.reference_label else 6
    frame = Frame(width, top + row * len(chart.labels) + 6, side, notes, top, 6)
    known = [float(v) for v in (*chart.values, chart.reference or 0.0, 0.0) if math.isfinite(v)]
    low, high = min(known), max(known)
    x = Scale(low, high if high > low else low + 1, side + 2, width - notes - 2)
    names = short_names(chart.labels, MOST_LETTERS)
    bottom = frame.plot_bottom
    picture = element("line", x1=x(0), x2=x(0), y1=top, y2=bottom, class_="zero")
    rows = (_row(chart, name, i, top + i * row, frame, x) for i, name in enumerate(names))
    picture += Markup("").join(rows)
    if chart.reference is not None and math.isfinite(chart.reference):
        at = x(chart.reference)
        # The words stay inside the drawing on whichever side has room.
        side_class = "end" if at > width / 2 else "start"
        line = element("line", x1=at, x2=at, y1=top, y2=bottom, class_="reference")
        words = element("text", chart.reference_label, x=at, y=16, class_=f"tick {side_class}")
        # Under the words of a narrow drawing, over the bars of a wide one.
        picture = picture + line + words if wide else line + words + picture
    described = f"{chart.title}."
    if np.isfinite(chart.values).any():
        longest, least = (int(find(chart.values)) for find in (np.nanargmax, np.nanargmin))
        said = chart.notes or [""] * len(names)
        described += f" {len(names)} bars; the longest is {chart.labels[longest]} {said[longest]},"
        described += f" the shortest {chart.labels[least]} {said[least]}."
    return draw_figure(frame, described, picture)


def _row(chart: Bars, name: str, index: int, y: int, frame: Frame, x: Scale) -> Markup:
    value = float(chart.values[index])
    note = chart.notes[index] if chart.notes else ""
    detail = chart.details[index] if chart.details else ""
    if frame.left:
        middle, thick, from_y = y + 21, 18, y + 8
        base = y + 15 if detail else middle
        texts = element("text", shorten(name, MOST_LETTERS), x=0, y=base, class_="bar-name")
        if detail:
            texts += element("text", detail, x=0, y=y + 29, class_="tick")
        texts += element("text", note, x=frame.plot_right + 10, y=middle, class_="tick")
    else:
        thick, from_y = 14, y + 24
        texts = element("text", shorten(name, MOST_LETTERS), x=0, y=y + 16, class_="bar-name halo")
        texts += element("text", note, x=frame.width, y=y + 16, class_="tick end halo")
    if math.isnan(value):
        return texts
    start, end = sorted((x(0), x(value)))
    kind = "amount" if value >= 0 else "amount below"
    bar = element("rect", x=start, y=from_y, width=end - start, height=thick, class_=kind)
    return element("g", texts, bar)
