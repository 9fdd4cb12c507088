"""Panels of PR against the block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lawscope.report.numbers import fixed
from lawscope.report.study_figures import COLOURS, INK, SOFT, plain_axis
from lawscope.studies.next_token._language import slope_of
from lawscope.studies.study import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

X_LABEL, Y_LABEL = "block (0 is the embedding)", "prediction residual, 1 − R²"


def draw_pr(
    axis: Axes,
    pr: Sequence[float],
    *,
    color: str = COLOURS[0],
    label: str | None = None,
    line: bool = False,
    embedding: bool = True,
) -> None:
    """PR of the embedding (hollow) and of the blocks, with the fitted line or joined.

    Args:
        axis: where to draw.
        pr: the embedding first.
        color: of everything.
        label: in the legend.
        line: draw the fitted line instead of joining the points.
        embedding: show it; it is no part of the line.
    """
    blocks = range(1, len(pr))
    style = "o" if line else "o-"
    axis.plot(blocks, pr[1:], style, color=color, ms=4, lw=1.2, mec="white", mew=0.5, label=label)
    if embedding:
        axis.plot([0], pr[:1], "o", color=color, ms=4, mfc="none")
    if line:
        axis.plot(blocks, fitted(pr[1:]), "-", color=color, lw=1.2, alpha=0.7)


def fitted(pr: Sequence[float]) -> list[float]:
    """The least-squares line through log PR, at every block.

    Example:
        >>> [round(value, 12) for value in fitted([0.8, 0.4, 0.2])]
        [0.8, 0.4, 0.2]
    """
    slope, middle = slope_of(pr), (len(pr) - 1) / 2
    mean = math.fsum(math.log(value) for value in pr) / len(pr)
    return [math.exp(mean + slope * (i - middle)) for i in range(len(pr))]


def finish_pr(axis: Axes, title: str = "") -> None:
    """Whole blocks on the axis, a title, and a legend where something has a name."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    plain_axis(axis, title)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7, frameon=False, labelcolor=INK)


def note_of(row: Numbers) -> str:
    """The numbers r and ρ with their intervals.

    Example:
        >>> print(note_of({"r": -0.98, "rho": 0.99, "interval": {"r": [-0.99, -0.97]}}))
        r = −0.980 [−0.990, −0.970]
        ρ = 0.9900
    """
    lines = []
    for name, sign, digits in (("r", "r", 3), ("rho", "ρ", 4)):
        ends = row["interval"].get(name)
        between = "" if not ends else f" [{fixed(ends[0], digits)}, {fixed(ends[1], digits)}]"
        lines.append(f"{sign} = {fixed(row[name], digits)}{between}")
    return "\n".join(lines)


def with_control(axis: Axes, row: Numbers, title: str) -> None:
    """One model with its line, and the untrained network beside it."""
    draw_pr(axis, row["pr"], line=True, label=note_of(row))
    control = row["control"]
    if control is not None:
        draw_pr(axis, control["pr"], color=SOFT, line=True, label=f"untrained, {short(control)}")
    finish_pr(axis, title)


def short(row: Numbers) -> str:
    """``r = +0.98``, with its sign.

    Example:
        >>> short({"r": 0.981})
        'r = +0.98'
    """
    return f"r = {'+' if row['r'] > 0 else ''}{fixed(row['r'], 2)}"
