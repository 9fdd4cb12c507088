"""The law at several depths and widths.

``lawscope study run next-token/model-size``: the GPT of ``next-token/training`` with 4, 6 and 12
blocks of width 64, and with widths 32, 64 and 128 in 6 blocks, each trained for 1000 steps
and measured on 60 000 tokens of held-out text: 5 trainings, one of them shared, one seed, about 6
minutes on one core.

The document: the law with varying model sizes, a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import colours, grid, label_outside
from lawscope.studies.choice import every
from lawscope.studies.next_token._figures import X_LABEL, Y_LABEL, draw_pr, finish_pr, short
from lawscope.studies.next_token._language import (
    GPT,
    LARGER,
    TINY,
    certain,
    each,
    law_of,
    training_of,
)
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

CPU: dict[str, Any] = {**GPT, "depths": [4, 6, 12], "widths": [32, 64, 128], "seeds": 1}
PAPER: dict[str, Any] = {
    **LARGER,
    "depths": [6, 12, 24],
    "widths": [128, 256, 512],
    "seeds": 3,
}
SMOKE: dict[str, Any] = {**TINY, "depths": [4, 5], "widths": [8, 16]}
SIZES = {"depth": "depths", "width": "widths"}


def sizes(settings: Mapping[str, Any], name: str) -> list[Training]:
    """The networks that differ in depth, or in width, smallest first."""
    return [
        training_of(settings, seed, **{name: size})
        for size in settings[SIZES[name]]
        for seed in range(settings["seeds"])
    ]


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All sizes."""
    return [training for name in SIZES for training in sizes(settings, name)]


def measure(lab: Lab) -> Numbers:
    """The law at every size."""
    return {
        name: [
            {name: training.network.settings[name], **law_of(lab, training)}
            for training in sizes(lab.settings, name)
        ]
        for name in SIZES
    }


def everywhere(numbers: Numbers) -> list[Numbers]:
    """All rows; the size both lists share stands twice."""
    return [row for name in SIZES for row in numbers[name]]


def rising(values: list[float]) -> bool:
    """Whether each is above the one before it.

    Example:
        >>> rising([1.0, 2.0, 3.0]), rising([1.0, 3.0, 2.0]), rising([1.0])
        (True, False, False)
    """
    return len(values) > 1 and all(b > a for a, b in pairwise(values))


def averages(numbers: Numbers, name: str, value: Any) -> list[float]:
    """The mean over seeds of one number per size."""
    found: dict[int, list[float]] = {}
    for row in numbers[name]:
        found.setdefault(row[name], []).append(value(row))
    return [sum(values) / len(values) for values in found.values()]


CLAIMS = (
    Claim(
        "PR falls with depth at every size: the 95 % interval of the slope is below 0",
        "the law with varying model sizes",
        lambda numbers: [row["interval"]["slope"] for row in everywhere(numbers)],
        certain(-1),
    ),
    Claim(
        "r ≤ −0.9 at every size",
        "straight lines",
        lambda numbers: each(everywhere(numbers), "r"),
        every(lambda r: r <= -0.9),
    ),
    Claim(
        "of more blocks each does less: ρ grows with the number of blocks",
        "a picture",
        lambda numbers: averages(numbers, "depth", lambda row: row["rho"]),
        rising,
    ),
    Claim(
        "wider networks end lower: cross-validated PR of the last block falls with the width",
        "a picture",
        lambda numbers: averages(numbers, "width", lambda row: row["pr_cv"][-1]),
        lambda values: rising([-value for value in values]),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """PR at several depths on the left, at several widths on the right."""
    drawing, axes = grid(1, 2, "The law of next-token prediction by model size", (3.8, 2.9))
    for axis, name in zip(axes[0], SIZES, strict=True):
        rows = numbers[name]
        for row, color in zip(rows, colours(len(rows), graded=True), strict=True):
            draw_pr(axis, row["pr"], color=color, line=True, label=f"{row[name]}, {short(row)}")
        finish_pr(axis, "number of blocks" if name == "depth" else "width")
    label_outside(axes, X_LABEL, Y_LABEL)
    return drawing


STUDY = Study(
    title="Depths and widths: PR per block at several sizes",
    source="000, part III",
    paper="the law with varying model sizes (a picture)",
    minutes={"smoke": 0.1, "cpu": 9, "paper": 20_000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
