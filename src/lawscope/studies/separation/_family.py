"""What the studies of He & Su 2023 share: networks, data, protocols, and numbers for claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from lawscope.studies import panels
from lawscope.studies.datasets import GREEN, ImageData, StandardisedImages
from lawscope.studies.figures import law_figure
from lawscope.studies.panels import Label, Number, Settings, compare, pick, rank_correlation
from lawscope.studies.plan import Network, Training
from lawscope.studies.study import AUTHORS, NETWORK, Figure, Numbers, Study
from lawscope.training.recipe import Recipe

# Three of the paper's five learning rates for Adam, for studies that train many networks.
FEW_RATES = [3e-4, 1e-3, 3e-3]
# The learning rates that the authors' README names, by depth.
TAKEN: dict[str, dict[int, float]] = {
    "sgd": {4: 0.3, 8: 0.03, 20: 0.01},
    "momentum": {4: 0.3, 8: 0.01, 20: 0.001},
    "adam": {4: 3e-3, 8: 1e-3, 20: 3e-4},
}
# The datasets as feed-forward networks see them: 10×10 pixels, one channel.
DATA = {
    "mnist": ImageData("mnist", size=10),
    "fashion-mnist": ImageData(),
    "cifar10": StandardisedImages("cifar10", size=10, channel=1, moments=GREEN),
}
NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
# What a claim or question measures: numbers of a study → one number per seed, by panel.
Value = Callable[[Numbers], dict[str, list[Any]]]
How = Callable[[float, float], float]

# Both ways to measure: as the authors did, and what the network itself does.
he_su_study = partial(Study, protocols=(AUTHORS, NETWORK))


def adam_presets(
    paper: Settings, *, cpu: Settings | None = None, smoke: Settings
) -> dict[str, dict[str, Any]]:
    """Return settings per preset: the paper's rates for Adam, 600 epochs, three seeds, unless said.

    Smoke runs have two rates and two epochs, unless said.
    """
    paper = {"rates": panels.RATES["adam"], "epochs": 600, "seeds": 3, **paper}
    smoke = {"rates": [1e-3, 3e-3], "epochs": 2, "seeds": 1, **smoke}
    return panels.presets(paper, cpu, smoke)


def near_taken(depth: int, optimizer: str = "adam") -> list[float]:
    """Return the rate the authors took, at the nearest depth they name, and its neighbours."""
    rates, taken = panels.RATES[optimizer], TAKEN[optimizer]
    nearest = min(taken, key=lambda known: abs(math.log(known / depth)))
    at = rates.index(taken[nearest])
    return rates[max(0, at - 1) : at + 2]


def feedforward(
    settings: Settings, data: ImageData | None = None, checkpoints: Sequence[int] = (),
    **options: Any,
) -> list[Training]:  # fmt: skip
    """Return a network trained with Adam for each learning rate and seed of the settings.

    Of the rates only those near the one the authors took, where the settings say ``near``.
    """
    network, recipe = Network.of("feedforward", **options), Recipe(epochs=settings["epochs"])
    training = Training(network, recipe, data or ImageData(), checkpoints=tuple(checkpoints))
    rates = near_taken(options["depth"]) if settings.get("near") else settings["rates"]
    return panels.sweep(training, rates, settings["seeds"])


def chosen(
    label: Label, name: Number, of: str = "", *, fitting: bool = True, **where: Any
) -> Value:
    """Read one number of the networks chosen in the panels with these settings.

    The numbers, or those of the kind ``of``, may be one panel by themselves.
    """

    def read(numbers: Numbers) -> dict[str, list[Any]]:
        found = numbers[of] if of else numbers
        cells = _select(found.get("panels", [found]), where)
        return panels.by_panel(cells, label, name, fitting=fitting)

    return read


def versus(
    label: Label, name: Number, how: How, of: Settings, other: Settings, *, fitting: bool = True
) -> Value:
    """Compare the panels with the settings ``of`` with those that differ from them in ``other``."""

    def read(numbers: Numbers) -> dict[str, list[Any]]:
        found = {}
        for panel in _select(numbers["panels"], of):
            cell = {k: v for k, v in panel.items() if k not in ("chosen", "runs")}
            a, b = panel["chosen"], pick(numbers["panels"], **{**cell, **other})["chosen"]
            if a is not b:
                found[panels.label_of(panel, label)] = compare(a, b, name, how, fitting=fitting)
        return found

    return read


def between(
    label: str, name: Number, how: How, one: str, other: str, *, fitting: bool = True
) -> Value:
    """Compare the networks of two kinds, seed by seed."""

    def rows(found: Any) -> Any:
        return found["chosen"] if isinstance(found, Mapping) else found

    return lambda numbers: {
        label: compare(rows(numbers[one]), rows(numbers[other]), name, how, fitting=fitting)
    }


def _select(cells: Sequence[Numbers], where: Settings) -> list[Numbers]:
    pick(cells, **where)  # The preset may have no such panel, and then the claim is not tried.
    return [cell for cell in cells if where.items() <= cell.items()]


def rise(name: str) -> Callable[[Numbers], float]:
    """Rank correlation of the numbers of a network, one per layer, with the layer index."""
    return lambda row: rank_correlation(range(len(row[name])), row[name])


def draw_panels(label: Label, title: str, row: str | None = None) -> Callable[[Numbers], Figure]:
    """Return the figure of a study that draws the law in every panel of its numbers."""
    return lambda numbers: law_figure(numbers["panels"], label, title, row=row)
