"""The law holds for every learning rate that trains well.

``lawscope study run separation/learning-rate``: figure 2 of 003, second row. A 9-layer feed-forward
network trained on Fashion-MNIST with SGD at lr 0.01, 0.03 and 0.1, 600 epochs, three seeds: 9
trainings. Nothing is chosen here.

The paper: the law holds for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import every, measured, of_fitting, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {"depth": 9, "rates": [0.01, 0.03, 0.1], "epochs": 600, "seeds": 1}
CPU = {**PAPER, "seeds": 3}
SMOKE = {**PAPER, "depth": 4, "epochs": 2, "seeds": 2}


def candidates(settings: Mapping[str, Any], lr: float) -> list[Training]:
    """The networks of one learning rate, one for each seed."""
    training = Training(
        Network.of("feedforward", depth=settings["depth"]),
        Recipe(optimizer="sgd", epochs=settings["epochs"]),
    )
    return sweep(training, [lr], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """Every learning rate with every seed."""
    return [training for lr in settings["rates"] for training in candidates(settings, lr)]


def measure(lab: Lab) -> Numbers:
    """All networks, by learning rate."""
    panels = [
        {"lr": lr, "chosen": [measured(lab, each) for each in candidates(lab.settings, lr)]}
        for lr in lab.settings["rates"]
    ]
    return {"panels": panels}


CLAIMS = (
    Claim(
        "with every learning rate and seed the network fits its training set and has r ≤ −0.98",
        "the law holds for each learning rate",
        lambda numbers: of_fitting(numbers["panels"], "r"),
        every(lambda r: r <= -0.98),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One panel per learning rate; further seeds faintly behind the first."""
    row = [(f"SGD, lr {panel['lr']:g}", panel["chosen"]) for panel in numbers["panels"]]
    return law_grid([row], "The law of data separation with several learning rates")


STUDY = Study(
    title="SGD with lr 0.01, 0.03, 0.1: the law holds for each",
    source="003, figure 2",
    paper="holds for each of the three learning rates",
    minutes={"smoke": 0.1, "cpu": 1.5, "paper": 1.5},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
