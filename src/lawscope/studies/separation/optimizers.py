"""Every layer shrinks D by about the same factor, whatever the depth and the optimiser.

``lawscope study run separation/optimizers``: figure 1 of He & Su 2023. Feed-forward networks of
depth 4, 8 and 20 trained on Fashion-MNIST with SGD, momentum and Adam, each with the paper's
learning rates, for 600 epochs, three seeds: 171 trainings.

The paper, depth 4, 8, 20: r = −1.000 −0.998 −0.997 with SGD, −0.999 −0.998 −0.998 with momentum,
−1.000 −0.997 −0.999 with Adam; ρ = 0.818 and half-life 3.45 for 20 layers with Adam. The overview
talk: ρ = 0.53 and half-life 1.1 for 8 layers. These were measured in train mode; there the floor of
the batch statistics is what makes 20 layers end with a larger D than 8.
"""

from __future__ import annotations

from operator import truediv

from lawscope.studies.panels import RATES, Panels, Row, Settings, last_d, medians, presets, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._family import (
    chosen,
    draw_panels,
    he_su_study,
    near_taken,
    versus,
)
from lawscope.studies.study import Claim, NotTried, Numbers, Question
from lawscope.training.recipe import Recipe

LITTLE = {"sgd": [0.1], "momentum": [0.03, 0.1], "adam": [1e-3]}
NAMES = {"sgd": "SGD", "momentum": "momentum", "adam": "Adam"}


def candidates(settings: Settings, optimizer: str, depth: int) -> list[Training]:
    recipe = Recipe(optimizer=optimizer, epochs=settings["epochs"])
    training = Training(Network.of("feedforward", depth=depth), recipe)
    near = optimizer in settings.get("near", ())
    rates = near_taken(depth, optimizer) if near else settings["rates"][optimizer]
    return sweep(training, rates, settings["seeds"])


PANELS = Panels(candidates, optimizer="rates", depth="depths")


def optimizer(panel: Row) -> str:
    return NAMES[panel["optimizer"]]


def label(panel: Row) -> str:
    return f"{optimizer(panel)}, {panel['depth']} layers"


def order_factor(row: Row) -> float | None:
    """Return the largest final D over the smallest, of the orders a network was measured in."""
    last = [order["last"] for order in row.get("orders", ())]
    return max(last) / min(last) if last else None


def order_factors(numbers: Numbers) -> dict[str, list[float | None]]:
    """Return by how much the order of the samples moves the final D, by panel."""
    found = chosen(label, order_factor, fitting=False)(numbers)
    if not any(value for values in found.values() for value in values):
        raise NotTried("measured in one order only")
    return found


STUDY = he_su_study(
    title="Depth 4, 8, 20 with SGD, momentum, Adam: D falls by an equal factor per layer",
    source="He & Su 2023, figure 1",
    paper="r between −0.997 and −1.000 in all nine panels; 20-layer Adam ρ = 0.818, half-life 3.45",
    minutes={"smoke": 0.1, "cpu": 15, "paper": 15},
    settings=presets(
        {"depths": [4, 8, 20], "rates": RATES, "epochs": 600, "seeds": 3},
        smoke={"depths": [3, 5], "rates": LITTLE, "epochs": 3},
    ),
    plan=PANELS.plan,
    measure=PANELS.measure,
    claims=(
        Claim(
            "straight lines: median r ≤ −0.99 in every panel, of networks that fit",
            "r from −0.997 to −1.000",
            chosen(label, "r"),
            lambda r: r <= -0.99,
            median=True,
        ),
        Claim(
            "ρ of 20 layers with Adam lies between 0.79 and 0.85",
            "ρ = 0.818, half-life 3.45",
            chosen(label, "rho", optimizer="adam", depth=20),
            lambda rho: 0.79 <= rho <= 0.85,
        ),
        Claim(
            "ρ of 8 layers with Adam lies between 0.48 and 0.58",
            "ρ = 0.53, half-life 1.1",
            chosen(label, "rho", optimizer="adam", depth=8),
            lambda rho: 0.48 <= rho <= 0.58,
            figure="overview talk, part II",
        ),
        Claim(
            "20 layers end with a larger D than 8 (ratio above 1) with every optimiser",
            "20-layer networks have higher final D than their 8-layer counterparts",
            versus(optimizer, last_d, truediv, {"depth": 20}, {"depth": 8}),
            lambda ratio: ratio > 1,
        ),
    ),
    questions=(
        Question(
            "By which factor does the order of the samples alone move the final D (largest over "
            "smallest of three orders)?",
            order_factors,
            medians,
        ),
    ),
    figure=draw_panels(label, "The law of data separation on Fashion-MNIST", row="optimizer"),
)
