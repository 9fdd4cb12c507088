"""The law holds for unequal classes; whether D falls more slowly there depends on the batches.

``lawscope study run separation/imbalance``: figure 2 of He & Su 2023, last row. Fashion-MNIST with
500 samples of each of five classes and 100 of the other five, against 100 of each; depth 4, 8 and
20, Adam. At ``cpu`` the imbalanced networks (three times the steps) have three of the paper's five
learning rates, and so have the balanced ones: 18 trainings of 600 epochs; one seed.

The paper: the law holds, with a significantly larger half-life than on balanced data. The authors
measure in train mode in the order in which samples were drawn: after about the first thousand only
majority classes are left, and two thirds of the batches have no minority class. With eval mode, and
in train mode with shuffled batches, the half-lives are equal.
"""

from __future__ import annotations

from operator import truediv
from typing import Any

from lawscope.studies.datasets import ImageData
from lawscope.studies.panels import Panels, Row, Settings
from lawscope.studies.plan import Training
from lawscope.studies.separation import _family as family
from lawscope.studies.study import Claim


def candidates(settings: Settings, classes: str, depth: int) -> list[Training]:
    counts = settings["per_class"][classes]
    data = ImageData(per_class=tuple(counts) if isinstance(counts, list) else counts)
    return family.feedforward(settings, data, depth=depth)


PANELS = Panels(candidates, classes="per_class", depth="depths")
UNEQUAL: dict[str, Any] = {"classes": "imbalanced"}


def label(panel: Row) -> str:
    half = panel["chosen"][0]["half_life"]
    text = "" if half is None else f", half-life {half:.2f}"
    return f"{panel['classes']}, {panel['depth']} layers{text}"


STUDY = family.he_su_study(
    title="Five classes of 500 and five of 100: the law holds, with a larger half-life",
    source="He & Su 2023, figure 2",
    paper="holds; the half-life is significantly larger than on balanced data",
    minutes={"smoke": 0.1, "cpu": 7, "paper": 7},
    settings=family.adam_presets(
        {"per_class": {"imbalanced": [500] * 5 + [100] * 5, "balanced": 100}, "depths": [4, 8, 20]},
        cpu={"rates": family.FEW_RATES},
        smoke={"per_class": {"imbalanced": [100] * 5 + [40] * 5, "balanced": 40}, "depths": [3, 5]},
    ),
    departures={"cpu": "3 of 5 rates, one level of imbalance, one seed instead of three"},
    plan=PANELS.plan,
    measure=PANELS.measure,
    claims=(
        Claim(
            "on imbalanced data r ≤ −0.98 at every depth, of networks that fit",
            "the law emerges on imbalanced data",
            family.chosen("{depth} layers", "r", **UNEQUAL),
            lambda r: r <= -0.98,
        ),
        Claim(
            "the half-life is larger than on balanced data (ratio above 1) at every depth",
            "the half-life is significantly larger than in the balanced case",
            family.versus("{depth} layers", "half_life", truediv, UNEQUAL, {"classes": "balanced"}),
            lambda ratio: ratio > 1,
        ),
    ),
    figure=family.draw_panels(
        label, "The law of data separation with unequal classes", row="classes"
    ),
)
