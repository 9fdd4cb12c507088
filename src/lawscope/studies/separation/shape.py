"""Wide bottom layers and narrow top layers separate best.

``lawscope study run separation/shape``: figure 4 of 003, second row. 8-layer feed-forward networks
of three shapes trained with Adam on Fashion-MNIST: narrow-wide, wide-narrow, and mixed. ``cpu``
halves all widths above 100, trains for 150 epochs instead of 600 with one of the paper's five
learning rates, and takes three seeds, since final values of D differ from seed to seed: 9
trainings.

The paper: wide-narrow is best.
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
    "shapes": {
        "narrow-wide": [100, 100, 100, 100, 1000, 1000, 1000],
        "wide-narrow": [1000, 1000, 1000, 1000, 100, 100, 100],
        "mixed": [100, 500, 500, 2500, 2500, 500, 500],
    },
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 1,
}
CPU: dict[str, Any] = {
    "shapes": {
        "narrow-wide": [100, 100, 100, 100, 500, 500, 500],
        "wide-narrow": [500, 500, 500, 500, 100, 100, 100],
        "mixed": [100, 250, 250, 1250, 1250, 250, 250],
    },
    "rates": [1e-3],
    "epochs": 150,
    "seeds": 3,
}
SMOKE: dict[str, Any] = {
    "shapes": {
        "narrow-wide": [50, 50, 100],
        "wide-narrow": [100, 50, 50],
        "mixed": [50, 100, 50],
    },
    "rates": [1e-3, 3e-3],
    "epochs": 2,
    "seeds": 1,
}


def candidates(settings: Mapping[str, Any], shape: str) -> list[Training]:
    """The networks of one shape, one for each learning rate and seed."""
    training = Training(
        Network.of("feedforward", widths=settings["shapes"][shape]),
        Recipe(epochs=settings["epochs"]),
    )
    return sweep(training, settings["rates"], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all shapes."""
    return [training for shape in settings["shapes"] for training in candidates(settings, shape)]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every shape, beside all candidates."""
    panels = [
        {"shape": shape, **choice(lab, candidates(lab.settings, shape))}
        for shape in lab.settings["shapes"]
    ]
    return {"panels": panels}


def against_wide_narrow(shape: str) -> Any:
    """Final D of a shape over final D of wide-narrow, one number per seed."""

    def ratios(numbers: Numbers) -> list[float]:
        panels = numbers["panels"]
        these, best = (pick(panels, shape=each)["chosen"] for each in (shape, "wide-narrow"))
        return [a["D"][-1] / b["D"][-1] for a, b in zip(these, best, strict=True)]

    return ratios


CLAIMS = tuple(
    Claim(
        f"{shape} ends with a larger D than wide-narrow, with every seed (ratios above 1)",
        "it is better to start with wide layers at the bottom followed by narrow top layers",
        against_wide_narrow(shape),
        every(lambda ratio: ratio > 1),
    )
    for shape in ("narrow-wide", "mixed")
)


def figure(numbers: Numbers) -> Figure:
    """One panel per shape."""
    row = [
        (f"{panel['shape']}, lr {panel['chosen'][0]['lr']:g}", panel["chosen"])
        for panel in numbers["panels"]
    ]
    return law_grid([row], "The law of data separation in networks of three shapes")


STUDY = Study(
    title="Narrow-wide, wide-narrow, mixed: wide bottom layers are best",
    source="003, figure 4",
    paper="wide-narrow ends with the lowest D",
    minutes={"smoke": 0.1, "cpu": 2.5, "paper": 70},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
