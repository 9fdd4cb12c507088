"""The law holds for every sample size; with more samples D may fall more slowly.

``lawscope study run separation/sample-size``: figure 7 of He & Su 2023. An 8-layer feed-forward
network trained with Adam on 200 to 5000 samples of Fashion-MNIST, as many of each class, 600
epochs, three seeds. At ``cpu`` the learning rates are the one the authors took and its neighbours.
The paper does not print its sample sizes; these are ours.
"""

from __future__ import annotations

from operator import truediv

from lawscope.studies.datasets import ImageData
from lawscope.studies.panels import Panels, Settings, choice
from lawscope.studies.plan import Training
from lawscope.studies.separation import _family as family
from lawscope.studies.study import Claim, Lab, Numbers

MOST, USUAL = {"samples": 5000}, {"samples": 1000}


def candidates(settings: Settings, per_class: int) -> list[Training]:
    return family.feedforward(settings, ImageData(per_class=per_class), depth=settings["depth"])


def measure(lab: Lab) -> Numbers:
    panels = [
        {"samples": 10 * count, **choice(lab, candidates(lab.settings, count))}
        for count in lab.settings["per_class"]
    ]
    return {"panels": panels}


STUDY = family.he_su_study(
    title="200 to 5000 samples: the law holds, the half-life can grow with n",
    source="He & Su 2023, figure 7",
    paper="emerges for each sample size; the half-life can be larger for larger datasets",
    minutes={"smoke": 0.1, "cpu": 5, "paper": 9},
    settings=family.adam_presets(
        {"depth": 8, "per_class": [20, 50, 100, 200, 500]},
        cpu={"near": True},
        smoke={"depth": 4, "per_class": [20, 40, 80]},
    ),
    departures={"cpu": family.NEAR},
    plan=Panels(candidates, per_class="per_class").plan,
    measure=measure,
    claims=(
        Claim(
            "r ≤ −0.98 for every sample size, of networks that fit",
            "the law emerges with different numbers of training examples",
            family.chosen("n = {samples}", "r"),
            lambda r: r <= -0.98,
        ),
        Claim(
            "the half-life with the most samples is larger than with 1000 samples (ratio above 1)",
            "the half-life can be larger for larger datasets",
            family.versus("half-life, n = {samples} / 1000", "half_life", truediv, MOST, USUAL),
            lambda ratio: ratio > 1,
        ),
    ),
    figure=family.draw_panels(
        "n = {samples}", "The law of data separation with more and fewer samples"
    ),
)
