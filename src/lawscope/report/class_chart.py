"""Class by class: D^k at every station, all lines for few classes, the ends for many."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from lawscope.laws.separation_result import FloatArray, Separation
from lawscope.report.law_chart import station_axis, station_scale
from lawscope.report.numbers import number, shorten
from lawscope.report.svg import Frame, Scale, axes, element, figure, log_ticks, polyline

FRAMES = (
    Frame("wide", 740, 400, left=52, right=128, top=28, bottom=46),
    Frame("narrow", 350, 320, left=44, right=10, top=28, bottom=46),
)
ALL_DRAWN = 12  # up to this many classes every one has a line
ENDS = 3  # beyond it: so many of the worst and of the best
LABEL_GAP = 14.0


@dataclass(frozen=True)
class ClassLine:
    """One class with a line of its own.

    Attributes:
        k: column of ``classwise``.
        slot: number of its colour.
        name: of the class.
        last: its D^k at the last station where that is a positive number.
    """

    k: int
    slot: int
    name: str
    last: float


def class_lines(separation: Separation) -> list[ClassLine]:
    """The classes to draw, from the fuzziest at the end of the network to the clearest."""
    last = [last_value(curve) for curve in separation.classwise.T]
    order = sorted(range(len(last)), key=lambda k: (math.isnan(last[k]), -last[k]))
    if len(order) > ALL_DRAWN:
        order = order[:ENDS] + order[-ENDS:]
    return [ClassLine(k, slot, separation.class_names[k], last[k]) for slot, k in enumerate(order)]


def last_value(curve: FloatArray) -> float:
    """The last number on a curve that has a logarithm, NaN without one."""
    usable = curve[np.isfinite(curve) & (curve > 0)]
    return float(usable[-1]) if len(usable) else math.nan


def class_chart(separation: Separation, frame: Frame) -> Markup:
    """D^k against the station index, one line per class.

    Beyond ``ALL_DRAWN`` classes: the range of all, the middle half, the median, and lines for
    the worst and best; the page's script draws any other class into the empty ``picked`` path.

    Args:
        separation: the measured law.
        frame: the size to draw for.

    Returns:
        One ``svg`` element, empty when no class has a positive D.
    """
    values = separation.classwise
    usable = values[np.isfinite(values) & (values > 0)]
    if not len(usable):
        return Markup("")
    pad = max((usable.max() / usable.min()) ** 0.04, 1.1)
    x = station_scale(len(values), frame)
    low, high = float(usable.min() / pad), float(usable.max() * pad)
    y = Scale(low, high, frame.plot_bottom - 8, frame.top, log=True)
    ticks, axis = station_axis(separation, x)
    labels = (axis, "fuzziness of a class, log scale")
    picture = axes(frame, x, y, ticks, log_ticks(low, high), labels)
    lines = class_lines(separation)
    if len(lines) < values.shape[1]:
        picture += _bands(values, x, y)
    for line in lines:
        picture += polyline(
            _pixels(values[:, line.k], x, y), class_=f"class c{line.slot}", data_class=line.k
        )
    picture += element("path", class_="class picked", fill="none")
    if frame.name == "wide":
        picture += _end_labels(lines, x.end + 10, y)
    described = (
        "Separation fuzziness of every class",
        f"At the end {lines[0].name} is fuzziest with {number(lines[0].last)}, "
        f"{lines[-1].name} clearest with {number(lines[-1].last)}.",
    )
    origin, decade = y(1), y(10) - y(1)
    return figure(
        frame, "classwise", described, picture, data_x=x.start, data_step=x(1) - x(0),
        data_origin=origin, data_decade=decade,
    )  # fmt: skip


def _pixels(curve: FloatArray, x: Scale, y: Scale) -> list[tuple[float, float] | None]:
    return [
        (x(index), y(float(value))) if math.isfinite(value) and value > 0 else None
        for index, value in enumerate(curve)
    ]


def _bands(values: FloatArray, x: Scale, y: Scale) -> Markup:
    """The range of all classes, their middle half and their median at every station."""
    quantiles = np.array([_quantiles(row) for row in values])
    parts = []
    for low, high, kind in ((0, 4, "all"), (1, 3, "half")):
        parts += [
            element("polygon", points=corners, class_=f"band {kind}")
            for corners in _polygons(quantiles[:, low], quantiles[:, high], x, y)
        ]
    parts.append(polyline(_pixels(quantiles[:, 2], x, y), class_="median"))
    return Markup("").join(parts)


def _quantiles(row: FloatArray) -> FloatArray:
    usable = row[np.isfinite(row) & (row > 0)]
    return np.quantile(usable, [0, 0.25, 0.5, 0.75, 1]) if len(usable) else np.full(5, np.nan)


def _polygons(low: FloatArray, high: FloatArray, x: Scale, y: Scale) -> list[str]:
    """Corners of the area between two curves, one polygon per stretch without a gap."""
    stretches: list[list[int]] = [[]]
    for index, value in enumerate(low):
        if math.isnan(value):
            stretches.append([])
        else:
            stretches[-1].append(index)
    return [
        " ".join(
            f"{x(index):.1f},{y(float(curve[index])):.1f}"
            for curve, way in ((high, stretch), (low, stretch[::-1]))
            for index in way
        )
        for stretch in stretches
        if stretch
    ]


def _end_labels(lines: list[ClassLine], place: float, y: Scale) -> Markup:
    """Class names at the ends of their lines, moved apart so that they can be read."""
    named = [line for line in lines if math.isfinite(line.last)]
    heights = spread([y(line.last) for line in named], LABEL_GAP, y.start)
    parts = []
    for line, height in zip(named, heights, strict=True):
        leader = f"M{place - 6:.1f} {y(line.last):.1f}L{place + 6:.1f} {height:.1f}"
        mark = element("path", d=leader, class_="leader", fill="none")
        text = element(
            "text", shorten(line.name, 16), x=place + 9, y=height + 4, class_="class-name"
        )
        parts.append(element("g", mark, text, class_=f"ending c{line.slot}", data_class=line.k))
    return Markup("").join(parts)


def spread(heights: list[float], gap: float, floor: float) -> list[float]:
    """Heights from top to bottom moved so that neighbours are ``gap`` apart and none sinks.

    Example:
        >>> spread([10.0, 12.0, 50.0], 14.0, 60.0)
        [10.0, 24.0, 50.0]
        >>> spread([40.0, 58.0, 59.0], 14.0, 60.0)
        [32.0, 46.0, 60.0]
    """
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + gap) if moved else height)
    for index in range(len(moved) - 1, -1, -1):
        moved[index] = min(moved[index], floor - gap * (len(moved) - 1 - index))
    return moved
