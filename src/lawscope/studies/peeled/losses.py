"""Where the minority collapses under other losses.

``lawscope study run peeled/losses``: "try various loss functions" (Fang et al. 2021, future
directions). K = 10 classes, K_A = 3, 5, 7, E_W = 1, E_H = 2, 5 and 10, under cross-entropy, class
weights 1/n_k, logit adjustment (t = 1), label smoothing (ε = 0.1) and the squared loss. R₀ is
enclosed by certified programs, one in which the minority is separated and one in which it is not,
at most a thousandth apart; looked for up to R = 10⁶. About 15 seconds on one core; nothing is
trained or random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import lawscope as ls
from lawscope.studies.figures import COLOURS, grid, label_outside, legend_below, plain_axis
from lawscope.studies.panels import Settings, brief, collect, pick, presets, yes_or_no
from lawscope.studies.peeled import _programs as programs
from lawscope.studies.peeled._programs import LABEL, SAME
from lawscope.studies.study import Check, Figure, Lab, Numbers, Question, Study

NAMES = {
    "cross_entropy": "cross-entropy",
    "class_weighted": "class weights 1/n",
    "logit_adjusted": "logit adjustment",
    "label_smoothed": "label smoothing",
    "mse": "squared loss",
}
PAPER: dict[str, Any] = {
    **programs.TWO_GROUPS, "feature_energies": [2, 5, 10], "losses": list(NAMES),
    "largest_ratio": 1_000_000,
}  # fmt: skip
SMOKE = {"majorities": [5], "feature_energies": [5]}
WIDTH = 1e-3
SEPARATED = "separated"


def measure(lab: Lab) -> Numbers:
    axes = {"loss": "losses", "majority": "majorities", "feature_energy": "feature_energies"}
    shared = {name: lab.settings[name] for name in ("classes", "weight_energy")}
    return {**shared, "rows": programs.for_each(lab, row, **axes)}


def row(settings: Settings, loss: str, majority: int, feature_energy: float) -> Numbers:
    """Solve the programs on both sides of R₀, or the one at the largest R where there is none."""

    def at(ratio: float) -> Numbers:
        counts = programs.counts_of(settings, majority, ratio)
        found = ls.peel(counts, settings["weight_energy"], feature_energy, loss)
        return {"ratio": ratio, **programs.minority_numbers(found)}

    return {"points": enclosed(at, settings["largest_ratio"])}


def enclosed(at: Callable[[float], Numbers], largest: float) -> list[Numbers]:
    """Find the last program that is separated and the first that is not, by halving log R."""
    low, high = {"ratio": 1.0}, at(largest)
    if high["phase"] == SEPARATED:
        return [high]
    while high["ratio"] > low["ratio"] * (1 + WIDTH):
        middle = at((low["ratio"] * high["ratio"]) ** 0.5)
        low, high = (middle, high) if middle["phase"] == SEPARATED else (low, middle)
    return [low, high]


def threshold(row: Numbers) -> float | None:
    """R₀ to a thousandth: the first ratio that is not separated."""
    return row["points"][1]["ratio"] if len(row["points"]) == 2 else None


def of_loss(loss: str, value: Callable[[Numbers, Numbers], float]) -> Any:
    return lambda numbers: collect(
        "rows", LABEL, lambda row: value(row, numbers), where=lambda row: row["loss"] == loss
    )(numbers)


def off_closed_form(row: Numbers, numbers: Numbers) -> float:
    """R₀ as enclosed against its closed form, relative difference."""
    counts = programs.counts_of(numbers, row["majority"], 2)
    exact = ls.collapse_threshold(counts, numbers["weight_energy"], row["feature_energy"])
    found = threshold(row)
    return math.inf if not (exact and found) else abs(found / exact - 1)


def over_cross_entropy(row: Numbers, numbers: Numbers) -> float:
    """R₀ over that of cross-entropy; infinite where no ratio makes the minority collapse."""
    same = {name: row[name] for name in ("majority", "feature_energy")}
    plain = threshold(pick(numbers["rows"], loss="cross_entropy", **same))
    return (threshold(row) or math.inf) / (plain or math.inf)


def simplex_error(row: Numbers, numbers: Numbers) -> float:
    return float(abs(row["points"][-1]["cosine"] + 1 / (numbers["classes"] - 1)))


def table(numbers: Numbers) -> list[list[str]]:
    columns = list(dict.fromkeys(LABEL.format(**row) for row in numbers["rows"]))
    lines: dict[str, list[str]] = {}
    for row in numbers["rows"]:
        lines.setdefault(row["loss"], [NAMES[row["loss"]]]).append(brief(threshold(row)))
    return [["loss", *columns], *lines.values()]


def figure(numbers: Numbers) -> Figure:
    energies, losses, majorities = (
        list(dict.fromkeys(row[name] for row in numbers["rows"]))
        for name in ("feature_energy", "loss", "majority")
    )
    title = "Where the minority collapses, by loss (× at the edge: nowhere)"
    drawing, axes = grid(1, len(energies), title, (4.2, 3.0))
    for axis, energy in zip(axes[0], energies, strict=True):
        rows = [row for row in numbers["rows"] if row["feature_energy"] == energy]
        edge = 10 * max(threshold(row) or 1 for row in rows)
        for shift, majority in enumerate(majorities):
            for row in (row for row in rows if row["majority"] == majority):
                height = losses.index(row["loss"]) + 0.16 * (shift - 1)
                place, style = threshold(row), "o" if threshold(row) else "x"
                axis.plot(place or edge, height, style, color=COLOURS[shift], ms=5)
            axis.plot([], [], "o", color=COLOURS[shift], ms=5, label=f"K_A = {majority}")
        axis.set_yticks(range(len(losses)), [NAMES[loss] for loss in losses])
        axis.invert_yaxis()
        plain_axis(axis, f"E_H = {energy}", xscale="log")
    label_outside(axes, "R₀", "")
    legend_below(drawing)
    return drawing


STUDY = Study(
    title="R₀ under class weights, logit adjustment, label smoothing and squared loss",
    source="Fang et al. 2021, future directions",
    paper="asked, not answered: try various loss functions",
    minutes={"smoke": 0.05, "cpu": 0.25, "paper": 0.25},
    settings=presets(PAPER, smoke=SMOKE),
    measure=measure,
    questions=(
        *(
            Question(
                f"Does {words} put collapse off: is its R₀ larger than that of cross-entropy "
                "(ratio; infinite where no R up to 10⁶ collapses)?",
                of_loss(loss, over_cross_entropy),
                yes_or_no(lambda ratio: ratio > 1),
            )
            for loss, words in (
                ("logit_adjusted", "logit adjustment"),
                # Smoothed logits are finite, so with enough energy the majority leaves some to the
                # minority however rare it is.
                ("label_smoothed", "label smoothing"),
                ("class_weighted", "weighting classes by 1/n"),
                ("mse", "the squared loss"),
            )
        ),
        Question(
            "With class weights 1/n, is the simplex kept at R = 10⁶, to 1e-6?",
            of_loss("class_weighted", simplex_error),
            yes_or_no(lambda error: error <= SAME),
        ),
    ),
    checks=(
        Check(
            "every program is certified: gap at most 1e-6 of the loss",
            lambda numbers: max(p["gap"] for row in numbers["rows"] for p in row["points"]),
            lambda gap: bool(gap <= SAME),
        ),
        Check(
            "for cross-entropy R₀ is that of the closed form, to a thousandth",
            of_loss("cross_entropy", off_closed_form),
            lambda difference: bool(difference <= WIDTH),
        ),
    ),
    figure=figure,
    table=table,
)
