"""The networks of the family, trained on a majority and a minority, and what is read off them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.lazy import nn
from lawscope.studies.datasets import CIFAR, FASHION, ImageData, StandardisedImages
from lawscope.studies.panels import Settings, compare, first_seeds, quietly
from lawscope.studies.plan import Network, Training
from lawscope.studies.registry import PREPARATIONS
from lawscope.studies.study import Lab, Numbers
from lawscope.training.recipe import Recipe

CLASSES = 10
SIMPLEX = "simplex classifier"
# The recipe of Fang et al. 2021, from their script.
RECIPE: dict[str, Any] = {
    "samples": 6000, "lr": 0.1, "batch": 128, "weight_decay": 5e-4, "epochs": 350,
}  # fmt: skip
# Their VGG sees the colours once, through 3×3 filters.
VGG: dict[str, Any] = {"kernel": 3, "copies": 1}
VGG11 = {"kind": "vgg", "options": {"depth": 11, **VGG}, "pixels": 32, **RECIPE}
RESNET18 = {"kind": "resnet18", "options": {}, "pixels": 32, **RECIPE}
COLOUR = {"dataset": "cifar10", "samples": 5000}
VGG13_CIFAR = {**VGG11, **COLOUR, "options": {"depth": 13, "channels": 3, **VGG}}
RESNET18_CIFAR = {**RESNET18, **COLOUR, "options": {"channels": 3}}
# A feed-forward network with the paper's data and recipe.
MLP = {"kind": "feedforward", "options": {"depth": 4}, "pixels": None, **RECIPE}
# Narrow networks on a part of CIFAR-10.
PART: dict[str, Any] = {"samples": 500, "epochs": 60, "one_seed": True}
NARROW_VGG = {
    **VGG13_CIFAR, **PART, "options": {"depth": 11, "channels": 3, "width": 8, **VGG}, "lr": 0.03,
}  # fmt: skip
NARROW_RESNET = {
    **RESNET18_CIFAR, **PART, "options": {"channels": 3, "width": 8}, "lr": 0.03,
}  # fmt: skip
PAPER: dict[str, Any] = {
    "dataset": "fashion-mnist", "seeds": 3, "networks": {"VGG11": VGG11, "ResNet18": RESNET18},
}  # fmt: skip
CPU: dict[str, Any] = {**PAPER, "networks": {"MLP": MLP}}
TOY = {**MLP, "samples": 20, "epochs": 2}
SMOKE = {**CPU, "dataset": "fashion-mnist-10x10", "networks": {"MLP": TOY}}
LABEL = "{network} (K_A = {majority})"
DEPARTURES = {"cpu": "a feed-forward network at 10×10"}
MOMENTS = {"cifar10": CIFAR}


class Cell(NamedTuple):
    """One place of a table: which network, how imbalanced, how oversampled."""

    network: str
    majority: int  # K_A, the first so many classes
    ratio: int  # R = n_A/n_B
    rate: int = 1  # w_r, how often the minority's samples are repeated
    simplex: bool = False  # the classifier is fixed instead of learned


Cells = Callable[[Settings, str, int], Iterable[Cell]]


def panels_of(settings: Settings) -> list[tuple[str, int]]:
    """Return network and K_A of every panel; K_A may be listed by network."""
    listed = settings["majorities"]
    return [
        (name, K_A)
        for name in settings["networks"]
        for K_A in (listed[name] if isinstance(listed, Mapping) else listed)
    ]


def plan_of(cells: Cells) -> Callable[[Settings], list[Training]]:
    return lambda settings: [
        training
        for panel in panels_of(settings)
        for cell in cells(settings, *panel)
        for training in trainings_of(settings, cell)
    ]


def read_panels(lab: Lab, cells: Cells, axis: Literal["ratio", "rate"]) -> list[Numbers]:
    """Return every network by panel and by the axis along which its cells differ."""
    panels = []
    for network, majority in panels_of(lab.settings):
        listed = cells(lab.settings, network, majority)
        points = [{axis: getattr(cell, axis), "networks": read_cell(lab, cell)} for cell in listed]
        panels.append({"network": network, "majority": majority, "points": points})
    return panels


def seeds_of(point: Numbers, name: str) -> list[Any]:
    """Return one number of the networks of a point, None of one that diverged."""
    return [row.get(name) for row in point["networks"]]


def change(after: Sequence[Numbers], before: Sequence[Numbers], name: str) -> list[float | None]:
    """Return by how much one number is larger in ``after`` than in ``before``, seed by seed."""
    return compare(after, before, lambda row: row.get(name), operator.sub, fitting=False)


def change_along(name: str) -> Callable[[Numbers], list[float | None]]:
    """Return by how much one number of a panel is larger at its last point than at its first."""
    return lambda p: change(p["points"][-1]["networks"], p["points"][0]["networks"], name)


@PREPARATIONS.register(SIMPLEX)
def fix_to_simplex(model: nn.Module) -> None:
    ls.fix_classifier(model)


def data_of(dataset: str, network: Settings, **amounts: Any) -> ImageData:
    """Return images of the size a network takes; vectors of 10×10 pixels where it names none.

    A network may name its own dataset.
    """
    dataset, pixels = network.get("dataset", dataset), network["pixels"]
    if pixels is None:
        return ImageData(dataset, size=10, **amounts)
    moments = MOMENTS.get(dataset, FASHION)
    return StandardisedImages(dataset, size=pixels, flatten=False, moments=moments, **amounts)


def training_of(network: Settings, data: ImageData, seed: int, **more: Any) -> Training:
    """Return one training of a network by its settings, with the paper's optimiser."""
    lr, epochs, batch = (network[name] for name in ("lr", "epochs", "batch"))
    recipe = Recipe("momentum", lr, epochs, batch, network["weight_decay"], seed)
    return Training(Network.of(network["kind"], **network["options"]), recipe, data, seed, **more)


def trainings_of(settings: Settings, cell: Cell) -> list[Training]:
    """Return a cell's trainings; equal classes are described by one number, whatever K_A."""
    network = settings["networks"][cell.network]
    samples, minority = network["samples"], CLASSES - cell.majority
    if samples < cell.ratio:
        raise LawscopeError(f"R = {cell.ratio} leaves no sample of {samples}; use R ≤ {samples}.")
    amounts: dict[str, Any] = {"per_class": samples}
    if cell.ratio > 1:
        amounts["per_class"] = (samples,) * cell.majority + (samples // cell.ratio,) * minority
        if cell.rate > 1:
            amounts["repeats"] = (1,) * cell.majority + (cell.rate,) * minority
    data = data_of(settings["dataset"], network, **amounts)
    return [
        training_of(network, data, seed, prepare=SIMPLEX if cell.simplex else "")
        for seed in first_seeds(1 if network.get("one_seed") else settings["seeds"])
    ]


def read_cell(lab: Lab, cell: Cell) -> list[Numbers]:
    """Return what is read off the networks of a cell, one row per seed."""
    return [read_network(lab, each, cell.majority) for each in trainings_of(lab.settings, cell)]


def read_network(lab: Lab, training: Training, majority: int) -> Numbers:
    """Return cosines, energies, the prediction at these energies, and accuracies of one network.

    ``accuracy`` is on training data, all else named accuracy on test data: of all classes, of the
    majority's and the minority's, and among the minority alone (argmax over the minority's logits,
    for which chance is 1/K_B).
    """
    lab.tell(f"reading {training.describe()}")
    run = lab.run(training)
    row: Numbers = {"seed": training.seed, "loss": run.loss, "accuracy": run.accuracy}
    if not math.isfinite(run.loss):
        return {**row, "loss": None}
    with quietly():
        found = lab.collapse(training)
    minority = slice(majority, CLASSES)
    plain, centred = (
        None if each is None else mean_of_pairs(each.cosines[minority, minority])
        for each in (found.prediction, predict_centred(found))
    )
    return {
        **row,
        "minority_fit": float(found.class_accuracy[minority].mean()),
        "cosine": mean_of_pairs(found.classifier_cosines[minority, minority]),
        "mean_cosine": mean_of_pairs(found.mean_cosines[minority, minority]),
        "predicted": plain,
        "predicted_centred": centred,
        "weight_energy": found.energies.weight,
        "feature_energy": found.energies.feature,
        "centred_weight_energy": found.centred_energies.weight,
        "centred_feature_energy": found.centred_energies.feature,
        "bias_share": found.bias_share,
        **on_test_data(*lab.logits(training), majority),
    }


def mean_of_pairs(cosines: Any) -> float | None:
    """Return the mean over pairs of different classes; None where a vector has vanished."""
    count = len(cosines)
    mean = float((cosines.sum() - cosines.trace()) / (count * (count - 1)))
    return mean if math.isfinite(mean) else None


def predict_centred(found: ls.Collapse) -> ls.Peeled | None:
    """Return the prediction at the energies about the mean row and the mean feature."""
    try:
        return ls.peel(found.training_counts, *found.centred_energies)
    except LawscopeError:  # energies too large for a number, or zero
        return None


def on_test_data(logits: Any, labels: Any, majority: int) -> Numbers:
    right = (logits.argmax(dim=1) == labels).double()
    by_class = [float(right[labels == k].mean()) for k in range(CLASSES)]
    rare = labels >= majority
    among = logits[rare, majority:].argmax(dim=1) + majority == labels[rare]
    return {
        "test_accuracy": float(right.mean()),
        "majority_accuracy": sum(by_class[:majority]) / majority,
        "minority_accuracy": sum(by_class[majority:]) / (CLASSES - majority),
        "among_minority_accuracy": float(among.double().mean()),
        "class_accuracy": by_class,
    }
