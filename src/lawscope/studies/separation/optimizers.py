"""Every layer shrinks D by about the same factor, whatever the depth and the optimiser.

``lawscope study run separation/optimizers``: figure 1 of 003. Feed-forward networks of depth 4, 8
and 20 trained on Fashion-MNIST with SGD, momentum and Adam, each with the paper's learning rates:
57 trainings of 600 epochs; one seed.

The paper, depth 4, 8, 20: r = −1.000 −0.998 −0.997 with SGD, −0.999 −0.998 −0.998 with momentum,
−1.000 −0.997 −0.999 with Adam; ρ = 0.818 and half-life 3.45 for 20 layers with Adam.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, of_fitting, pick, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import OPTIMIZERS, Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {"depths": [4, 8, 20], "rates": RATES, "epochs": 600, "seeds": 1}
SMOKE: dict[str, Any] = {
    "depths": [3, 5],
    "rates": {"sgd": [0.1], "momentum": [0.03, 0.1], "adam": [1e-3]},
    "epochs": 3,
    "seeds": 1,
}
NAMES = {"sgd": "SGD", "momentum": "momentum", "adam": "Adam"}


def candidates(settings: Mapping[str, Any], optimizer: str, depth: int) -> list[Training]:
    """The networks of one panel, one for each learning rate and seed."""
    training = Training(
        Network.of("feedforward", depth=depth),
        Recipe(optimizer=OPTIMIZERS[optimizer], epochs=settings["epochs"]),
    )
    return sweep(training, settings["rates"][optimizer], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all panels."""
    return [
        training
        for optimizer in settings["rates"]
        for depth in settings["depths"]
        for training in candidates(settings, optimizer, depth)
    ]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every panel, beside all candidates."""
    panels = [
        {
            "optimizer": optimizer,
            "depth": depth,
            **choice(lab, candidates(lab.settings, optimizer, depth)),
        }
        for optimizer in lab.settings["rates"]
        for depth in lab.settings["depths"]
    ]
    return {"panels": panels}


def deepest_rho(numbers: Numbers) -> list[Any]:
    """The decay ratio of the 20-layer networks trained with Adam, one per seed."""
    return of_fitting([pick(numbers["panels"], optimizer="adam", depth=20)], "rho")


def last_ratio(numbers: Numbers) -> list[float]:
    """Final D of 20 layers over final D of 8, for every optimiser and seed."""
    panels = numbers["panels"]
    return [
        deep["D"][-1] / shallow["D"][-1]
        for optimizer in NAMES
        for deep, shallow in zip(
            pick(panels, optimizer=optimizer, depth=20)["chosen"],
            pick(panels, optimizer=optimizer, depth=8)["chosen"],
            strict=True,
        )
    ]


CLAIMS = (
    Claim(
        "every chosen network fits its training set and has r ≤ −0.99",
        "r from −0.997 to −1.000",
        lambda numbers: of_fitting(numbers["panels"], "r"),
        every(lambda r: r <= -0.99),
    ),
    Claim(
        "ρ of the 20-layer network trained with Adam lies between 0.79 and 0.85",
        "ρ = 0.818, half-life 3.45",
        deepest_rho,
        every(lambda rho: 0.79 <= rho <= 0.85),
    ),
    Claim(
        "with every optimiser 20 layers end with a larger D than 8",
        "20-layer networks have higher final D than their 8-layer counterparts",
        last_ratio,
        every(lambda ratio: ratio > 1),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One row of panels per optimiser, one column per depth."""
    rows: dict[str, list[tuple[str, list[Numbers]]]] = {}
    for panel in numbers["panels"]:
        name = NAMES[panel["optimizer"]]
        title = f"{name}, {panel['depth']} layers, lr {panel['chosen'][0]['lr']:g}"
        rows.setdefault(name, []).append((title, panel["chosen"]))
    return law_grid(list(rows.values()), "The law of data separation on Fashion-MNIST")


STUDY = Study(
    title="Depth 4, 8, 20 with SGD, momentum, Adam: D falls by an equal factor per layer",
    source="003, figure 1",
    paper="r between −0.997 and −1.000 in all nine panels; 20-layer Adam ρ = 0.818, half-life 3.45",
    minutes={"smoke": 0.1, "cpu": 7.5, "paper": 7.5},
    settings={"smoke": SMOKE, "cpu": PAPER, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
