"""A network must be wide enough; wider than that gains nothing.

``lawscope study run separation/width``: figure 4 of 003, first row. 8-layer feed-forward networks
of width 20, 100 and 1000 trained with Adam on Fashion-MNIST. A network of width 1000 costs a
hundred times one of width 100, so ``cpu`` trains all three for 150 epochs instead of 600, with
three of the paper's five learning rates: 9 trainings; one seed.

The paper: width 20 does not separate the data well; 100 and 1000 end with about the same D.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, pick, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "depth": 8,
    "widths": [20, 100, 1000],
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 1,
}
CPU = {**PAPER, "rates": [3e-4, 1e-3, 3e-3], "epochs": 150}
SMOKE = {**PAPER, "depth": 4, "widths": [20, 100, 200], "rates": [1e-3, 3e-3], "epochs": 2}
USUAL = 100


def network(depth: int, width: int) -> Network:
    """The usual width is left unsaid, so that other studies mean the same network."""
    if width == USUAL:
        return Network.of("feedforward", depth=depth)
    return Network.of("feedforward", depth=depth, width=width)


def candidates(settings: Mapping[str, Any], width: int) -> list[Training]:
    """The networks of one width, one for each learning rate and seed."""
    training = Training(network(settings["depth"], width), Recipe(epochs=settings["epochs"]))
    return sweep(training, settings["rates"], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all widths."""
    return [training for width in settings["widths"] for training in candidates(settings, width)]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every width, beside all candidates."""
    panels = [
        {"width": width, **choice(lab, candidates(lab.settings, width))}
        for width in lab.settings["widths"]
    ]
    return {"panels": panels}


def against_usual(width: int) -> Any:
    """Final D of a width over final D of width 100, one number per seed."""

    def ratios(numbers: Numbers) -> list[float]:
        these, usual = (pick(numbers["panels"], width=each)["chosen"] for each in (width, USUAL))
        return [a["D"][-1] / b["D"][-1] for a, b in zip(these, usual, strict=True)]

    return ratios


CLAIMS = (
    Claim(
        "width 20 ends with at least ten times the D of width 100",
        "the network does not separate the data well when the width is merely 20",
        against_usual(20),
        every(lambda ratio: ratio >= 10),
    ),
    Claim(
        "width 1000 ends with the D of width 100 within a factor of three",
        "about the same final D for both widths of 100 and 1000",
        against_usual(1000),
        every(lambda ratio: 1 / 3 <= ratio <= 3),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One panel per width."""
    row = [
        (f"width {panel['width']}, lr {panel['chosen'][0]['lr']:g}", panel["chosen"])
        for panel in numbers["panels"]
    ]
    return law_grid([row], "The law of data separation in narrow and wide networks")


STUDY = Study(
    title="Width 20, 100, 1000: 20 is too narrow, 100 does as well as 1000",
    source="003, figure 4",
    paper="width 20 does not separate well; 100 and 1000 end with about the same D",
    minutes={"smoke": 0.1, "cpu": 4.5, "paper": 30},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
