"""The law does not depend on the dataset.

``lawscope study run separation/datasets``: figure 2 of 003, first row, with MNIST beside it.
Feed-forward networks of depth 4, 8 and 20 trained with Adam on CIFAR-10 (green channel) and MNIST,
both at 10×10 pixels, 100 samples per class: 30 trainings of 600 epochs; one seed. Both datasets
must be on this machine.

The paper: straight lines at every depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, of_fitting, sweep
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

# The datasets of 003 as its feed-forward networks see them: 10×10 pixels, one channel.
DATA = {
    "mnist": Data("mnist", size=10),
    "fashion-mnist": Data(),
    "cifar10": Data("cifar10", size=10, channel=1),
}
NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}

PAPER: dict[str, Any] = {
    "datasets": ["cifar10", "mnist"],
    "depths": [4, 8, 20],
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 1,
}
SMOKE = {**PAPER, "depths": [3, 5], "rates": [1e-3, 3e-3], "epochs": 2}


def candidates(settings: Mapping[str, Any], dataset: str, depth: int) -> list[Training]:
    """The networks of one panel, one for each learning rate and seed."""
    training = Training(
        Network.of("feedforward", depth=depth),
        Recipe(epochs=settings["epochs"]),
        DATA[dataset],
    )
    return sweep(training, settings["rates"], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all panels."""
    return [
        training
        for dataset in settings["datasets"]
        for depth in settings["depths"]
        for training in candidates(settings, dataset, depth)
    ]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every panel, beside all candidates."""
    panels = [
        {
            "dataset": dataset,
            "depth": depth,
            **choice(lab, candidates(lab.settings, dataset, depth)),
        }
        for dataset in lab.settings["datasets"]
        for depth in lab.settings["depths"]
    ]
    return {"panels": panels}


def straight_on(dataset: str) -> Claim:
    """The claim for one dataset."""
    return Claim(
        f"on {NAMES[dataset]} every chosen network fits its training set and has r ≤ −0.98",
        "straight lines at depth 4, 8 and 20",
        lambda numbers: of_fitting(
            [panel for panel in numbers["panels"] if panel["dataset"] == dataset], "r"
        ),
        every(lambda r: r <= -0.98),
    )


def figure(numbers: Numbers) -> Figure:
    """One row of panels per dataset, one column per depth."""
    rows: dict[str, list[tuple[str, list[Numbers]]]] = {}
    for panel in numbers["panels"]:
        name = NAMES[panel["dataset"]]
        title = f"{name}, {panel['depth']} layers, lr {panel['chosen'][0]['lr']:g}"
        rows.setdefault(name, []).append((title, panel["chosen"]))
    return law_grid(list(rows.values()), "The law of data separation on other data")


STUDY = Study(
    title="CIFAR-10 and MNIST: the law holds there too",
    source="003, figure 2",
    paper="straight lines on CIFAR-10 at depth 4, 8 and 20",
    minutes={"smoke": 0.1, "cpu": 3.5, "paper": 3.5},
    settings={"smoke": SMOKE, "cpu": PAPER, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=(straight_on("cifar10"), straight_on("mnist")),
    figure=figure,
)
