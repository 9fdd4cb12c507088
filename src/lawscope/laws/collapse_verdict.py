"""Has the head collapsed to where the Layer-Peeled Model says it goes? A rule on four numbers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lawscope.laws.collapse_metrics import NC1
from lawscope.laws.collapse_result import Predicted
from lawscope.laws.separation_result import Verdict

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
    classifier_cosines: NDArray[np.float64],
    nc3: float,
    nc4: float,
    interval: dict[str, tuple[float, float]],
    predicted: Predicted | None,
) -> tuple[Verdict, str]:
    """Apply :data:`RULE`; the verdict and the sentence behind it."""
    classes = len(classifier_cosines)
    ends = interval.get("D", (math.nan, math.nan))
    answers = [
        _below("NC1 (D/K)", nc1.papyan, (ends[0] / classes, ends[1] / classes), SPREAD),
        _below("NC4", nc4, interval["nc4"], MISMATCH),
    ]
    if predicted is not None:
        away = _distance(classifier_cosines, predicted.cosines)
        angle, dual = (
            "the cosines' distance from the predicted",
            "NC3's distance from the predicted",
        )
        answers.append(_below(angle, away, (away, away), ANGLE))
        gone = abs(nc3 - predicted.nc3)
        answers.append(_below(dual, gone, (gone, gone), DUAL))
    for certain, sentence in answers:
        if certain is False:
            return "does not hold", sentence
    for certain, sentence in answers:
        if certain is None:
            return "cannot be told", sentence
    if predicted is None:
        return "cannot be told", "there is no prediction to hold the angles against"
    return "holds", "; ".join(sentence for _, sentence in answers)


def _below(
    name: str, value: float, ends: tuple[float, float], bar: float
) -> tuple[bool | None, str]:
    """Is it certainly below, certainly not, or open?"""
    low, high = ends
    between = f" [{low:.3g}, {high:.3g}]" if low < high else ""
    said = f"{name} is {value:.3g}{between}"
    if high < bar:
        return True, f"{said}, below {bar:g}"
    if low >= bar:
        return False, f"{said}, not below {bar:g}"
    return None, f"{said}, which does not settle whether it is below {bar:g}"


def _distance(measured: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """Mean |difference| over pairs that are defined in both."""
    pairs = np.triu_indices(len(measured), 1)
    gaps = np.abs(measured[pairs] - predicted[pairs])
    gaps = gaps[np.isfinite(gaps)]
    return float(gaps.mean()) if len(gaps) else math.nan
