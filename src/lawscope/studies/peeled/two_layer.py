"""Two layers peeled off: is the simplex still optimal, and does the minority merge?

``lawscope study run peeled/two-layer``: the "Multiple Layer-Peeled Model" (Fang et al. 2021, future
directions). The last two layers and the features before them are free, each bounded:
(1/K)‖W_2‖² ≤ 1, (1/K)‖W_1‖² ≤ 1, (1/K)Σ‖h_k‖² ≤ E_H = 5. K = 6 classes, K_A = 3 of them R times as
large as the others, with linear layers and with ReLU between them. Local searches, 10 starts:
nothing is certified, and starts end in different minima. About 5 seconds on one core; nothing is
trained. A first trial had E_H = 50, where nothing merges up to R = 1000; 5 is that of the other
studies.
"""

from __future__ import annotations

import math
from typing import Any

from lawscope.lazy import np
from lawscope.studies.figures import COLOURS, SOFT, grid, label_outside, plain_axis
from lawscope.studies.panels import collect, pick, presets, rank_correlation, yes_or_no
from lawscope.studies.peeled import _programs as programs
from lawscope.studies.peeled._programs import SAME
from lawscope.studies.study import Figure, Lab, Numbers, Question, Study

ACTIVATIONS = {"linear": None, "relu": "relu"}
PAPER: dict[str, Any] = {
    "classes": 6, "majority": 3, "ratios": [1, 3, 10, 30, 100, 1000],
    "activations": list(ACTIVATIONS), "energies": [1, 1, 5], "starts": 10, "seeds": 0,
}  # fmt: skip


def measure(lab: Lab) -> Numbers:
    curves = [
        {
            "activation": activation,
            "points": [searched(lab, activation, ratio) for ratio in lab.settings["ratios"]],
        }
        for activation in lab.settings["activations"]
    ]
    return {"classes": lab.settings["classes"], "curves": curves}


def searched(lab: Lab, activation: str, ratio: float) -> Numbers:
    """Losses and minority cosines of all starts, the best first; rank and cosines of the best."""
    from lawscope.theory.layer_peeled.layers import peel_layers

    settings = lab.settings
    lab.tell(f"{activation}, R {ratio}")
    counts = programs.counts_of(settings, settings["majority"], ratio)
    kind = ACTIVATIONS[activation]
    found = peel_layers(counts, settings["energies"], kind, starts=settings["starts"])
    starts = sorted(zip(found.losses.tolist(), found.minority_cosines.tolist(), strict=True))
    return {
        "ratio": ratio,
        "collapsed_loss": found.collapsed_loss,
        "losses": [loss for loss, _ in starts],
        "cosines": [cosine if math.isfinite(cosine) else None for _, cosine in starts],
        "rank": int(np.linalg.matrix_rank(found.weights, tol=1e-4 * np.linalg.norm(found.weights))),
        "angles": programs.pairs_of(found.cosines),
    }


def by_activation(value: Any) -> Any:
    return lambda numbers: collect(
        "curves", "{activation}", lambda curve: value(curve, numbers["classes"])
    )(numbers)


def excess(curve: Numbers, classes: int) -> float:
    point = pick(curve["points"], ratio=1)
    return float(point["losses"][0] / point["collapsed_loss"] - 1)


def angle_error(curve: Numbers, classes: int) -> float:
    angles = pick(curve["points"], ratio=1)["angles"]
    return float(max(abs(c + 1 / (classes - 1)) for c in angles))


def rise(curve: Numbers, classes: int) -> float:
    there = [(p["ratio"], p["cosines"][0]) for p in curve["points"] if p["cosines"][0] is not None]
    ratios, cosines = zip(*there, strict=True)
    return rank_correlation(ratios, cosines)


def figure(numbers: Numbers) -> Figure:
    count = len(numbers["curves"])
    drawing, axes = grid(2, count, "Two layers peeled off (local minima)", (3.8, 2.6))
    for column, curve in enumerate(numbers["curves"]):
        top, bottom = axes[0][column], axes[1][column]
        ratios = [point["ratio"] for point in curve["points"]]
        for name, axis in (("cosines", top), ("losses", bottom)):
            for point in curve["points"]:
                there = [value for value in point[name] if value is not None]
                label = "all starts" if point is curve["points"][0] else None
                axis.plot([point["ratio"]] * len(there), there, "o", color=SOFT, ms=3, alpha=0.5,
                          label=label)  # fmt: skip
            line = programs.or_nan([point[name][0] for point in curve["points"]])
            axis.plot(ratios, line, "o-", color=COLOURS[0], ms=3.5, lw=1, label="best start")
        bottom.axhline(
            curve["points"][0]["collapsed_loss"], color=COLOURS[1], lw=0.8, ls=":",
            label="neural collapse at R = 1",
        )  # fmt: skip
        words = curve["activation"].replace("relu", "ReLU")
        plain_axis(top, f"{words}: cosine of minority classifiers", xscale="log")
        plain_axis(bottom, f"{words}: loss", xscale="log", yscale="log")
    axes[1][0].legend(fontsize=7, frameon=False)
    label_outside(axes, "imbalance ratio R", "")
    return drawing


STUDY = Study(
    title="The 2-Layer-Peeled Model, equal and unequal classes, linear and ReLU",
    source="Fang et al. 2021, Multiple Layer-Peeled Model",
    paper="proposed, no number",
    minutes={"smoke": 0.05, "cpu": 1, "paper": 1},
    settings=presets(PAPER, smoke={"ratios": [1, 10, 100], "starts": 2}),
    measure=measure,
    questions=(
        Question(
            "Is the simplex still optimal for equal classes: has the best minimum the loss of "
            "neural collapse, to 1e-6?",
            by_activation(excess),
            yes_or_no(lambda difference: abs(difference) <= SAME),
        ),
        Question(
            "For equal classes, is every cosine of the best minimum that of a simplex, −1/(K−1), "
            "to 1e-3?",
            by_activation(angle_error),
            yes_or_no(lambda error: error <= 1e-3),
        ),
        Question(
            "Does the minority cosine rise with R, rank correlation at least 0.9?",
            by_activation(rise),
            yes_or_no(lambda r: r >= 0.9),
        ),
        Question(
            "Does the minority collapse here too, cosine at least 0.99 at the largest R?",
            by_activation(lambda curve, classes: curve["points"][-1]["cosines"][0]),
            yes_or_no(lambda cosine: cosine >= 0.99),
        ),
    ),
    figure=figure,
)
