"""Networks trained on a majority and a minority, and what is read off them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lawscope.errors import LawscopeError
from lawscope.studies.choice import quietly
from lawscope.studies.collapse._networks import data_of, training_of
from lawscope.studies.plan import Training
from lawscope.studies.study import Numbers

if TYPE_CHECKING:
    from lawscope.laws.collapse_result import Collapse
    from lawscope.studies.lab import Lab

CLASSES = 10


class Cell(NamedTuple):
    """One place of a table: which network, how imbalanced, how oversampled.

    Attributes:
        network: a name in ``settings["networks"]``.
        majority: K_A, the first so many classes.
        ratio: R = n_A/n_B.
        rate: w_r, how often the minority's samples are repeated.
        classifier: learned, or fixed to a simplex.
    """

    network: str
    majority: int
    ratio: int
    rate: int = 1
    classifier: Literal["learned", "simplex"] = "learned"


def trainings_of(settings: Mapping[str, Any], cell: Cell) -> list[Training]:
    """The trainings of a cell, one per seed.

    Raises:
        LawscopeError: R leaves the minority without a sample.
    """
    network = settings["networks"][cell.network]
    data = data_of(settings["dataset"], network, **_amounts(network["samples"], cell))
    return [
        training_of(network, data, seed, classifier=cell.classifier)
        for seed in range(1 if network.get("one_seed") else settings["seeds"])
    ]


def _amounts(samples: int, cell: Cell) -> dict[str, Any]:
    """Samples and repeats of each class; equal classes are one number, whatever K_A."""
    if cell.ratio == 1:
        return {"per_class": samples}
    if samples < cell.ratio:
        raise LawscopeError(
            f"R = {cell.ratio} leaves no sample of {samples}; choose R ≤ {samples}."
        )
    minority = CLASSES - cell.majority
    counts = (samples,) * cell.majority + (samples // cell.ratio,) * minority
    repeats = (1,) * cell.majority + (cell.rate,) * minority
    return {"per_class": counts, "repeats": repeats if cell.rate > 1 else None}


def readings(lab: Lab, cell: Cell) -> list[Numbers]:
    """What is read off the networks of a cell, one row per seed."""
    rows = []
    for training in trainings_of(lab.settings, cell):
        lab.tell(f"reading {training.describe()}")
        rows.append(reading(lab, training, cell.majority))
    return rows


def reading(lab: Lab, training: Training, majority: int) -> Numbers:
    """Cosines, energies, the prediction at these energies, and accuracies of one network.

    ``accuracy`` is on training data, all else named accuracy on test data: of all classes, of the
    majority's and the minority's, and among the minority alone (argmax over the minority's logits,
    for which chance is 1/K_B).
    """
    run = lab.run(training)
    row: Numbers = {"seed": training.seed, "loss": run.loss, "accuracy": run.accuracy}
    if not math.isfinite(run.loss):
        return {**row, "loss": None}
    with quietly():
        found = lab.collapse(training)
    minority = slice(majority, CLASSES)
    predicted = None if found.prediction is None else found.prediction.cosines
    return {
        **row,
        "minority_fit": float(found.class_accuracy[minority].mean()),
        "cosine": mean_of_pairs(found.classifier_cosines[minority, minority]),
        "mean_cosine": mean_of_pairs(found.mean_cosines[minority, minority]),
        "predicted": None if predicted is None else mean_of_pairs(predicted[minority, minority]),
        "predicted_centred": _centred_prediction(found, minority),
        "weight_energy": found.energies.weight,
        "feature_energy": found.energies.feature,
        "bias_share": found.bias_share,
        **on_test_data(*lab.logits(training), majority),
    }


def mean_of_pairs(cosines: Any) -> float | None:
    """Mean over pairs of different classes; None where a vector has vanished.

    Example:
        >>> import numpy as np
        >>> mean_of_pairs(np.array([[1, 0.5, 0.5], [0.5, 1, 0.125], [0.5, 0.125, 1]]))
        0.375
    """
    count = len(cosines)
    mean = float((cosines.sum() - cosines.trace()) / (count * (count - 1)))
    return mean if math.isfinite(mean) else None


def _centred_prediction(found: Collapse, minority: slice) -> float | None:
    """The prediction at the energies about the mean row and the mean feature."""
    from lawscope.theory.layer_peeled.peel import peel

    try:
        cosines = peel(found.training_counts, *found.centred_energies).cosines
    except LawscopeError:  # energies too large for a number, or zero
        return None
    return mean_of_pairs(cosines[minority, minority])


def on_test_data(logits: Any, labels: Any, majority: int) -> Numbers:
    """Accuracy on test data of all, by class, and of the two groups.

    Args:
        logits: of all test data, (n, K).
        labels: of the same, (n,).
        majority: K_A.
    """
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
