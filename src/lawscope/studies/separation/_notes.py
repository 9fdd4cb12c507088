"""Verdicts written into figures, where no line with its own r and verdict is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import INK
from lawscope.studies.study import NOT_TRIED, Claim, Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL = 7.5


def told(
    what: str, claim: Claim, numbers: Numbers, show: Callable[[Any], str] | None = None
) -> str:
    """What was measured for a claim, and the verdict.

    Args:
        what: names the number.
        claim: judged on the numbers.
        numbers: of the study.
        show: writes the measured number; by default as the tables of claims do.

    Example:
        >>> claim = Claim("r ≤ −0.9", "−0.99", lambda n: n["r"], lambda r: r <= -0.9)
        >>> told("r", claim, {"r": -0.5}), told("r", claim, {})
        ('r −0.500: not shown', 'r: not tried')
    """
    from lawscope.report.study_text import brief

    judged = claim.judge(numbers)
    number = "" if judged.verdict == NOT_TRIED else f" {(show or brief)(judged.measured)}"
    return f"{what}{number}: {judged.verdict}"


def corner(axis: Axes, line: str) -> None:
    """A small line at the lower right of a panel, as those of the law are written."""
    axis.text(
        0.97,
        0.04,
        line,
        transform=axis.transAxes,
        ha="right",
        va="bottom",
        fontsize=SMALL,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )


def above(axis: Axes, lines: Iterable[str]) -> None:
    """Small lines above a panel, where points may lie in every corner."""
    axis.set_title("\n".join(lines), fontsize=SMALL, color=INK, linespacing=1.35)
