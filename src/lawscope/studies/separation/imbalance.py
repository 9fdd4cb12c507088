"""The law holds for unequal classes; whether D falls more slowly there depends on the batches.

``lawscope study run separation/imbalance``: figure 2 of He & Su 2023, last row. Fashion-MNIST with
500 samples of each of five classes and 100 of the other five, against 100 of each; depth 4, 8 and
20, Adam, five learning rates, 600 epochs, three seeds. Two further levels of imbalance, with 8
layers, stand for the paper's "various levels".

The paper: the law holds, with a significantly larger half-life than on balanced data. The authors
measure in train mode in the order in which samples were drawn: after about the first thousand only
majority classes are left, and two thirds of the batches have no minority class. With eval mode, and
in train mode with shuffled batches, the half-lives are equal.
"""

from __future__ import annotations

from operator import truediv
from typing import Any

from lawscope.studies.datasets import ImageData
from lawscope.studies.figures import law_figure
from lawscope.studies.panels import Panels, Row, Settings, by_panel
from lawscope.studies.plan import Training
from lawscope.studies.separation import _family as family
from lawscope.studies.study import Claim, Figure, Numbers

LEVELS: dict[str, Any] = {
    "500 : 100": [500] * 5 + [100] * 5,
    "200 : 100": [200] * 5 + [100] * 5,
    "500 : 50": [500] * 5 + [50] * 5,
    "balanced": 100,
}
# The level of figure 2 and equal classes have every depth, the further ones this.
FURTHER = {"200 : 100": [8], "500 : 50": [8]}


def candidates(settings: Settings, classes: str, depth: int) -> list[Training]:
    counts = settings["per_class"][classes]
    data = ImageData(per_class=tuple(counts) if isinstance(counts, list) else counts)
    return family.feedforward(settings, data, depth=depth)


class Levels(Panels):
    """Panels by level of imbalance and depth, of some levels not every depth."""

    def cells(self, settings: Settings) -> list[dict[str, Any]]:
        """Return the cells of the figure, and of the further levels those with 8 layers."""
        cells = super().cells(settings)
        return [c for c in cells if c["depth"] in FURTHER.get(c["classes"], [c["depth"]])]


PANELS = Levels(candidates, classes="per_class", depth="depths")
CELL = "{classes}, {depth} layers"


def unequal(numbers: Numbers) -> dict[str, list[Any]]:
    """Return r at every level of imbalance."""
    return by_panel([p for p in numbers["panels"] if p["classes"] != "balanced"], CELL, "r")


def label(panel: Row) -> str:
    half = panel["chosen"][0]["half_life"]
    text = "no half-life" if half is None else f"half-life {half:.2f}"
    return f"{panel['classes']}, {panel['depth']} layers\n{text}"


def figure(numbers: Numbers) -> Figure:
    """Draw a row of panels per level; the further levels, of one panel each, share a row."""
    panels = [
        {**panel, "row": "further" if panel["classes"] in FURTHER else panel["classes"]}
        for panel in numbers["panels"]
    ]
    return law_figure(panels, label, "The law of data separation with unequal classes", row="row")


STUDY = family.he_su_study(
    title="Five larger and five smaller classes: the law holds, with a larger half-life",
    source="He & Su 2023, figure 2",
    paper="holds; the half-life is significantly larger than on balanced data",
    minutes={"smoke": 0.1, "cpu": 20, "paper": 20},
    settings=family.adam_presets(
        {"per_class": LEVELS, "depths": [4, 8, 20]},
        smoke={"per_class": {"100 : 40": [100] * 5 + [40] * 5, "balanced": 40}, "depths": [3, 5]},
    ),
    plan=PANELS.plan,
    measure=PANELS.measure,
    claims=(
        Claim(
            "on imbalanced data r ≤ −0.98 at every depth, of networks that fit",
            "the law emerges on imbalanced data",
            unequal,
            lambda r: r <= -0.98,
        ),
        Claim(
            "on imbalanced data the half-life is larger than on balanced data (ratio above 1) at "
            "every depth",
            "the half-life is significantly larger than in the balanced case",
            family.versus(CELL, "half_life", truediv, {}, {"classes": "balanced"}),
            lambda ratio: ratio > 1,
        ),
    ),
    figure=figure,
)
