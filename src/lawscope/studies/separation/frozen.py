"""A network trained in two frozen stages fits as well, but has no law and tests worse.

``lawscope study run separation/frozen``: figure 5 of 003. 20-layer feed-forward networks on
CIFAR-10 (green channel, 10×10), trained as usual and in two stages: first the lower ten layers
alone, then the upper ten alone. Three learning rates and three seeds: 27 trainings of 600 epochs.

The paper: test accuracy 23.85 % against 19.67 %, r = −0.997 against −0.971, training loss 0.0021
against 0.0019, both with 100 % training accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._over_seeds import differences, on_average
from lawscope.studies.separation.datasets import DATA
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "dataset": "cifar10",
    "depth": 20,
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 3,
}
CPU = {**PAPER, "rates": [3e-4, 1e-3, 3e-3]}
SMOKE = {
    **PAPER,
    "dataset": "fashion-mnist",
    "depth": 6,
    "rates": [1e-3],
    "epochs": 2,
}


def standard(settings: Mapping[str, Any]) -> list[Training]:
    """All layers trained at once, one network for each learning rate and seed."""
    training = Training(
        Network.of("feedforward", depth=settings["depth"]),
        Recipe(epochs=settings["epochs"]),
        DATA[settings["dataset"]],
    )
    return sweep(training, settings["rates"], settings["seeds"])


def two_stage(training: Training) -> Training:
    """The same network with its lower half trained first, alone, and its upper half after it.

    Frozen layers keep their weights; their BatchNorm still follows the batches.
    """
    depth = training.network.settings["depth"]
    first = replace(training, trained=(0, depth // 2))
    return replace(training, start=first, trained=(depth // 2, depth))


def frozen(settings: Mapping[str, Any]) -> list[Training]:
    """The two-stage counterparts of :func:`standard`."""
    return [two_stage(training) for training in standard(settings)]


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """Both kinds; the first stages come along as starts of the second."""
    return [*standard(settings), *frozen(settings)]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of both kinds, beside all candidates."""
    return {
        "standard": choice(lab, standard(lab.settings)),
        "frozen": choice(lab, frozen(lab.settings)),
    }


def gap(numbers: Numbers, name: str) -> list[float | None]:
    """Standard minus frozen training, seed by seed."""
    return differences(numbers["standard"]["chosen"], numbers["frozen"]["chosen"], name)


CLAIMS = (
    Claim(
        "both kinds of training fit the training set: accuracy ≥ 0.99 for every seed",
        "training accuracy 100 % for both, losses 0.0021 and 0.0019",
        lambda numbers: [
            row["accuracy"] for kind in ("standard", "frozen") for row in numbers[kind]["chosen"]
        ],
        every(lambda accuracy: accuracy >= 0.99),
    ),
    Claim(
        "standard training is straighter: both kinds fit, and r is lower than after frozen "
        "training, mean over ≥ 3 seeds",
        "r = −0.997 against −0.971",
        lambda numbers: gap(numbers, "r"),
        on_average(lambda mean: mean < 0),
    ),
    Claim(
        "standard training tests better: both kinds fit, and test accuracy is higher, mean over "
        "≥ 3 seeds",
        "23.85 % against 19.67 %",
        lambda numbers: gap(numbers, "test_accuracy"),
        on_average(lambda mean: mean > 0),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Both kinds side by side; further seeds faintly behind the first."""
    names = {"standard": "all layers at once", "frozen": "lower half, then upper half"}
    row = []
    for kind, name in names.items():
        first = numbers[kind]["chosen"][0]
        title = f"{name}\nlr {first['lr']:g}, test accuracy {first['test_accuracy']:.1%}"
        row.append((title, numbers[kind]["chosen"]))
    return law_grid([row], "Standard and frozen training")


STUDY = Study(
    title="Two-stage frozen training fits as well but loses the law and tests worse",
    source="003, figure 5",
    paper="test 23.85 % against 19.67 %, r −0.997 against −0.971; both fit the training set",
    minutes={"smoke": 0.1, "cpu": 5, "paper": 12},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
