"""Figures of studies, drawn as the paper draws them: log D against the layer index.

A network is given as the numbers that a study keeps of it (``lawscope.studies.panels.measured``).
Nothing here goes through pyplot, so drawing leaves no state behind and needs no display.
"""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Sequence
from typing import Any

from lawscope.formatting import MISSING, fixed, percent
from lawscope.studies.panels import Label, Row, brief, label_of, middle
from lawscope.studies.study import NOT_TRIED, Axes, Claim, Figure, NotTried, Numbers

# Okabe & Ito's colours, told apart by people with any colour vision, without the yellow that
# vanishes on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, SOFT, FAINT, RULE = "#1d2126", "#767d84", "#b4b9be", "#d9d9d9"
X_LABEL, Y_LABEL = "layer index", "separation fuzziness"
SMALL = 7.5


def draw(figure: Any, form: str) -> bytes:
    """Return a matplotlib figure as the bytes of a file of the form ``pdf``, ``png`` or ``svg``."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=150, bbox_inches="tight")
    return buffer.getvalue()


def grid(
    rows: int, columns: int, title: str = "", panel: tuple[float, float] = (3.1, 2.6)
) -> tuple[Figure, list[list[Axes]]]:
    """Make an empty figure of panels."""
    from matplotlib.figure import Figure

    size = (max(4.2, panel[0] * columns), panel[1] * rows + (0.35 if title else 0))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    if title:
        figure.suptitle(title, fontsize=12, color=INK)
    return figure, [list(row) for row in axes]


def wrapped(
    count: int, title: str, panel: tuple[float, float] = (3.1, 2.6), columns: int = 3
) -> tuple[Figure, list[list[Axes]], list[Axes]]:
    """Make a figure of panels in rows of so many: its grid, and the panels that are used."""
    figure, axes = grid(-(-count // columns), min(columns, count), title, panel)
    places = [axis for row in axes for axis in row]
    for axis in places[count:]:
        axis.set_axis_off()
    return figure, axes, places[:count]


def stacked(
    parts: Sequence[tuple[int, int]], title: str, heights: Sequence[float], width: float
) -> tuple[Figure, list[list[list[Axes]]]]:
    """Make grids of so many (rows, columns) below each other, as high as is said, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, sum(heights) + 0.35), layout="constrained")
    figure.suptitle(title, fontsize=12, color=INK)
    places = figure.subfigures(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
    grids = [
        part.subplots(*shape, squeeze=False) for part, shape in zip(places, parts, strict=True)
    ]
    return figure, [[list(row) for row in each] for each in grids]


def law_grid(
    panels: Sequence[Sequence[tuple[str, Sequence[Row]]]], title: str = "", x: str = X_LABEL
) -> Figure:
    """Panels of the law in rows and columns, each with its title and networks.

    The first network of a panel is drawn in full with its numbers, further seeds faintly behind
    it, and a legend below says so. A single row of many panels is wrapped.
    """
    if len(panels) == 1:
        panels = in_rows(panels[0])
    columns = max(len(row) for row in panels)
    figure, axes = grid(len(panels), columns, title)
    for row, places in zip(panels, axes, strict=True):
        for (name, networks), axis in zip(row, places, strict=False):
            for other in networks[1:]:
                draw_curve(axis, other, color=FAINT, zorder=1)
            law_panel(axis, networks[0], name)
        for axis in places[len(row) :]:
            axis.set_axis_off()
    label_outside(axes, x)
    name_seeds(figure, [networks for row in panels for _, networks in row])
    return figure


def in_rows(panels: Sequence[Any], columns: int = 3) -> list[Sequence[Any]]:
    """Return panels in rows of at most so many."""
    return [panels[i : i + columns] for i in range(0, len(panels), columns)]


def name_seeds(figure: Figure, panels: Sequence[Sequence[Row]]) -> None:
    """Say below a figure what is drawn in which colour, once for all its panels."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"marker": "o", "ms": 4, "mec": "white", "mew": 0.5, "lw": 1.2}
    handles = [Line2D([], [], color=COLOURS[0], label="first seed, with its line", **look)]
    if any(len(networks) > 1 for networks in panels):
        look["lw"] = 0
        handles.append(Line2D([], [], color=FAINT, label="further seeds", **look))
    if any(networks[0].get("D_interval") for networks in panels):
        bar: dict[str, Any] = {"marker": "|", "ms": 9, "mew": 1.4, "lw": 0}
        handles.append(Line2D([], [], color=COLOURS[0], alpha=0.6, label="interval of D", **bar))
    if len(handles) > 1:
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": len(handles)}
        figure.legend(handles=handles, fontsize=8, frameon=False, **place)
        figure.set_figheight(figure.get_figheight() + 0.25)


def law_panel(axis: Axes, row: Row, title: str = "") -> None:
    """One network: D with its interval, the fitted line, and r, ρ and verdict beside it."""
    draw_curve(axis, row, color=COLOURS[0], line=True)
    style_axis(axis, title)
    aside(axis, law_note(row))


def law_figure(
    panels: Sequence[Row], label: Label, title: str = "", *, row: str | None = None,
    x: str = X_LABEL,
) -> Figure:  # fmt: skip
    """Draw one panel of the law per panel of a study, with the chosen learning rate.

    ``row`` is the setting that names the row of a panel; None draws one row.
    """
    rows: dict[Any, list[tuple[str, Sequence[Row]]]] = {}
    for panel in panels:
        name = f"{label_of(panel, label)}, lr {panel['chosen'][0]['lr']:g}"
        rows.setdefault(panel[row] if row else None, []).append((name, panel["chosen"]))
    return law_grid(list(rows.values()), title, x)


def overlay(axis: Axes, series: Sequence[tuple[str, Row]], title: str, legend: str = "") -> None:
    """Several networks in an order in one panel, with a legend."""
    for (name, row), color in zip(series, colours(len(series)), strict=True):
        draw_curve(axis, row, color=color, label=name, connected=True)
    style_axis(axis, title)
    if axis.get_legend_handles_labels()[0]:
        look = {"fontsize": 7, "title_fontsize": 7, "frameon": False}
        axis.legend(title=legend or None, handlelength=1.4, labelspacing=0.25, **look)


def draw_curve(
    axis: Axes, row: Row, *, color: str, label: str | None = None, line: bool = False,
    connected: bool = False, zorder: float = 2,
) -> None:  # fmt: skip
    """D of one network as points: joined, or with intervals and perhaps the fitted line."""
    values = row["D"] or []
    places = [i for i, value in enumerate(values) if value]
    shown = [values[i] for i in places]
    if not shown:
        return
    look: dict[str, Any] = {"color": color, "ms": 4, "lw": 1.2, "mec": "white", "mew": 0.5}
    axis.plot(places, shown, "o-" if connected else "o", label=label, zorder=zorder + 0.2, **look)
    if row.get("D_interval") and not connected:
        ends = [(i, *row["D_interval"][i]) for i in places if None not in row["D_interval"][i]]
        for index, low, high in ends:
            axis.vlines(index, low, high, color=color, alpha=0.6, lw=1.4, zorder=zorder + 0.1)
    if line and len(shown) == len(values) > 1:
        axis.plot(places, fitted(shown), "-", color=color, lw=1.2, alpha=0.7, zorder=zorder)


def fitted(values: Sequence[float]) -> list[float]:
    """Fit the least-squares line through log D, at every station."""
    logs, places = [math.log(value) for value in values], range(len(values))
    slope, start = statistics.linear_regression(places, logs)
    return [math.exp(start + slope * place) for place in places]


def law_note(row: Row) -> str:
    """Write what stands in the corner of a panel: r, ρ, their intervals, the verdict."""
    if row["r"] is None:
        return "the training diverged" if row["verdict"] == "diverged" else "no line: D has no log"
    lines = [f"r = {with_interval(row, 'r')}", f"ρ = {with_interval(row, 'rho')}"]
    verdict = row["verdict"]
    lines.append("it cannot be told" if verdict == "cannot be told" else f"the law {verdict}")
    if not row.get("fits", True):
        lines.append(f"fits {percent(row['accuracy'])} of the samples")
    return "\n".join(lines)


def with_interval(row: Row, name: str, digits: int = 3) -> str:
    """Write a number of a network with its interval, where it has one."""
    ends = row["interval"].get(name)
    text = MISSING if row[name] is None else fixed(row[name], digits)
    if not ends or None in ends:
        return text
    return f"{text} [{fixed(ends[0], digits)}, {fixed(ends[1], digits)}]"


def style_axis(axis: Axes, title: str = "") -> None:
    """Set a log scale, whole layer indices, a light grid; call it when everything is drawn."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    def write(value: float, otherwise: str) -> str:
        # Where there are few powers of ten to write, plain numbers between them are written.
        low, high = axis.get_ylim()
        return f"{value:g}" if high < 100 * low else otherwise

    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda v, _: write(v, f"$10^{{{math.log10(v):.0f}}}$"))
    axis.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    axis.yaxis.set_minor_formatter(lambda v, _: write(v, ""))
    axis.tick_params(axis="y", which="minor", labelsize=8, color=SOFT)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    plain_axis(axis, title)


def plain_axis(axis: Axes, title: str = "", legend: float = 0, **scales: Any) -> None:
    """Give a panel the common look; ``legend`` is the size of its words, 0 draws none."""
    axis.set(**scales)
    axis.grid(visible=True, which="major", color=RULE, lw=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8, color=SOFT)
    for name in ("top", "right"):
        axis.spines[name].set_visible(False)
    if title:
        axis.set_title(title, fontsize=9, color=INK)
    if legend:
        axis.legend(fontsize=legend, frameon=False)


def label_outside(axes: Sequence[Sequence[Axes]], x: str = X_LABEL, y: str = Y_LABEL) -> None:
    """Name the axes of a grid once: y at the left of each row, x below each column."""
    for row in axes:
        row[0].set_ylabel(y, fontsize=8.5, color=INK)
    for column in zip(*axes, strict=True):
        shown = [axis for axis in column if axis.axison]
        if shown:
            shown[-1].set_xlabel(x, fontsize=8.5, color=INK)


def colours(count: int) -> list[str]:
    """As many colours as asked for, along viridis without its pale end."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](0.88 * i / max(1, count - 1))) for i in range(count)]


def note(what: str, claim: Claim, numbers: Numbers) -> str:
    """Write what was measured for a claim, as the tables of claims do.

    Verdicts do not stand in figures: they depend on the preset, and the table beside has them.
    """
    try:
        return f"{what}: {brief(claim.value(numbers))}"
    except NotTried:
        return f"{what}: {NOT_TRIED}"


def corner(axis: Axes, line: str, y: float = 0.04, va: str = "bottom", **how: Any) -> None:
    """Write small words at the right of a panel."""
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
    place: dict[str, Any] = {"transform": axis.transAxes, "ha": "right", "va": va}
    axis.text(0.97, y, line, fontsize=SMALL, color=INK, bbox=box, **place, **how)


def aside(axis: Axes, words: str) -> None:
    """Write small words where they hide nothing: matplotlib looks for such a place for legends."""
    look: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "framealpha": 0.8}
    look |= {"borderpad": 0.1, "borderaxespad": 0.2, "title_fontsize": SMALL}
    place = axis.legend([], [], title=words, loc="best", **look)
    place.get_title().set(color=INK, linespacing=1.35)


def draw_seeds(
    axis: Axes, places: Sequence[float], cells: Sequence[Sequence[Row]], name: str, *, color: str,
    label: str, style: str = "o",
) -> None:  # fmt: skip
    """Draw every network as a point and the medians over seeds as a line, with gaps."""
    numbers = [[row.get(name) for row in rows] for rows in cells]
    for place, values in zip(places, numbers, strict=True):
        there = [value for value in values if value is not None]
        axis.plot([place] * len(there), there, style, color=color, ms=3, alpha=0.5)
    axis.plot(places, [middle(v) for v in numbers], "-", color=color, lw=1.2, label=label)


def legend_below(drawing: Figure, **how: Any) -> None:
    """Draw one legend for all panels: that of the first."""
    handles, words = drawing.axes[0].get_legend_handles_labels()
    look = {"ncols": 3, "fontsize": 8, "frameon": False, **how}
    drawing.legend(handles, words, loc="outside lower center", **look)
