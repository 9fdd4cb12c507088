"""Has the head collapsed to where the Layer-Peeled Model says it goes? A rule on four numbers."""

from __future__ import annotations

import math

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.laws.base import Answer, Verdict, decide
from lawscope.laws.collapse.metrics import NC1
from lawscope.laws.collapse.result import Predicted

SPREAD = 0.1  # D/K: within-class variance a tenth of the between-class variance per direction
ANGLE = 0.1  # mean distance of cosines from the predicted
DUAL = 0.1  # distance of NC3 from the predicted: 0.1 is a cosine of 0.95
MISMATCH = 0.01  # NC4

RULE = (
    "Neural collapse holds when four things are certain: (1) NC1 in Papyan's form, D/K, is below "
    f"{SPREAD}; (2) cosines between classifiers are within {ANGLE} of those of the Layer-Peeled "
    "Model at the energies and class sizes of this network (−1/(K−1) when the classes are equally "
    f"large), in the mean over pairs; (3) NC3 is within {DUAL} of the model's; (4) NC4 is below "
    f"{MISMATCH:.0%}. For (1) and (4) the whole 95 % interval decides; (2) and (3) have no "
    "interval. It does not hold when one of them is certainly false; otherwise, or without a "
    "prediction, it cannot be told."
)


def judge_collapse(
    nc1: NC1,
    classifier_cosines: FloatArray,
    nc3: float,
    nc4: float,
    interval: dict[str, tuple[float, float]],
    predicted: Predicted | None,
) -> tuple[Verdict, str]:
    """Apply :data:`RULE`; return the verdict and the sentence behind it."""
    classes = len(classifier_cosines)
    low, high = interval.get("D", (math.nan, math.nan))
    answers = [
        _below("NC1 (D/K)", nc1.papyan, (low / classes, high / classes), SPREAD),
        _below("NC4", nc4, interval["nc4"], MISMATCH),
    ]
    if predicted is None:
        answers.append((None, "there is no prediction to hold the angles against"))
        return decide(answers)
    away, gone = _distance(classifier_cosines, predicted.cosines), abs(nc3 - predicted.nc3)
    answers += [
        _below("the cosines' distance from the predicted", away, (away, away), ANGLE),
        _below("NC3's distance from the predicted", gone, (gone, gone), DUAL),
    ]
    return decide(answers)


def _below(name: str, value: float, ends: tuple[float, float], bar: float) -> Answer:
    low, high = ends
    between = f" [{low:.3g}, {high:.3g}]" if low < high else ""
    said = f"{name} is {value:.3g}{between}"
    if high < bar:
        return True, f"{said}, below {bar:g}"
    if low >= bar:
        return False, f"{said}, not below {bar:g}"
    return None, f"{said}, which does not settle whether it is below {bar:g}"


def _distance(measured: FloatArray, predicted: FloatArray) -> float:
    """Return the mean |difference| over pairs that are defined in both."""
    pairs = np.triu_indices(len(measured), 1)
    gaps = np.abs(measured[pairs] - predicted[pairs])
    gaps = gaps[np.isfinite(gaps)]
    return float(gaps.mean()) if len(gaps) else math.nan
