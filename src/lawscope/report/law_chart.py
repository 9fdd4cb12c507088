"""A law as a picture: a quantity on a log scale against the station index, and its residuals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from lawscope.laws.separation_result import FloatArray
from lawscope.report.curve import FUZZINESS, Curve, Quantity
from lawscope.report.numbers import number, one_of, signed
from lawscope.report.svg import (
    Frame,
    Scale,
    axes,
    element,
    figure,
    index_ticks,
    linear_ticks,
    log_ticks,
)

FRAMES = (
    Frame("wide", 740, 420, left=52, right=18, top=28, bottom=46),
    Frame("narrow", 350, 330, left=44, right=10, top=28, bottom=46),
)
RESIDUAL_FRAMES = (
    Frame("wide", 740, 300, left=52, right=18, top=28, bottom=46),
    Frame("narrow", 350, 270, left=44, right=10, top=28, bottom=46),
)
LETTER = 7.0  # width of a tick's letter in pixels


def law_chart(
    curve: Curve, control: Curve | None, frame: Frame, quantity: Quantity = FUZZINESS
) -> Markup:
    """The value at every station on a log scale with its interval and the fitted line.

    Args:
        curve: the measured law.
        control: the same network untrained, drawn beside it.
        frame: the size to draw for.
        quantity: what the values are.

    Returns:
        One ``svg`` element. A station without a positive value is a crossed gap.
    """
    both = [curve] if control is None else [control, curve]
    extent = log_extent(both, quantity)
    if extent is None:
        return Markup("")
    x = station_scale(max(len(each.values) for each in both), frame)
    y = Scale(*extent, frame.plot_bottom - 8, frame.top, log=True)
    ticks, axis = station_axis(curve, x)
    labels = (axis, f"{quantity.name}, log scale")
    picture = axes(frame, x, y, ticks, log_ticks(*extent), labels)
    points = Markup("")
    for each in both:
        kind = "control" if each is control else "trained"
        picture += _fitted_line(each, x, y, kind, quantity)
        marks = (_point(each, index, x, y, kind, quantity) for index in range(len(each.values)))
        points += element("g", *marks, class_=kind)
    return figure(frame, "law", _law_described(curve, quantity), picture, points)


def residual_chart(curve: Curve, frame: Frame, quantity: Quantity = FUZZINESS) -> Markup:
    """How far each station lies above or below the fitted line, in units of the logarithm.

    Args:
        curve: the measured law.
        frame: the size to draw for.
        quantity: what the values are.

    Returns:
        One ``svg`` element, empty when there is no line.
    """
    residuals, first = curve.fit.residuals, quantity.first
    fitted = curve.fit.intercept + curve.fit.slope * np.arange(len(residuals))
    if not len(residuals[first:]) or not np.isfinite(residuals[first:]).all():
        return Markup("")
    low, high = residuals, residuals
    if curve.interval is not None:
        low, high = (np.log(_positive(ends)) - fitted for ends in curve.interval.T)
    widest = np.nanmax(np.abs(np.concatenate([part[first:] for part in (residuals, low, high)])))
    reach = max(quantity.least_reach, 1.15 * float(widest))
    x = station_scale(len(residuals), frame)
    y = Scale(-reach, reach, frame.plot_bottom - 8, frame.top)
    ticks, axis = station_axis(curve, x)
    labels = (axis, f"log {quantity.symbol} − fitted line")
    picture = axes(frame, x, y, ticks, linear_ticks(-reach, reach), labels)
    picture += element(
        "line", x1=frame.left, x2=frame.plot_right, y1=y(0), y2=y(0), class_="fit trained"
    )
    marks = []
    for index in range(first, len(residuals)):
        place = x(index)
        bar = _bar(place, float(low[index]), float(high[index]), y)
        dot = _dot(x, place, y(float(residuals[index])))
        marks.append(_reachable(curve, index, "trained", bar + dot, quantity))
    points = element("g", *marks, class_="trained")
    worst = first + int(np.argmax(np.abs(residuals[first:])))
    described = (
        "Residuals of the fitted line",
        f"{curve.stations[worst]} is furthest from it, {_off_line(residuals[worst])}.",
    )
    return figure(frame, "residuals", described, picture, points)


def log_extent(
    results: Sequence[Curve], quantity: Quantity = FUZZINESS
) -> tuple[float, float] | None:
    """Range to show, a little wider than the values; None when no value is positive.

    Intervals count, but one that runs far out may not flatten everything else.
    """
    values = _positive(np.concatenate([each.values for each in results]))
    if np.isnan(values).all():
        return None
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    ends = [_positive(each.interval).ravel() for each in results if each.interval is not None]
    lines = [_positive(_line_ends(each, quantity.first)) for each in results]
    reach = np.concatenate([*ends, *lines, [low, high]])
    low = max(float(np.nanmin(reach)), low / 4)
    high = min(float(np.nanmax(reach)), high * 4)
    pad = max((high / low) ** 0.05, quantity.least_pad)
    return low / pad, high * pad


def station_scale(length: int, frame: Frame) -> Scale:
    """Station index to pixels, with room for a marker at both ends."""
    return Scale(0, max(1, length - 1), frame.left + 16, frame.plot_right - 12)


def station_axis(curve: Curve, x: Scale) -> tuple[list[tuple[int, str]], str]:
    """Ticks and label of the axis: station names where all of them fit, else their numbers."""
    unit = one_of(curve.granularity)
    letters = (x(1) - x(0)) / LETTER - 1
    if all(len(name) <= letters for name in curve.stations):
        return list(enumerate(curve.stations)), unit
    indices = index_ticks(len(curve.stations), x.end - x.start)
    return [(index, str(index)) for index in indices], f"{unit} index l"


def _positive(values: FloatArray) -> FloatArray:
    """What has a logarithm; NaN elsewhere."""
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def _line_ends(result: Curve, first: int) -> FloatArray:
    return result.fit.predict(np.array([first, len(result.values) - 1], dtype=np.float64))


def _fitted_line(result: Curve, x: Scale, y: Scale, kind: str, quantity: Quantity) -> Markup:
    last, ends = len(result.values) - 1, _positive(_line_ends(result, quantity.first))
    if np.isnan(ends).any():
        return Markup("")
    return element(
        "line",
        x1=x(quantity.first), y1=y(float(ends[0])), x2=x(last), y2=y(float(ends[1])),
        class_=f"fit {kind}",
    )  # fmt: skip


def _point(result: Curve, index: int, x: Scale, y: Scale, kind: str, quantity: Quantity) -> Markup:
    value, place = float(result.values[index]), x(index)
    if not (math.isfinite(value) and value > 0):
        gap = element("line", x1=place, x2=place, y1=y.end, y2=y.start, class_="gap")
        cross = element(
            "path", d=f"M{place - 5:.1f} {y.start - 11:.1f}l10 10m0-10l-10 10", class_="cross"
        )
        return _reachable(result, index, kind, gap + cross, quantity)
    bar = Markup("")
    if result.interval is not None:
        low, high = (float(end) for end in _positive(result.interval[index]))
        bar = _bar(place, low, high, y)
    mark = (_dot if kind == "trained" else _diamond)(x, place, y(value))
    return _reachable(result, index, kind, bar + mark, quantity)


def _radius(x: Scale) -> float:
    """Of a marker: smaller where stations stand close together."""
    return max(2.0, min(4.5, 0.4 * (x(1) - x(0))))


def _dot(x: Scale, place: float, height: float) -> Markup:
    return element("circle", cx=place, cy=height, r=_radius(x), class_="mark")


def _diamond(x: Scale, place: float, height: float) -> Markup:
    half = f"{_radius(x) + 0.5:.1f}"
    path = f"M{place:.1f} {height:.1f}m0-{half}l{half} {half}-{half} {half}-{half}-{half}z"
    return element("path", d=path, class_="mark")


def _bar(place: float, low: float, high: float, y: Scale) -> Markup:
    if math.isnan(low) or math.isnan(high):
        return Markup("")
    bottom, top = y.clamp(low), y.clamp(high)
    return element(
        "path",
        d=f"M{place:.1f} {bottom:.1f}V{top:.1f}m-3 0h6M{place - 3:.1f} {bottom:.1f}h6",
        class_="bar",
    )


def _reachable(result: Curve, index: int, kind: str, marks: Markup, quantity: Quantity) -> Markup:
    """A mark that can be focused; the lines of its label are what the tooltip shows."""
    label = ",\n".join(point_lines(result, index, kind, quantity))
    return element("g", marks, class_="point", tabindex=0, role="img", aria_label=label)


def point_lines(result: Curve, index: int, kind: str, quantity: Quantity = FUZZINESS) -> list[str]:
    """What there is to say about one station, the name first."""
    value, residual = float(result.values[index]), float(result.fit.residuals[index])
    name, symbol, digits = f"{index} {result.stations[index]}", quantity.symbol, quantity.digits
    lines = [name if kind == "trained" else f"{name} (untrained)"]
    if math.isnan(value):
        return [*lines, f"{symbol} is not a number"]
    if not (math.isfinite(value) and value > 0):
        return [*lines, f"{symbol} = {number(value)} has no logarithm"]
    lines.append(f"{symbol} = {number(value, digits)}")
    if result.interval is not None and np.isfinite(result.interval[index]).all():
        low, high = (float(end) for end in result.interval[index])
        lines.append(f"95 % interval {number(low, digits)} to {number(high, digits)}")
    if math.isfinite(residual):
        lines.append(f"residual {signed(residual)}, {_off_line(residual)}")
    return lines


def _off_line(residual: float) -> str:
    off = math.expm1(residual)
    return f"{100 * abs(off):.1f} % {'above' if off >= 0 else 'below'} the line"


def _law_described(curve: Curve, quantity: Quantity) -> tuple[str, str]:
    fit, digits = curve.fit, quantity.digits
    unit = one_of(curve.granularity)
    title = quantity.name[0].upper() + quantity.name[1:]
    return (
        f"{title} at every station",
        f"{quantity.symbol} goes from {number(curve.values[0], digits)} at {curve.stations[0]} to "
        f"{number(curve.values[-1], digits)} at {curve.stations[-1]} over "
        f"{len(curve.values)} stations; the fitted line keeps {number(fit.rho, digits)} per {unit},"
        f" correlation {number(fit.pearson, 4)}.",
    )
