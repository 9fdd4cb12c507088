"""Figures of studies, drawn as the paper draws them: log D against the layer index.

A network is given as the numbers that a study keeps of it (``lawscope.studies.choice.measured``).
Nothing here goes through pyplot, so drawing leaves no state behind and needs no display.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lawscope.report.numbers import MISSING, fixed, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
# Okabe & Ito's colours, told apart by people with any colour vision, without the yellow that
# vanishes on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, SOFT, FAINT, RULE = "#1d2126", "#767d84", "#b4b9be", "#d9d9d9"
X_LABEL, Y_LABEL = "layer index", "separation fuzziness"


def grid(
    rows: int, columns: int, title: str = "", panel: tuple[float, float] = (3.1, 2.6)
) -> tuple[Figure, list[list[Axes]]]:
    """An empty figure of panels.

    Args:
        rows: of panels.
        columns: of panels.
        title: above them all.
        panel: width and height of one in inches.

    Returns:
        The figure and its axes, row by row.
    """
    from matplotlib.figure import Figure

    size = (max(4.2, panel[0] * columns), panel[1] * rows + (0.35 if title else 0))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    if title:
        figure.suptitle(title, fontsize=12, color=INK)
    return figure, [list(row) for row in axes]


def law_grid(panels: Sequence[Sequence[tuple[str, Sequence[Row]]]], title: str = "") -> Figure:
    """Panels of the law in rows and columns, axes labelled at the left and below.

    Args:
        panels: rows of (title, networks); the first network of a panel is drawn in full with its
            numbers, the others (further seeds) faintly behind it.
        title: above them all.
    """
    columns = max(len(row) for row in panels)
    figure, axes = grid(len(panels), columns, title)
    for row, places in zip(panels, axes, strict=True):
        for (name, networks), axis in zip(row, places, strict=False):
            for other in networks[1:]:
                draw_curve(axis, other, color=FAINT, zorder=1)
            law_panel(axis, networks[0], name)
        for axis in places[len(row) :]:
            axis.set_axis_off()
    label_outside(axes)
    return figure


def law_panel(axis: Axes, row: Row, title: str = "", color: str = COLOURS[0]) -> None:
    """One network: D with its interval, the fitted line, and r, ρ and verdict in the corner.

    Args:
        axis: where to draw.
        row: its numbers; those of a diverged training have no D, and the panel says so.
        title: above the panel.
        color: of points and line.
    """
    draw_curve(axis, row, color=color, line=True)
    style_axis(axis, title)
    axis.text(
        0.97,
        0.96,
        law_note(row),
        transform=axis.transAxes,
        ha="right",
        va="top",
        fontsize=7.5,
        color=INK,
        linespacing=1.35,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )


def overlay(
    axis: Axes,
    series: Sequence[tuple[str, Row]],
    title: str = "",
    *,
    graded: bool = False,
    legend: str = "",
) -> None:
    """Several networks in one panel with a legend.

    Args:
        axis: where to draw.
        series: (legend, numbers) of each network.
        title: above the panel.
        graded: colours along a scale, for networks in an order (depth, epochs, samples).
        legend: title of the legend.
    """
    for (name, row), color in zip(series, colours(len(series), graded), strict=True):
        draw_curve(axis, row, color=color, label=name, connected=True)
    style_axis(axis, title)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(
            title=legend or None,
            fontsize=7,
            title_fontsize=7,
            frameon=False,
            handlelength=1.4,
            labelspacing=0.25,
        )


def draw_curve(
    axis: Axes,
    row: Row,
    *,
    color: str,
    label: str | None = None,
    line: bool = False,
    connected: bool = False,
    zorder: float = 2,
) -> None:
    """D of one network as points, with interval where there is one.

    Args:
        axis: where to draw.
        row: its numbers.
        color: of everything.
        label: in the legend.
        line: draw the fitted line.
        connected: join the points.
        zorder: drawing order.
    """
    values = row["D"] or []
    places = [i for i, value in enumerate(values) if value]
    shown = [values[i] for i in places]
    if not shown:
        return
    style = "o-" if connected else "o"
    axis.plot(
        places, shown, style, color=color, ms=4, lw=1.2, mec="white", mew=0.5, label=label,
        zorder=zorder + 0.2,
    )  # fmt: skip
    if row.get("D_interval") and not connected:
        ends = [(i, *row["D_interval"][i]) for i in places if None not in row["D_interval"][i]]
        for index, low, high in ends:
            axis.vlines(index, low, high, color=color, alpha=0.6, lw=1.4, zorder=zorder + 0.1)
    if line and len(shown) == len(values) > 1:
        axis.plot(places, fitted(shown), "-", color=color, lw=1.2, alpha=0.7, zorder=zorder)


def fitted(values: Sequence[float]) -> list[float]:
    """The least-squares line through log D, at every station.

    Example:
        >>> [round(v, 12) for v in fitted([8.0, 4.0, 2.0])]
        [8.0, 4.0, 2.0]
    """
    logs = [math.log(value) for value in values]
    middle, mean = (len(logs) - 1) / 2, math.fsum(logs) / len(logs)
    spread = math.fsum((i - middle) ** 2 for i in range(len(logs)))
    slope = math.fsum((i - middle) * log for i, log in enumerate(logs)) / spread
    return [math.exp(mean + slope * (i - middle)) for i in range(len(logs))]


def law_note(row: Row) -> str:
    """What stands in the corner of a panel: r, ρ, their intervals, the verdict.

    Example:
        >>> row = {"r": -0.9987, "rho": 0.42, "interval": {"r": [-0.9991, -0.998]},
        ...        "verdict": "holds", "fits": False, "accuracy": 0.957}
        >>> print(law_note(row))
        r = −0.999 [−0.999, −0.998]
        ρ = 0.420
        the law holds
        fits 95.7 % of the samples
    """
    if row["r"] is None:
        return "the training diverged" if row["verdict"] == "diverged" else "no line: D has no log"
    lines = [f"r = {_between(row, 'r')}", f"ρ = {_between(row, 'rho')}"]
    verdict = row["verdict"]
    lines.append("it cannot be told" if verdict == "cannot be told" else f"the law {verdict}")
    if not row.get("fits", True):
        lines.append(f"fits {percent(row['accuracy'])} of the samples")
    return "\n".join(lines)


def _between(row: Row, name: str) -> str:
    ends = row["interval"].get(name)
    text = MISSING if row[name] is None else fixed(row[name], 3)
    if not ends or None in ends:
        return text
    return f"{text} [{fixed(ends[0], 3)}, {fixed(ends[1], 3)}]"


def style_axis(axis: Axes, title: str = "") -> None:
    """A log scale, whole layer indices, a light grid; call it when everything is drawn."""
    from matplotlib.ticker import MaxNLocator

    axis.set_yscale("log")
    _write_more_numbers(axis)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    plain_axis(axis, title)


def _write_more_numbers(axis: Axes) -> None:
    """Where there are few powers of ten to write, plain numbers between them are written."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    def narrow() -> bool:
        low, high = axis.get_ylim()
        return high < 100 * low

    def power(value: float, _: int | None) -> str:
        return f"{value:g}" if narrow() else f"$10^{{{math.log10(value):.0f}}}$"

    def between(value: float, _: int | None) -> str:
        return f"{value:g}" if narrow() else ""

    axis.yaxis.set_major_formatter(FuncFormatter(power))
    axis.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    axis.yaxis.set_minor_formatter(FuncFormatter(between))
    axis.tick_params(axis="y", which="minor", labelsize=8, color=SOFT)


def plain_axis(axis: Axes, title: str = "") -> None:
    """The look of every panel, whatever its scales."""
    axis.grid(visible=True, which="major", color=RULE, lw=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8, color=SOFT)
    for name in ("top", "right"):
        axis.spines[name].set_visible(False)
    if title:
        axis.set_title(title, fontsize=9, color=INK)


def label_outside(axes: Sequence[Sequence[Axes]], x: str = X_LABEL, y: str = Y_LABEL) -> None:
    """Name the axes of a grid once: y at the left of each row, x below each column."""
    for row in axes:
        row[0].set_ylabel(y, fontsize=8.5, color=INK)
    for column in zip(*axes, strict=True):
        shown = [axis for axis in column if axis.axison]
        if shown:
            shown[-1].set_xlabel(x, fontsize=8.5, color=INK)


def colours(count: int, graded: bool = False) -> list[str]:
    """As many colours as asked for: distinct ones, or along viridis without its pale end.

    Example:
        >>> colours(2)
        ['#0072B2', '#D55E00']
        >>> len(set(colours(12, graded=True)))
        12
    """
    if count <= len(COLOURS) and not graded:
        return list(COLOURS[:count])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](0.88 * i / max(1, count - 1))) for i in range(count)]
