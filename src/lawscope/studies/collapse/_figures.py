"""What the figures of the family share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lawscope.studies.collapse._over_seeds import mean
from lawscope.studies.study import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_seeds(
    axis: Axes,
    places: Sequence[float],
    cells: Sequence[Sequence[Numbers]],
    name: str,
    *,
    color: str,
    label: str,
    style: str = "o",
) -> None:
    """Every network as a point and the means over seeds as a line, with gaps where one is missing.

    Args:
        axis: where to draw.
        places: of the cells on the x axis.
        cells: the networks of each, one per seed.
        name: which of their numbers.
        color: of points and line.
        label: in the legend.
        style: of the points.
    """
    for place, rows in zip(places, cells, strict=True):
        there = [row[name] for row in rows if row.get(name) is not None]
        axis.plot([place] * len(there), there, style, color=color, ms=3, alpha=0.5)
    line = [_mean_or_gap(rows, name) for rows in cells]
    axis.plot(places, line, "-", color=color, lw=1.2, label=label)


def legend_below(drawing: Figure, places: Sequence[Axes], used: int) -> None:
    """One legend for all panels, and nothing in the panels that are not used."""
    for axis in places[used:]:
        axis.set_axis_off()
    drawing.legend(
        *places[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        fontsize=8,
        frameon=False,
    )


def _mean_or_gap(rows: Sequence[Numbers], name: str) -> float:
    try:
        return mean(rows, name)
    except ValueError:
        return math.nan
