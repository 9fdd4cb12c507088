"""The law holds for every sample size; with more samples D falls more slowly.

``lawscope study run separation/sample-size``: figure 7 of 003. An 8-layer feed-forward network
trained with Adam on 200 to 5000 samples of Fashion-MNIST, as many of each class, 600 epochs. At
``cpu`` three of the paper's five learning rates: 15 trainings; one seed. The paper does not print
its sample sizes; these are ours.

The paper: the law emerges for each, the half-life can be larger for larger datasets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, of_fitting, rank_correlation, sweep
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "depth": 8,
    "per_class": [20, 50, 100, 200, 500],
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 1,
}
CPU = {**PAPER, "rates": [3e-4, 1e-3, 3e-3]}
SMOKE = {**PAPER, "depth": 4, "per_class": [20, 40, 80], "rates": [1e-3, 3e-3], "epochs": 2}


def candidates(settings: Mapping[str, Any], per_class: int) -> list[Training]:
    """The networks of one sample size, one for each learning rate and seed."""
    training = Training(
        Network.of("feedforward", depth=settings["depth"]),
        Recipe(epochs=settings["epochs"]),
        Data(per_class=per_class),
    )
    return sweep(training, settings["rates"], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all sample sizes."""
    return [
        training
        for per_class in settings["per_class"]
        for training in candidates(settings, per_class)
    ]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every sample size, beside all candidates."""
    panels = [
        {"samples": 10 * count, **choice(lab, candidates(lab.settings, count))}
        for count in lab.settings["per_class"]
    ]
    return {"panels": panels}


def half_life_trend(numbers: Numbers) -> float | None:
    """Rank correlation of half-life and sample size; None where a chosen network does not fit."""
    half_lives = of_fitting(numbers["panels"], "half_life")
    if None in half_lives:
        return None
    sizes = [panel["samples"] for panel in numbers["panels"] for _ in panel["chosen"]]
    return rank_correlation(sizes, half_lives)


CLAIMS = (
    Claim(
        "for every sample size the chosen network fits its training set and has r ≤ −0.98",
        "the law emerges with different numbers of training examples",
        lambda numbers: of_fitting(numbers["panels"], "r"),
        every(lambda r: r <= -0.98),
    ),
    Claim(
        "every network fits, and the half-life grows with the sample size: rank correlation at "
        "least 0.8",
        "the half-life can be larger for larger datasets",
        half_life_trend,
        lambda correlation: correlation is not None and correlation >= 0.8,
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One panel per sample size, in rows of three."""
    panels = [
        (f"n = {panel['samples']}, lr {panel['chosen'][0]['lr']:g}", panel["chosen"])
        for panel in numbers["panels"]
    ]
    rows = [panels[i : i + 3] for i in range(0, len(panels), 3)]
    return law_grid(rows, "The law of data separation with more and fewer samples")


STUDY = Study(
    title="200 to 5000 samples: the law holds, the half-life grows with n",
    source="003, figure 7",
    paper="emerges for each sample size; the half-life can be larger for larger datasets",
    minutes={"smoke": 0.1, "cpu": 3, "paper": 4},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
