"""The same charts in matplotlib, for ``.plot()``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lawscope.formatting import short_names
from lawscope.lazy import Axes
from lawscope.report.charts.curve import series_of
from lawscope.report.charts.heat_map import NAMED
from lawscope.report.charts.lines import coloured_lines
from lawscope.report.charts.svg import drawable
from lawscope.section import Bars, Chart, Curve, HeatMap, Lines, Plane

TRAINED, CONTROL, BELOW, SOFT, GRID = "#0f5c8c", "#a85a06", "#b3342d", "#565e67", "#e4e1d9"
STYLES = {
    "trained": ("o", TRAINED, TRAINED, "measured", "-"),
    "population": ("o", TRAINED, "none", "population", ""),
    "control": ("D", CONTROL, "none", "untrained", "--"),
}
MOST_NAMED = 40  # bars or stations that have a name
FITTING = 60  # letters of names that fit under an axis


def draw(chart: Chart, ax: Axes | None = None) -> Axes:
    """Draw a chart on the axes given, or on those of a new figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        size = (4.5, 4.0) if isinstance(chart, HeatMap) else (5.0, 3.5)
        _, ax = plt.subplots(figsize=size, layout="constrained")
    _DRAW[type(chart)](chart, ax)
    ax.set_title(chart.title, fontsize="medium", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _curve(chart: Curve, ax: Axes) -> None:
    for kind, values, fitted in series_of(chart):
        mark, colour, filled, label, style = STYLES[kind]
        measured = drawable(values, chart.log)
        ax.plot(measured, mark, ms=5, color=colour, mfc=filled, label=label)
        if fitted is not None:
            ax.plot(drawable(fitted, chart.log), style, color=colour, lw=1.2, alpha=0.7)
    if chart.interval is not None and np.isfinite(chart.interval).any():
        low, high = chart.interval.T
        highest = chart.interval[np.isfinite(chart.interval)].max()
        ax.vlines(range(len(low)), low, np.minimum(high, 2 * highest), color=TRAINED, alpha=0.6)
    if chart.log:
        _log_axis(ax)
    _stations(ax, chart.stations, chart.unit)
    ax.set_ylabel(chart.quantity)
    if len(series_of(chart)) > 1:
        _legend(ax)


def _lines(chart: Lines, ax: Axes) -> None:
    coloured = {line.row: line.name for line in coloured_lines(chart)}
    for row, values in enumerate(drawable(chart.values, chart.log)):
        if row in coloured:
            ax.plot(chart.x, values, lw=1.4, label=coloured[row])
        else:
            ax.plot(chart.x, values, lw=0.6, color=GRID, zorder=0)
    if chart.log:
        _log_axis(ax)
    if chart.log_x:
        ax.set_xscale("log")
    ax.set_xlabel(chart.x_label)
    if chart.ticks:
        _stations(ax, chart.ticks, chart.x_label)
    ax.set_ylabel(chart.y_label)
    if coloured:
        _legend(ax)


def _bars(chart: Bars, ax: Axes) -> None:
    places = np.arange(len(chart.labels))
    colours = [TRAINED if value >= 0 else BELOW for value in chart.values]
    ax.barh(places, np.nan_to_num(chart.values), color=colours)
    ax.invert_yaxis()
    ax.axvline(0, color=SOFT, lw=0.8)
    if len(places) <= MOST_NAMED:
        ax.set_yticks(places, short_names(chart.labels))
        for place, note in zip(places, chart.notes, strict=False):
            ax.annotate(note, (1.01, place), xycoords=("axes fraction", "data"), va="center")
    if chart.reference is not None:
        ax.axvline(chart.reference, color=SOFT, ls="--", lw=1, label=chart.reference_label)
        _legend(ax)


def _heat_map(chart: HeatMap, ax: Axes) -> None:
    if not chart.values.size:
        return
    colours = "RdBu_r" if chart.low < 0 < chart.high else "Blues"
    image = ax.imshow(chart.values, vmin=chart.low, vmax=chart.high, cmap=colours, aspect="auto")
    ax.figure.colorbar(image, ax=ax, label=chart.scale_label)
    for names, axis in ((chart.rows, ax.yaxis), (chart.columns, ax.xaxis)):
        if len(names) <= NAMED:
            axis.set_ticks(range(len(names)), names)
    ax.tick_params(axis="x", rotation=90)


def _plane(chart: Plane, ax: Axes) -> None:
    for region in chart.regions:
        ax.fill(*region.outline.T, facecolor=GRID, edgecolor=SOFT, lw=0.6, zorder=0)
        ax.annotate(region.name, region.outline.mean(axis=0), ha="center", va="center", color=SOFT)
    x, y = chart.values.reshape(-1, 2).T
    if chart.interval is not None:
        for places, low_high, lines in (
            ((y, x), chart.interval[:, 0], ax.hlines),
            ((x, y), chart.interval[:, 1], ax.vlines),
        ):
            lines(places[0], *low_high.T, color=TRAINED, alpha=0.5, lw=1)
    ax.plot(x, y, "o", ms=5, color=TRAINED)
    if len(x) <= MOST_NAMED:
        for name, at in zip(short_names(chart.names), chart.values, strict=True):
            if np.isfinite(at).all():
                ax.annotate(name, at, xytext=(4, 4), textcoords="offset points", fontsize="small")
    ax.set_xlabel(chart.x_label)
    ax.set_ylabel(chart.y_label)


def _legend(ax: Axes) -> None:
    # Searching for the best place is slow with many marks.
    few = len(ax.lines) + len(ax.patches) < 50
    ax.legend(frameon=False, fontsize="small", loc="best" if few else "upper right")


def _log_axis(ax: Axes) -> None:
    """Use a log scale whose ticks are written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    steps = (1.0, 2.0, 5.0) if high < 200 * low else (1.0,)
    ax.yaxis.set_major_locator(LogLocator(subs=steps, numticks=12))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _stations(ax: Axes, names: Sequence[str], unit: str) -> None:
    """Write the names of a few stations under the axis, the numbers of many."""
    short = short_names(names)
    if len(short) <= MOST_NAMED:
        long = sum(map(len, short)) > FITTING
        ax.set_xticks(range(len(short)), short, rotation=90 if long else 0)
        ax.set_xlabel(unit)
    else:
        ax.set_xlabel(f"{unit} index")


_DRAW: dict[type, Callable[[Any, Axes], None]] = {
    Curve: _curve,
    Lines: _lines,
    Bars: _bars,
    HeatMap: _heat_map,
    Plane: _plane,
}
