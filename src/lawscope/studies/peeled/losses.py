"""Where the minority collapses under other losses.

``lawscope study run peeled/losses``: "try various loss functions" (001, future directions). K = 10
classes, K_A = 3, 5, 7, E_W = 1, E_H = 2, 5 and 10, under cross-entropy, class weights 1/n_k, logit
adjustment (t = 1), label smoothing (ε = 0.1) and the squared loss. R₀ is enclosed by certified
programs, one in which the minority is separated and one in which it is not, at most a thousandth
apart; looked for up to R = 10⁶. About 15 seconds on one core; nothing is trained or random.

The documents ask the question and give no number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.choice import every
from lawscope.studies.peeled._programs import CERTIFIED, SAME, minority_numbers, nothing_to_train
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

NAMES = {
    "cross_entropy": "cross-entropy",
    "class_weighted": "class weights 1/n",
    "logit_adjusted": "logit adjustment",
    "label_smoothed": "label smoothing",
    "mse": "squared loss",
}
PAPER: dict[str, Any] = {
    "classes": 10,
    "majorities": [3, 5, 7],
    "weight_energy": 1,
    "feature_energies": [2, 5, 10],
    "losses": list(NAMES),
    "largest_ratio": 1_000_000,
    "seeds": 1,
}
CPU = PAPER
SMOKE = {**PAPER, "majorities": [5], "feature_energies": [5]}
WIDTH = 1e-3
SEPARATED = "separated"


def measure(lab: Lab) -> Numbers:
    """One row for each loss, K_A and E_H."""
    settings = lab.settings
    rows = []
    for loss in settings["losses"]:
        for majority in settings["majorities"]:
            for energy in settings["feature_energies"]:
                lab.tell(f"{NAMES[loss]}, K_A {majority}, E_H {energy}")
                rows.append(row(settings, loss, majority, energy))
    return {
        "classes": settings["classes"],
        "weight_energy": settings["weight_energy"],
        "rows": rows,
    }


def row(settings: Mapping[str, Any], loss: str, majority: int, energy: float) -> Numbers:
    """The programs on both sides of R₀, or the one at the largest R where there is none."""
    from lawscope.theory.layer_peeled.peel import peel

    def at(ratio: float) -> Numbers:
        counts = [float(ratio)] * majority + [1.0] * (settings["classes"] - majority)
        found = peel(counts, settings["weight_energy"], energy, loss)
        return {"ratio": ratio, **minority_numbers(found)}

    return {
        "loss": loss,
        "majority": majority,
        "feature_energy": energy,
        "points": enclosed(at, settings["largest_ratio"]),
    }


def enclosed(at: Callable[[float], Numbers], largest: float) -> list[Numbers]:
    """The last program that is separated and the first that is not, by halving on a log scale.

    Example:
        >>> def at(ratio):
        ...     return {"ratio": ratio, "phase": "separated" if ratio < 12 else "collapsed"}
        >>> [round(point["ratio"], 1) for point in enclosed(at, 1e6)]
        [12.0, 12.0]
        >>> enclosed(at, 2)
        [{'ratio': 2, 'phase': 'separated'}]
    """
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


def of_loss(numbers: Numbers, *losses: str) -> list[Numbers]:
    """The rows of some losses."""
    found = [row for row in numbers["rows"] if row["loss"] in losses]
    if not found:
        raise KeyError(", ".join(losses))
    return found


def off_closed_form(numbers: Numbers) -> list[float]:
    """Cross-entropy: R₀ as enclosed against its closed form, relative difference."""
    from lawscope.theory.layer_peeled.threshold import collapse_threshold

    found = []
    for row in of_loss(numbers, "cross_entropy"):
        counts = [2.0] * row["majority"] + [1.0] * (numbers["classes"] - row["majority"])
        exact = collapse_threshold(counts, numbers["weight_energy"], row["feature_energy"])
        enclosed_at = threshold(row)
        found.append(math.inf if not (exact and enclosed_at) else abs(enclosed_at / exact - 1))
    return found


def thresholds(*losses: str) -> Any:
    """R₀ of these losses, None where no ratio makes the minority collapse."""
    return lambda numbers: [threshold(row) for row in of_loss(numbers, *losses)]


def put_off(numbers: Numbers) -> list[float]:
    """R₀ with label smoothing over R₀ with cross-entropy, row by row; infinite where there is none.

    Smoothed logits are finite, so with enough energy the majority leaves some to the minority
    however rare it is.
    """
    pairs = zip(of_loss(numbers, "label_smoothed"), of_loss(numbers, "cross_entropy"), strict=True)
    return [(threshold(a) or math.inf) / (threshold(b) or math.inf) for a, b in pairs]


def simplex_error(numbers: Numbers) -> list[float]:
    """Class weights: cosine far out against the simplex of all K classes."""
    simplex = -1 / (numbers["classes"] - 1)
    rows = of_loss(numbers, "class_weighted")
    return [abs(point["cosine"] - simplex) for row in rows for point in row["points"]]


def never(values: Sequence[Any]) -> bool:
    """None of them is there."""
    return bool(values) and all(value is None for value in values)


CLAIMS = (
    Claim(
        "every program is certified: gap at most 1e-6 of the loss",
        "no number in the documents",
        lambda numbers: max(p["gap"] for row in numbers["rows"] for p in row["points"]),
        lambda gap: bool(gap <= CERTIFIED),
    ),
    Claim(
        "for cross-entropy R₀ is that of the closed form, to a thousandth",
        "no number in the documents",
        off_closed_form,
        every(lambda difference: difference <= WIDTH),
    ),
    Claim(
        "cross-entropy and logit adjustment collapse at a finite R₀ (up to 10⁶)",
        "R₀ for cross-entropy only",
        thresholds("cross_entropy", "logit_adjusted"),
        every(lambda ratio: ratio > 1),
    ),
    Claim(
        "label smoothing puts collapse off: its R₀ is larger than that of cross-entropy, or there "
        "is none (ratios, ∞ for none)",
        "no number in the documents",
        put_off,
        every(lambda ratio: ratio > 1),
    ),
    Claim(
        "with class weights 1/n no ratio up to 10⁶ collapses",
        "no number in the documents",
        thresholds("class_weighted"),
        never,
    ),
    Claim(
        "with class weights 1/n the simplex stays at R = 10⁶, to 1e-6",
        "as for equal classes",
        simplex_error,
        every(lambda error: error <= SAME),
    ),
    Claim(
        "with the squared loss no ratio up to 10⁶ collapses: these energies fit every class",
        "no number in the documents",
        thresholds("mse"),
        never,
    ),
)


def figure(numbers: Numbers) -> Figure:
    """R₀ of each loss, one panel per E_H, one colour per K_A; a cross: no ratio collapses."""
    energies = list(dict.fromkeys(row["feature_energy"] for row in numbers["rows"]))
    losses = list(dict.fromkeys(row["loss"] for row in numbers["rows"]))
    majorities = list(dict.fromkeys(row["majority"] for row in numbers["rows"]))
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
        axis.set_xscale("log")
        axis.set_yticks(range(len(losses)), [NAMES[loss] for loss in losses])
        axis.invert_yaxis()
        axis.legend(fontsize=7, frameon=False)
        plain_axis(axis, f"E_H = {energy}")
    label_outside(axes, "R₀", "")
    return drawing


STUDY = Study(
    title="R₀ under class weights, logit adjustment, label smoothing and squared loss",
    source="001, future directions",
    paper="asked, not answered: try various loss functions",
    minutes={"smoke": 0.05, "cpu": 0.25, "paper": 0.25},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=nothing_to_train,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
