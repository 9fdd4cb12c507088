"""Convolutional networks obey the law layer by layer.

``lawscope study run separation/convnets``: figure 2 of He & Su 2023, third row. AlexNet-X and
VGG13-X with 5×5 filters, trained with Adam on Fashion-MNIST and CIFAR-10 at 32×32, 100 samples per
class, three seeds. Features are taken after each ReLU, before the pooling. Pixels are standardised
by the mean and deviation of each dataset, as in the authors' scripts.

``cpu`` has networks of an eighth of the paper's width (8 filters in the first layer instead of 64,
512 dense units instead of 4096), 60 epochs instead of 600, batches of 32 instead of 128 and one
learning rate instead of five: 4 trainings.
"""

from __future__ import annotations

from typing import Any

from lawscope.studies.datasets import CIFAR, FASHION, StandardisedImages
from lawscope.studies.figures import law_figure
from lawscope.studies.panels import Panels, Row, Settings, by_panel, sweep, yes_or_no
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._family import adam_presets, chosen, he_su_study
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question
from lawscope.training.recipe import Recipe

NETWORKS = {"alexnet": "AlexNet-X", "vgg": "VGG13-X"}
SMALL = "fashion-mnist-10x10"
DATASETS = {"fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", SMALL: "Fashion-MNIST 10×10"}
NOT_IN_THE_PAPER: dict[str, Any] = {"network": "vgg", "dataset": "cifar10"}


def candidates(settings: Settings, network: str, dataset: str) -> list[Training]:
    channels, moments = (3, CIFAR) if dataset == "cifar10" else (1, FASHION)
    training = Training(
        Network.of(network, channels=channels, width=settings["width"]),
        Recipe(epochs=settings["epochs"], batch_size=settings["batch_size"]),
        StandardisedImages(
            dataset, size=32, flatten=False, per_class=settings["per_class"], moments=moments
        ),
    )
    return sweep(training, settings["rates"], settings["seeds"])


PANELS = Panels(candidates, dataset="datasets", network="networks")


def measure(lab: Lab) -> Numbers:
    return {**{name: lab.settings[name] for name in ("width", "epochs")}, **PANELS.measure(lab)}


def label(panel: Row) -> str:
    return f"{NETWORKS[panel['network']]} on {DATASETS[panel['dataset']]}"


def straightness(numbers: Numbers) -> dict[str, list[Any]]:
    """Return r of the paper's networks."""
    absent = NOT_IN_THE_PAPER.items()
    return by_panel([p for p in numbers["panels"] if not absent <= p.items()], label, "r")


def figure(numbers: Numbers) -> Figure:
    size = f"first layer of {numbers['width']} filters, {numbers['epochs']} epochs"
    title = f"The law in convolutional networks ({size})"
    return law_figure(numbers["panels"], label, title, row="dataset")


STUDY = he_su_study(
    title="AlexNet and VGG13 with 5×5 filters: does the law hold layer by layer?",
    source="He & Su 2023, figure 2",
    paper="holds for AlexNet on Fashion-MNIST and CIFAR-10, and for VGG13 on Fashion-MNIST",
    minutes={"smoke": 0.2, "cpu": 12, "paper": 20_000},
    settings=adam_presets(
        {
            "networks": list(NETWORKS),
            "datasets": ["fashion-mnist", "cifar10"],
            "width": 64,
            "per_class": 100,
            "batch_size": 128,
        },
        cpu={"width": 8, "rates": [1e-3], "batch_size": 32, "epochs": 60},
        smoke={"datasets": [SMALL], "width": 1, "per_class": 20, "epochs": 1},
    ),
    departures={
        "cpu": "an eighth of the width, 60 of 600 epochs, 1 of 5 rates, batches of 32 "
        "instead of 128, taken after trials with 128 had missed"
    },
    plan=PANELS.plan,
    measure=measure,
    claims=(
        Claim(
            "r ≤ −0.97 layer by layer in every network of the paper's, of those that fit",
            "the law holds",
            straightness,
            lambda r: r <= -0.97,
        ),
    ),
    questions=(
        Question(
            "Is r ≤ −0.97 layer by layer in VGG13-X on CIFAR-10 too?",
            chosen(label, "r", **NOT_IN_THE_PAPER),
            yes_or_no(lambda r: r <= -0.97),
        ),
    ),
    figure=figure,
)
