"""Features of chosen classes as points in planes, one picture per layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lawscope.report.study_figures import COLOURS, grid, plain_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "os^Dv"  # with seven colours, no two of 35 classes look the same
PER_ROW = 4


def plane_pictures(
    pictures: Sequence[Sequence[Sequence[float]]],
    labels: Sequence[int],
    names: Sequence[str],
    *,
    titles: Sequence[str],
    title: str,
    legend: str = "",
) -> Figure:
    """Pictures in rows of four, with one legend below them all.

    Args:
        pictures: for each layer, the two coordinates of every point.
        labels: class of every point.
        names: of the classes.
        titles: of the pictures.
        title: above them all.
        legend: what the names are.
    """
    rows = -(-len(pictures) // PER_ROW)
    figure, axes = grid(rows, min(PER_ROW, len(pictures)), title)
    places = [axis for row in axes for axis in row]
    for axis in places[len(pictures) :]:
        axis.set_axis_off()
    for points, axis, heading in zip(pictures, places, titles, strict=False):
        for label, name in enumerate(names):
            own = [point for point, k in zip(points, labels, strict=True) if k == label]
            x, y = zip(*own, strict=True)
            color, marker = COLOURS[label % len(COLOURS)], MARKERS[label % len(MARKERS)]
            axis.scatter(x, y, s=9, color=color, marker=marker, lw=0, label=name)
        plain_axis(axis, heading)
        axis.tick_params(labelbottom=False, labelleft=False)
    handles, words = places[0].get_legend_handles_labels()
    figure.legend(
        handles, words, loc="outside lower center", ncols=min(5, len(words)), fontsize=8,
        frameon=False, markerscale=2, title=legend or None, title_fontsize=8,
    )  # fmt: skip
    return figure
