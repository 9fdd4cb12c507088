"""Drawing by hand: scales, ticks, axes and escaped SVG elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from lawscope.arrays import FloatArray
from lawscope.formatting import short_names

Ticks = list[tuple[float, str]]  # values with their labels
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MOST_TICKS = 8
LETTER = 7.0  # width of a tick's letter in pixels
WIDE, NARROW = 740, 350  # widths that charts are drawn for


@dataclass(frozen=True)
class Frame:
    """Size and margins of a drawing in CSS pixels.

    A chart scaled down to a phone would have unreadable letters, so the page holds a wide and a
    narrow drawing of it and shows the one that fits.
    """

    width: int
    height: int
    left: int
    right: int
    top: int = 28
    bottom: int = 46

    @property
    def plot_right(self) -> int:
        return self.width - self.right

    @property
    def plot_bottom(self) -> int:
        return self.height - self.bottom

    def upwards(self, low: float, high: float, log: bool) -> Scale:
        """Return the scale from values to pixels."""
        return Scale(low, high, self.plot_bottom - 8, self.top, log)


@dataclass(frozen=True)
class Scale:
    """A straight map from [low, high] to pixels [start, end], in log10 if ``log``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def clamp(self, value: float) -> float:
        """Return the pixel of ``value``, or of the end of the scale it lies beyond."""
        return self(min(max(value, self.low), self.high))

    def ticks(self) -> Ticks:
        """Return round values on the scale, with their labels."""
        values = (log_ticks if self.log else linear_ticks)(self.low, self.high)
        return [(value, tick_label(value)) for value in values]


def element(tag: str, *children: str, **attributes: object) -> Markup:
    """Return one SVG element; children and attribute values are escaped unless they are ``Markup``.

    Attribute names are written as Python allows: ``class_`` is class, ``stroke_width`` is
    stroke-width; None leaves an attribute out.

    Example:
        >>> print(element("text", "<b>", x=1.25, class_="tick"))
        <text x="1.25" class="tick">&lt;b&gt;</text>
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if not children:
        return Markup(f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{Markup('').join(children)}</{tag}>")


def _short(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def polyline(points: Iterable[tuple[float, float] | None], **attributes: object) -> Markup:
    """Return a line through points that breaks where a point is None."""
    steps, pen = [], "M"
    for point in points:
        steps += [] if point is None else [f"{pen}{point[0]:.1f} {point[1]:.1f}"]
        pen = "M" if point is None else "L"
    return element("path", d="".join(steps), fill="none", **attributes)


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers (1, 2, 5 times a power of ten apart) inside [low, high]."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks of a log scale: 1-2-5, 1-3 or powers of ten, the densest that is not crowded."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    stride = math.ceil(len(powers) / MOST_TICKS)
    sparse = [float(f"1e{power}") for power in powers if power % stride == 0]
    dense = ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,))
    choices = [[float(f"{step}e{p}") for p in powers for step in steps] for steps in dense]
    for ticks in (*choices, sparse):
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) <= MOST_TICKS:
            break
    return inside if len(inside) > 1 else linear_ticks(low, high)


def index_ticks(length: int, room: float) -> list[int]:
    """Return station numbers to write in ``room`` pixels, 1, 2, 5, 10, … apart."""
    last = length - 1
    most = max(2, int(room // 22))
    return [int(tick) for tick in linear_ticks(0, last, min(most, last))] if last else [0]


def tick_label(value: float) -> str:
    """Return a tick as text: 0.01, 1, 20, and 10⁻⁵ beyond what is easily counted."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.10g}".replace("-", "−")
    mantissa, exponent = f"{value:e}".split("e")
    factor = "" if float(mantissa) == 1 else f"{float(mantissa):g}·"
    return f"{factor}10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def drawable(values: FloatArray, log: bool) -> FloatArray:
    """Return the values with NaN in place of what has no place on the axis."""
    values = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(values) & ((values > 0) | (not log)), values, np.nan)


def padded_range(values: FloatArray, log: bool, least: float = 0.01) -> tuple[float, float] | None:
    """Return a range wider than the values, by a share ``least`` of them; None without any."""
    usable = drawable(values, log)
    usable = usable[~np.isnan(usable)]
    if not len(usable):
        return None
    low, high = float(usable.min()), float(usable.max())
    if log:
        factor = max((high / low) ** 0.05, 1 + least)
        return low / factor, high * factor
    pad = max(0.07 * (high - low), least * max(abs(low), abs(high))) or 1.0
    return low - pad, high + pad


def station_axis(names: Sequence[str], unit: str, x: Scale) -> tuple[Ticks, str]:
    """Return ticks and label of an axis: short names where all fit, else their numbers."""
    letters = (x(1) - x(0)) / LETTER - 1
    short = short_names(names, letters)
    if all(len(name) <= letters for name in short):
        return [(float(index), name) for index, name in enumerate(short)], unit
    indices = index_ticks(len(names), x.end - x.start)
    return [(float(index), str(index)) for index in indices], f"{unit} index"


def draw_axes(frame: Frame, x: Scale, y: Scale, ticks: Ticks, labels: tuple[str, str]) -> Markup:
    """Return hairlines with their numbers, the axis with ``ticks`` under it, and both labels."""
    left, right, base = frame.left, frame.plot_right, frame.plot_bottom
    parts: list[Markup] = []
    for value, label in y.ticks():
        height = y(value)
        parts += [
            element("line", x1=left, x2=right, y1=height, y2=height, class_="grid"),
            element("text", label, x=left - 8, y=height + 4, class_="tick end"),
        ]
    parts.append(element("line", x1=left, x2=right, y1=base, y2=base, class_="axis"))
    for position, text in ticks:
        place = x(position)
        parts += [
            element("line", x1=place, x2=place, y1=base, y2=base + 4, class_="axis"),
            element("text", text, x=place, y=base + 18, class_="tick middle"),
        ]
    middle = (left + right) / 2
    parts += [
        element("text", labels[0], x=middle, y=frame.height - 6, class_="label middle"),
        element("text", f"{labels[1]}{', log scale' if y.log else ''}", x=0, y=12, class_="label"),
    ]
    return Markup("").join(parts)


def draw_figure(frame: Frame, described: str, picture: str, points: str = "") -> Markup:
    """Return the SVG document of one chart: a described picture, and points to focus.

    ``described`` is what there is to see, for those who do not see it; ``points`` answer to
    pointer and keyboard, each with its own label.
    """
    still = element("g", picture, role="img", aria_label=described)
    size = "wide" if frame.width > NARROW else "narrow"
    viewed = f"0 0 {frame.width} {frame.height}"
    return element("svg", still, points, class_=f"chart {size}", viewBox=viewed)
