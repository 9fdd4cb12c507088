"""The law holds for unequal classes, and D falls more slowly there.

``lawscope study run separation/imbalance``: figure 2 of 003, last row. Fashion-MNIST with 500
samples of each of five classes and 100 of the other five, against 100 of each; depth 4, 8 and 20,
Adam. At ``cpu`` the imbalanced networks (three times the steps) have three of the paper's five
learning rates, and so have the balanced ones: 18 trainings of 600 epochs; one seed.

The paper: the law holds, with a significantly larger half-life than on balanced data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, of_fitting, pick, sweep
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "per_class": {"imbalanced": [500] * 5 + [100] * 5, "balanced": 100},
    "depths": [4, 8, 20],
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 1,
}
CPU = {**PAPER, "rates": [3e-4, 1e-3, 3e-3]}
SMOKE = {
    **PAPER,
    "per_class": {"imbalanced": [100] * 5 + [40] * 5, "balanced": 40},
    "depths": [3, 5],
    "rates": [1e-3, 3e-3],
    "epochs": 2,
}


def candidates(settings: Mapping[str, Any], classes: str, depth: int) -> list[Training]:
    """The networks of one panel, one for each learning rate and seed."""
    counts = settings["per_class"][classes]
    training = Training(
        Network.of("feedforward", depth=depth),
        Recipe(epochs=settings["epochs"]),
        Data(per_class=tuple(counts) if isinstance(counts, list) else counts),
    )
    return sweep(training, settings["rates"], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all panels."""
    return [
        training
        for classes in settings["per_class"]
        for depth in settings["depths"]
        for training in candidates(settings, classes, depth)
    ]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every panel, beside all candidates."""
    panels = [
        {
            "classes": classes,
            "depth": depth,
            **choice(lab, candidates(lab.settings, classes, depth)),
        }
        for classes in lab.settings["per_class"]
        for depth in lab.settings["depths"]
    ]
    return {"panels": panels}


def imbalanced_r(numbers: Numbers) -> list[Any]:
    """The straightness of the chosen imbalanced networks."""
    return of_fitting([p for p in numbers["panels"] if p["classes"] == "imbalanced"], "r")


def half_life_ratios(numbers: Numbers) -> list[Any]:
    """Half-life on imbalanced data over that on balanced data, for every depth and seed."""
    panels = numbers["panels"]
    depths = [panel["depth"] for panel in panels if panel["classes"] == "imbalanced"]
    unequal, equal = (
        of_fitting([pick(panels, classes=name, depth=depth) for depth in depths], "half_life")
        for name in ("imbalanced", "balanced")
    )
    return [a / b if a and b else None for a, b in zip(unequal, equal, strict=True)]


CLAIMS = (
    Claim(
        "on imbalanced data every chosen network fits its training set and has r ≤ −0.98",
        "the law emerges on imbalanced data",
        imbalanced_r,
        every(lambda r: r <= -0.98),
    ),
    Claim(
        "the half-life is larger than on balanced data at each depth (ratios above 1)",
        "the half-life is significantly larger than in the balanced case",
        half_life_ratios,
        every(lambda ratio: ratio > 1),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Imbalanced data above, balanced below, one column per depth."""
    rows: dict[str, list[tuple[str, list[Numbers]]]] = {}
    for panel in numbers["panels"]:
        first = panel["chosen"][0]
        half = "" if first["half_life"] is None else f", half-life {first['half_life']:.2f}"
        title = f"{panel['classes']}, {panel['depth']} layers{half}"
        rows.setdefault(panel["classes"], []).append((title, panel["chosen"]))
    return law_grid(list(rows.values()), "The law of data separation with unequal classes")


STUDY = Study(
    title="Five classes of 500 and five of 100: the law holds, with a larger half-life",
    source="003, figure 2",
    paper="holds; the half-life is significantly larger than on balanced data",
    minutes={"smoke": 0.1, "cpu": 7, "paper": 7},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
