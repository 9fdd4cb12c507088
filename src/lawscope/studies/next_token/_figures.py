"""Panels of PR against the block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lawscope.formatting import fixed
from lawscope.studies.figures import COLOURS, INK, SOFT, fitted, label_outside, plain_axis
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
    """PR of the embedding (hollow) and of the blocks, with the fitted line or joined."""
    blocks = range(1, len(pr))
    style = "o" if line else "o-"
    axis.plot(blocks, pr[1:], style, color=color, ms=4, lw=1.2, mec="white", mew=0.5, label=label)
    if embedding:
        axis.plot([0], pr[:1], "o", color=color, ms=4, mfc="none")
    if line:
        axis.plot(blocks, fitted(pr[1:]), "-", color=color, lw=1.2, alpha=0.7)


def finish_pr(axis: Axes, title: str = "") -> None:
    """Whole blocks on the axis, a title, and a legend where something has a name."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    plain_axis(axis, title)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7, frameon=False, labelcolor=INK)


def label_pr(axes: Sequence[Sequence[Axes]]) -> None:
    label_outside(axes, X_LABEL, Y_LABEL)


def note_of(row: Numbers) -> str:
    """The numbers r and ρ with their intervals."""
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
    """``r = +0.98``, with its sign."""
    return f"r = {'+' if row['r'] > 0 else ''}{fixed(row['r'], 2)}"
