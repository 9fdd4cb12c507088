"""Drawing by hand: scales, ticks, axes and escaped SVG elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MOST_TICKS = 8


@dataclass(frozen=True)
class Frame:
    """Size and margins of a drawing in CSS pixels; every chart is drawn for two of them.

    A chart scaled down to a phone would have unreadable letters, so the page holds one drawing
    for each and shows the one that fits.
    """

    name: str
    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    @property
    def plot_right(self) -> int:
        """Where the plotting area ends."""
        return self.width - self.right

    @property
    def plot_bottom(self) -> int:
        """Where the plotting area ends below."""
        return self.height - self.bottom


@dataclass(frozen=True)
class Scale:
    """A straight map from [low, high] to pixels [start, end], in log10 if ``log``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of ``value``."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def clamp(self, value: float) -> float:
        """The pixel of ``value``, or of the end of the scale it lies beyond."""
        return self(min(max(value, self.low), self.high))


def element(tag: str, *children: str, **attributes: object) -> Markup:
    """One SVG element; children and attribute values are escaped unless they are ``Markup``.

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
    """A line through points that breaks where a point is None."""
    steps, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        steps.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
        pen = "L"
    return element("path", d="".join(steps), fill="none", **attributes)


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers (1, 2, 5 times a power of ten apart) inside [low, high].

    Example:
        >>> linear_ticks(0, 20)
        [0.0, 5.0, 10.0, 15.0, 20.0]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a log scale: 1-2-5, 1-3 or powers of ten, the densest that is not crowded.

    Example:
        >>> log_ticks(0.04, 15), log_ticks(1e-3, 20)
        ([0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0], [0.001, 0.01, 0.1, 1.0, 10.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    stride = math.ceil(len(powers) / MOST_TICKS)
    sparse = [float(f"1e{power}") for power in powers if power % stride == 0]
    choices = [
        [float(f"{step}e{power}") for power in powers for step in steps]
        for steps in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,))
    ]
    for ticks in (*choices, sparse):
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) <= MOST_TICKS:
            break
    return inside if len(inside) > 1 else linear_ticks(low, high)


def index_ticks(length: int, room: float) -> list[int]:
    """Station numbers to write so that each has about ``room`` pixels, 1, 2, 5, 10, … apart.

    Example:
        >>> index_ticks(21, 250)
        [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    """
    most = max(2, int(room // 22))
    steps = (factor * 10**power for power in range(6) for factor in (1, 2, 5))
    return list(range(0, length, next(step for step in steps if (length - 1) / step <= most)))


def tick_label(value: float) -> str:
    """A tick as text: 0.01, 1, 20, and 10⁻⁵ beyond what is easily counted.

    Example:
        >>> tick_label(0.05), tick_label(1e-5), tick_label(3e5), tick_label(0.0)
        ('0.05', '10⁻⁵', '3·10⁵', '0')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.10g}".replace("-", "−")
    mantissa, exponent = f"{value:e}".split("e")
    factor = "" if float(mantissa) == 1 else f"{float(mantissa):g}·"
    return f"{factor}10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def axes(
    frame: Frame,
    x: Scale,
    y: Scale,
    x_ticks: Sequence[tuple[int, str]],
    y_ticks: Sequence[float],
    labels: tuple[str, str],
) -> Markup:
    """Horizontal hairlines with their numbers, the station axis, and both labels.

    Args:
        frame: the drawing.
        x: station index to pixels.
        y: value to pixels.
        x_ticks: station index and what to write under it.
        y_ticks: values to draw a line at.
        labels: of the station axis and of the value axis.

    Returns:
        The marks of both axes.
    """
    parts: list[Markup] = []
    for value in y_ticks:
        height = y(value)
        parts += [
            element(
                "line", x1=frame.left, x2=frame.plot_right, y1=height, y2=height, class_="grid"
            ),
            element("text", tick_label(value), x=frame.left - 8, y=height + 4, class_="tick end"),
        ]
    base = frame.plot_bottom
    parts.append(
        element("line", x1=frame.left, x2=frame.plot_right, y1=base, y2=base, class_="axis")
    )
    for index, text in x_ticks:
        place = x(index)
        parts += [
            element("line", x1=place, x2=place, y1=base, y2=base + 4, class_="axis"),
            element("text", text, x=place, y=base + 18, class_="tick middle"),
        ]
    middle = (frame.left + frame.plot_right) / 2
    parts += [
        element("text", labels[0], x=middle, y=frame.height - 6, class_="label middle"),
        element("text", labels[1], x=0, y=12, class_="label"),
    ]
    return Markup("").join(parts)


def figure(
    frame: Frame,
    name: str,
    described: tuple[str, str],
    picture: str,
    points: str = "",
    **data: object,
) -> Markup:
    """The SVG document of one chart: a described picture, and points that can be focused.

    Args:
        frame: the drawing; its name becomes a class.
        name: unique on the page, for the ids.
        described: title, and what there is to see for those who do not see it.
        picture: the marks that only look.
        points: the marks that answer to pointer and keyboard, each with its own label.
        data: attributes of the root, for the page's script.

    Returns:
        One ``svg`` element.
    """
    ids = f"{name}-{frame.name}"
    title = element("title", described[0], id=f"{ids}-title")
    desc = element("desc", described[1], id=f"{ids}-desc")
    # The title belongs to the picture, not to the root, where it would pop up over every point.
    still = element(
        "g", title, desc, picture, role="img", aria_labelledby=f"{ids}-title {ids}-desc"
    )
    return element(
        "svg",
        still,
        points,
        class_=f"chart {frame.name} {name}",
        viewBox=f"0 0 {frame.width} {frame.height}",
        **data,
    )
