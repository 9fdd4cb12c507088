"""What the studies of He & Su 2023 share: their feed-forward networks, data and protocols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lawscope.studies.datasets import ImageData
from lawscope.studies.figures import law_figure
from lawscope.studies.panels import RATES, Settings, compare, pick, presets, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation import Figure
from lawscope.studies.study import AUTHORS, NETWORK, Numbers, Study
from lawscope.training.recipe import Recipe

# Three of the paper's five learning rates for Adam, for studies that train many networks.
FEW_RATES = [3e-4, 1e-3, 3e-3]
# The datasets as feed-forward networks see them: 10×10 pixels, one channel.
DATA = {
    "mnist": ImageData("mnist", size=10),
    "fashion-mnist": ImageData(),
    "cifar10": ImageData("cifar10", size=10, channel=1),
}
NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}

# Both ways to measure: as the authors did, and what the network itself does.
he_su_study = partial(Study, protocols=(AUTHORS, NETWORK))


def adam_presets(
    cpu: Settings | None = None, smoke: Settings | None = None, **paper: Any
) -> dict[str, dict[str, Any]]:
    """Return settings per preset: the paper's rates for Adam, 600 epochs and one seed, unless said.

    Smoke runs have two rates and two epochs, unless said.
    """
    paper = {"rates": RATES["adam"], "epochs": 600, "seeds": 1, **paper}
    return presets(paper, cpu, {"rates": [1e-3, 3e-3], "epochs": 2, **(smoke or {})})


def feedforward(
    settings: Settings,
    data: ImageData | None = None,
    checkpoints: Sequence[int] = (),
    **options: Any,
) -> list[Training]:
    """Return a network trained with Adam for each learning rate and seed of the settings."""
    network, recipe = Network.of("feedforward", **options), Recipe(epochs=settings["epochs"])
    training = Training(network, recipe, data or ImageData(), checkpoints=tuple(checkpoints))
    return sweep(training, settings["rates"], settings["seeds"])


def compare_panels(
    numbers: Numbers, name: Any, how: Any, *cells: Settings, fitting: bool = True
) -> list[float | None]:
    """Compare one number of the networks chosen in two panels, seed by seed."""
    a, b = (pick(numbers["panels"], **cell)["chosen"] for cell in cells)
    return compare(a, b, name, how, fitting=fitting)


def draw_panels(label: Any, title: str, row: str | None = None) -> Callable[[Numbers], Figure]:
    """Return the figure of a study that draws the law in every panel of its numbers."""
    return lambda numbers: law_figure(numbers["panels"], label, title, row=row)
