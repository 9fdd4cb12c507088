"""Two layers peeled off: what the geometry becomes.

``lawscope study run peeled/two-layer``: the "multiple Layer-Peeled Model" (001, future directions;
000, part I). The last two layers and the features before them are free, each bounded:
(1/K)‖W_2‖² ≤ 1, (1/K)‖W_1‖² ≤ 1, (1/K)Σ‖h_k‖² ≤ E_H = 5. K = 6 classes, K_A = 3 of them R times as
large as the others, with linear layers and with ReLU between them. Local searches, 10 starts:
nothing is certified. About 5 seconds on one core; nothing is trained. A first trial had E_H = 50,
where nothing merges up to R = 1000; 5 is that of the other studies.

The documents propose the model and give no number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, SOFT, grid, label_outside, plain_axis
from lawscope.studies.choice import every, pick, rank_correlation
from lawscope.studies.peeled._programs import SAME, nothing_to_train
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

ACTIVATIONS = {"linear": None, "relu": "relu"}
PAPER: dict[str, Any] = {
    "classes": 6,
    "majority": 3,
    "ratios": [1, 3, 10, 30, 100, 1000],
    "activations": list(ACTIVATIONS),
    "energies": [1, 1, 5],
    "starts": 10,
    "seeds": 1,
}
CPU = PAPER
SMOKE = {**PAPER, "ratios": [1, 10, 100], "starts": 2}
RISES, MERGED, ANGLES, AGREE = 0.9, 0.99, 1e-3, 1e-4
RANK = 1e-4


def measure(lab: Lab) -> Numbers:
    """One search for each activation and R, and the model with one layer beside it."""
    settings = lab.settings
    curves = []
    for activation in settings["activations"]:
        points = []
        for ratio in settings["ratios"]:
            lab.tell(f"{activation}, R {ratio}")
            points.append(searched(settings, activation, ratio))
        curves.append({"activation": activation, "points": points})
    return {"classes": settings["classes"], "curves": curves}


def searched(settings: Mapping[str, Any], activation: str, ratio: float) -> Numbers:
    """Losses and minority cosines of all starts, the best first; rank and cosines of the best."""
    import numpy as np

    from lawscope.theory.layer_peeled.layers import peel_layers

    minority = settings["classes"] - settings["majority"]
    found = peel_layers(
        [float(ratio)] * settings["majority"] + [1.0] * minority,
        settings["energies"],
        ACTIVATIONS[activation],
        starts=settings["starts"],
    )
    starts = sorted(zip(found.losses.tolist(), found.minority_cosines.tolist(), strict=True))
    return {
        "ratio": ratio,
        "collapsed_loss": found.collapsed_loss,
        "losses": [loss for loss, _ in starts],
        "cosines": [cosine if math.isfinite(cosine) else None for _, cosine in starts],
        "rank": int(np.linalg.matrix_rank(found.weights, tol=RANK * np.linalg.norm(found.weights))),
        "angles": [c for i, row in enumerate(found.cosines.tolist()) for c in row[i + 1 :]],
    }


def equal_classes(numbers: Numbers) -> list[Numbers]:
    """The points at R = 1, one per activation."""
    return [pick(curve["points"], ratio=1) for curve in numbers["curves"]]


def excess(numbers: Numbers) -> list[float]:
    """Equal classes: best loss over that of neural collapse, minus 1, by activation."""
    return [point["losses"][0] / point["collapsed_loss"] - 1 for point in equal_classes(numbers)]


def angle_error(numbers: Numbers) -> list[float]:
    """Equal classes: the largest difference of a cosine from that of a simplex, by activation."""
    simplex = -1 / (numbers["classes"] - 1)
    return [max(abs(c - simplex) for c in point["angles"]) for point in equal_classes(numbers)]


def rise(numbers: Numbers) -> list[float]:
    """Rank correlation of the minority cosine with R at the best minima, by activation."""
    found = []
    for curve in numbers["curves"]:
        there = [p for p in curve["points"] if p["cosines"][0] is not None]
        ratios = [point["ratio"] for point in there]
        found.append(rank_correlation(ratios, [point["cosines"][0] for point in there]))
    return found


def last_cosine(numbers: Numbers) -> list[float | None]:
    """The minority cosine at the largest R, by activation; None where the classifiers are zero."""
    return [curve["points"][-1]["cosines"][0] for curve in numbers["curves"]]


def spread(numbers: Numbers) -> list[float]:
    """Worst over best loss of the starts, minus 1: the largest over R, by activation."""
    return [
        max(point["losses"][-1] / point["losses"][0] - 1 for point in curve["points"])
        for curve in numbers["curves"]
    ]


CLAIMS = (
    Claim(
        "equal classes: the best minimum has the loss of neural collapse to 1e-6 (linear, ReLU)",
        "no number in the documents",
        excess,
        every(lambda difference: abs(difference) <= SAME),
    ),
    Claim(
        "equal classes: every cosine is that of a simplex, −1/(K−1), to 1e-3 (linear, ReLU)",
        "no number in the documents",
        angle_error,
        every(lambda error: error <= ANGLES),
    ),
    Claim(
        "the minority cosine rises with R: rank correlation at least 0.9 (linear, ReLU)",
        "no number in the documents",
        rise,
        every(lambda r: r >= RISES),
    ),
    Claim(
        "the minority collapses here too: cosine at least 0.99 at the largest R (linear, ReLU)",
        "no number in the documents",
        last_cosine,
        every(lambda cosine: cosine >= MERGED),
    ),
    Claim(
        "the geometry does not depend on the start: losses of all starts agree to 1e-4 at every R "
        "(linear, ReLU)",
        "no number in the documents",
        spread,
        every(lambda difference: difference <= AGREE),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Minority cosine and loss of every start against R, one column per activation."""
    count = len(numbers["curves"])
    drawing, axes = grid(2, count, "Two layers peeled off (local minima)", (3.8, 2.6))
    for column, curve in enumerate(numbers["curves"]):
        top, bottom = axes[0][column], axes[1][column]
        ratios = [point["ratio"] for point in curve["points"]]
        for name, axis in (("cosines", top), ("losses", bottom)):
            for point in curve["points"]:
                there = [value for value in point[name] if value is not None]
                axis.plot([point["ratio"]] * len(there), there, "o", color=SOFT, ms=3, alpha=0.5)
            line = [math.nan if p[name][0] is None else p[name][0] for p in curve["points"]]
            axis.plot(ratios, line, "o-", color=COLOURS[0], ms=3.5, lw=1, label="best start")
            axis.set_xscale("log")
        bottom.axhline(
            curve["points"][0]["collapsed_loss"], color=COLOURS[1], lw=0.8, ls=":",
            label="neural collapse",
        )  # fmt: skip
        bottom.set_yscale("log")
        plain_axis(top, f"{curve['activation']}: cosine of minority classifiers")
        plain_axis(bottom, "loss")
    axes[1][0].legend(fontsize=7, frameon=False)
    label_outside(axes, "imbalance ratio R", "")
    return drawing


STUDY = Study(
    title="The 2-Layer-Peeled Model, equal and unequal classes, linear and ReLU",
    source="001, multiple Layer-Peeled Model",
    paper="proposed, no number",
    minutes={"smoke": 0.05, "cpu": 1, "paper": 1},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=nothing_to_train,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
