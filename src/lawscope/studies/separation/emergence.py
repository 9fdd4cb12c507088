"""The law is not there at the start, comes into effect, and does so before neural collapse.

``lawscope study run separation/emergence``: figure 9 of 003. 20-layer feed-forward networks on
Fashion-MNIST with Adam, measured after 0, 10, 20, 30, 50, 100, 200, 300 and 600 epochs, with NC1 =
Tr(SSw SSb⁺)/K at the last hidden layer beside it. Three learning rates and three seeds: 9 trainings
of 600 epochs.

The paper: no law at the beginning; it emerges gradually, earlier than neural collapse; after that
the decay ratio falls until the network has converged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import (
    COLOURS,
    grid,
    label_outside,
    law_panel,
    plain_axis,
)
from lawscope.studies.choice import RATES, every, sweep
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.separation._along_training import along
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "depth": 20,
    "checkpoints": [0, 10, 20, 30, 50, 100, 200, 300, 600],
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 1,
}
CPU = {**PAPER, "rates": [3e-4, 1e-3, 3e-3], "seeds": 3}
SMOKE = {**PAPER, "depth": 5, "checkpoints": [0, 1, 2, 4], "rates": [1e-3, 3e-3], "epochs": 4}
CLASSES = 10
STRAIGHT = -0.98
DECADE = 10.0


def candidates(settings: Mapping[str, Any]) -> list[Training]:
    """One network for each learning rate and seed, kept at the checkpoints."""
    training = Training(
        Network.of("feedforward", depth=settings["depth"]),
        Recipe(epochs=settings["epochs"]),
        Data(),
        checkpoints=tuple(settings["checkpoints"]),
    )
    return sweep(training, settings["rates"], settings["seeds"])


def measure(lab: Lab) -> Numbers:
    """The chosen networks at every checkpoint, with NC1."""
    networks = along(lab, candidates(lab.settings))
    for network in networks:
        for row in network["history"]:
            row["nc1"] = row["D"][-1] / CLASSES
    return {"networks": networks}


def law_epoch(history: Sequence[Numbers]) -> int | None:
    """The first checkpoint at which r ≤ −0.98.

    Example:
        >>> law_epoch([{"epoch": 0, "r": 0.5}, {"epoch": 10, "r": -0.99}])
        10
    """
    return next((h["epoch"] for h in history if h["r"] is not None and h["r"] <= STRAIGHT), None)


def collapse_epoch(history: Sequence[Numbers]) -> int:
    """The first checkpoint at which NC1 is in its last decade: at most ten times its smallest.

    Example:
        >>> collapse_epoch([{"epoch": 0, "nc1": 9.0}, {"epoch": 5, "nc1": 0.2},
        ...                 {"epoch": 10, "nc1": 0.1}])
        5
    """
    least = min(h["nc1"] for h in history)
    return next(int(h["epoch"]) for h in history if h["nc1"] <= DECADE * least)


def first_r(numbers: Numbers) -> list[float]:
    """The correlation before training, one per seed."""
    return [network["history"][0]["r"] for network in numbers["networks"]]


def lowest_r(numbers: Numbers) -> list[float]:
    """The smallest correlation at any checkpoint, one per seed."""
    return [min(h["r"] for h in network["history"]) for network in numbers["networks"]]


def later_fall(numbers: Numbers) -> list[float | None]:
    """How much ρ changes from the epoch of the law to the end, one per seed."""
    changes: list[float | None] = []
    for network in numbers["networks"]:
        history, begun = network["history"], law_epoch(network["history"])
        there = [h["rho"] for h in history if h["epoch"] == begun]
        changes.append(history[-1]["rho"] - there[0] if there else None)
    return changes


def lead(numbers: Numbers) -> list[int | None]:
    """Epochs from the law to the last decade of NC1, one per seed."""
    epochs = [(law_epoch(n["history"]), collapse_epoch(n["history"])) for n in numbers["networks"]]
    return [None if law is None else collapse - law for law, collapse in epochs]


CLAIMS = (
    Claim(
        "there is no law before training: r > −0.98 at epoch 0 for every seed",
        "the law does not emerge at the beginning",
        first_r,
        every(lambda r: r > STRAIGHT),
    ),
    Claim(
        "the law emerges: r ≤ −0.98 at some checkpoint for every seed",
        "it gradually emerges during training",
        lowest_r,
        every(lambda r: r <= STRAIGHT),
    ),
    Claim(
        "after that ρ falls until the end, for every seed",
        "after that the decay ratio is decreased along the training process",
        later_fall,
        every(lambda change: change < 0),
    ),
    Claim(
        "r crosses −0.98 at an earlier checkpoint than NC1 reaches its last decade, every seed",
        "the law emerges earlier than neural collapse",
        lead,
        every(lambda epochs: epochs > 0),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """A panel per checkpoint for the first seed; below, r, ρ and NC1 of all seeds over epochs."""
    first = numbers["networks"][0]["history"]
    rows = -(-len(first) // 3)
    drawing, axes = grid(rows + 1, 3, "The law of data separation during training")
    places = [axis for row in axes[:rows] for axis in row]
    for axis, at in zip(places, first, strict=False):
        law_panel(axis, at, f"epoch {at['epoch']}")
    for axis in places[len(first) :]:
        axis.set_axis_off()
    label_outside(axes[:rows])
    for axis, (name, title) in zip(
        axes[rows], {"r": "r", "rho": "ρ", "nc1": "NC1"}.items(), strict=True
    ):
        for network, color in zip(numbers["networks"], COLOURS, strict=False):
            history = network["history"]
            epochs, values = [h["epoch"] for h in history], [h[name] for h in history]
            axis.plot(
                epochs, values, "o-", color=color, ms=3, lw=1, label=f"seed {network['seed']}"
            )
        axis.set_xlabel("epoch", fontsize=8.5)
        plain_axis(axis, title)
    axes[rows][0].axhline(STRAIGHT, color="grey", lw=0.8, ls=":")
    axes[rows][0].legend(fontsize=7, frameon=False)
    axes[rows][2].set_yscale("log")
    return drawing


STUDY = Study(
    title="The law emerges during training, before neural collapse",
    source="003, figure 9",
    paper="absent at the start, emerges gradually and earlier than neural collapse, then ρ falls",
    minutes={"smoke": 0.1, "cpu": 2, "paper": 2},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=candidates,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
