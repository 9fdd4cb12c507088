"""On test data the law is still there, but fuzzy.

``lawscope study run separation/test-data``: figure 12 of 003. The 8-layer network of
``separation/optimizers`` (Adam, Fashion-MNIST, learning rate chosen on training data), measured on
samples it has not seen: 5 trainings of 600 epochs that the two studies share; one seed.

The paper: a fuzzy version of the law exists in the test data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, measured, training_of
from lawscope.studies.separation.optimizers import candidates
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab
    from lawscope.studies.plan import Training

PAPER: dict[str, Any] = {
    "depth": 8,
    "rates": {"adam": RATES["adam"]},
    "epochs": 600,
    "seeds": 1,
}
SMOKE = {**PAPER, "depth": 5, "rates": {"adam": [1e-3, 3e-3]}, "epochs": 3}


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """The candidates, one for each learning rate and seed."""
    return candidates(settings, "adam", settings["depth"])


def measure(lab: Lab) -> Numbers:
    """The chosen networks on training data and on test data."""
    trainings = plan(lab.settings)
    made = choice(lab, trainings)
    tested = [measured(lab, training_of(row, trainings), split="test") for row in made["chosen"]]
    return {**made, "tested": tested}


def both(name: str, numbers: Numbers, compared: Callable[[Any, Any], float]) -> list[float | None]:
    """One number on training data against that on test data, for every seed.

    Returns:
        ``compared(on training data, on test data)``; None where the network does not fit.
    """
    found = []
    for seen, unseen in zip(numbers["chosen"], numbers["tested"], strict=True):
        told = seen["fits"] and None not in (seen[name], unseen[name])
        found.append(compared(seen[name], unseen[name]) if told else None)
    return found


CLAIMS = (
    Claim(
        "the network fits its training set, and on test data r ≤ −0.9",
        "a fuzzy version of the law also exists in the test data",
        lambda numbers: both("r", numbers, lambda _, unseen: unseen),
        every(lambda r: r <= -0.9),
    ),
    Claim(
        "the line is less straight than on training data (r on test minus r on training, above 0)",
        "fuzzy",
        lambda numbers: both("r", numbers, lambda seen, unseen: unseen - seen),
        every(lambda difference: difference > 0),
    ),
    Claim(
        "at the last layer D on test data is at least D on training data (ratios)",
        "test data is separated less",
        lambda numbers: both("D", numbers, lambda seen, unseen: unseen[-1] / seen[-1]),
        every(lambda ratio: ratio >= 1),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Training data at the left, test data at the right."""
    row = [("training data", numbers["chosen"]), ("test data", numbers["tested"])]
    return law_grid([row], "The law of data separation on data not trained on")


STUDY = Study(
    title="D on test data: a fuzzy version of the law",
    source="003, figure 12",
    paper="a fuzzy version of the law also exists in the test data",
    minutes={"smoke": 0.1, "cpu": 0.5, "paper": 0.5},
    settings={"smoke": SMOKE, "cpu": PAPER, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
