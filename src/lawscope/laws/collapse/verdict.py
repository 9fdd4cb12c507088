"""Has the head collapsed to where the Layer-Peeled Model says it goes, and what to do about it?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeWarning
from lawscope.laws.base import Answer, Verdict, decide
from lawscope.laws.collapse.metrics import NC1, pairs_of
from lawscope.laws.collapse.result import Collapse, Predicted
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.thresholds import collapse_floor

SPREAD = 0.1  # D/K: within-class variance a tenth of the between-class variance per direction
ANGLE = 0.1  # mean distance of cosines from the predicted
DUAL = 0.1  # distance of NC3 from the predicted: 0.1 is a cosine of 0.95
MISMATCH = 0.01  # NC4
SHARED = 0.9  # classifiers at least this close are one
SMOOTHING = 0.1
LARGE_BIAS = 0.1
SURE = 3.0  # standard deviations
QUOTED = 0.005  # two digits of a rate are quoted

RULE = (
    "Neural collapse holds when four things are certain: (1) NC1 in Papyan's form, D/K, is below "
    f"{SPREAD}; (2) cosines between classifiers are within {ANGLE} of those of the Layer-Peeled "
    "Model at the energies and class sizes of this network (−1/(K−1) when the classes are equally "
    f"large), in the mean over pairs; (3) NC3 is within {DUAL} of the model's; (4) NC4 is below "
    f"{MISMATCH:.0%}. Of (4) the whole 95 % interval decides, the others are of these "
    "samples. It does not hold when one of them is certainly false; otherwise, or without a "
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
    answers = [
        _below("NC1 (D/K)", nc1.papyan, (nc1.papyan, nc1.papyan), SPREAD),
        _below("NC4", nc4, interval["nc4"], MISMATCH),
    ]
    if predicted is None:
        answers.append((None, "there is no prediction to hold the angles against"))
        return decide(answers)
    gaps = np.abs(pairs_of(classifier_cosines) - pairs_of(predicted.cosines))
    gaps = gaps[np.isfinite(gaps)]
    away = float(gaps.mean()) if len(gaps) else math.nan
    gone = abs(nc3 - predicted.nc3)
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


def advise_collapse(result: Collapse) -> tuple[str, ...]:
    """Return which classes share a classifier or will, what would keep them apart, the rest."""
    merged = merged_classes(result.classifier_cosines)
    doomed = [k for k, phase in enumerate(result.phases) if phase in ("collapsed", "vanished")]
    sentences = [_shares(result, group, doomed) for group in merged]
    ahead = [k for k in doomed if not any(k in group for group in merged)]
    if len(ahead) > 1:
        mean = pairs_of(result.classifier_cosines, ahead).mean()
        sentences.append(
            f"{_names(result, ahead)} are about to collapse if the energies stay where they are "
            f"(E_W = {result.energies.weight:.3g}, E_H = {result.energies.feature:.3g}): their "
            f"classifiers have a mean cosine of {mean:.2f} now, and the Layer-Peeled Model merges "
            "them."
        )
    if doomed:
        sentences += [_remedy(result, doomed), *_smoothing(result)]
    if result.verdict == "holds":
        sentences.insert(0, f"Neural collapse is there as the model predicts it: {result.reason}.")
    samples = int(result.counts.sum())
    gain = (result.nearest_accuracy - result.accuracy) * samples
    if gain > SURE * math.sqrt(max(result.nc4 * samples, 1.0)):
        sentences.append(
            f"The nearest class mean is right on {result.nearest_accuracy:.1%} of the samples, the "
            f"head on {result.accuracy:.1%}: the features are ahead of the head; train the head "
            "longer or on balanced batches."
        )
    if result.bias_share > LARGE_BIAS:
        sentences.append(
            f"The bias makes {result.bias_share:.0%} of the logits of the class means; NC2, NC3 "
            "and the prediction know no bias, so read them with that in mind."
        )
    if result.no_prediction:
        sentences.append(f"There is no prediction to compare with: {result.no_prediction}")
    if not sentences:
        sentences.append(
            f"Neural collapse is not complete, and no class has merged: {result.reason}."
        )
    return tuple(sentences)


def merged_classes(cosines: FloatArray) -> list[list[int]]:
    """Return groups of two or more classes linked by cosines of at least :data:`SHARED`."""
    from scipy.sparse.csgraph import connected_components

    _, member = connected_components(np.nan_to_num(cosines, nan=-1.0) >= SHARED, directed=False)
    groups = [np.flatnonzero(member == g).tolist() for g in np.unique(member)]
    return [group for group in groups if len(group) > 1]


def _shares(result: Collapse, group: list[int], doomed: list[int]) -> str:
    """Say which classes have one classifier now, and whether the model expects it."""
    least = pairs_of(result.classifier_cosines, group).min()
    said = (
        f"{_names(result, group)} share one classifier (cosines of {least:.2f} and more); "
        f"their accuracy is {result.class_accuracy[group].mean():.0%}."
    )
    if result.predicted is None:
        return said
    if set(group) <= set(doomed):
        return f"{said} The Layer-Peeled Model predicts it for these class sizes and energies."
    expected = float(pairs_of(result.predicted.cosines, group).mean())
    if math.isnan(expected):
        return said
    said += f" The Layer-Peeled Model gives them a mean cosine of {expected:.2f}"
    counts = result.training_counts
    if set(group) <= set(result.minority.tolist()) and counts.min() < counts.max():
        return (
            f"{said}, so the network has gone further than it; as the smallest classes they would "
            f"gain from being sampled more often, up to {counts.max() / counts[group].min():.3g} "
            "times as often for equal shares."
        )
    return (
        f"{said}: class sizes do not explain it, so look at whether their labels or inputs can be "
        "distinguished."
    )


def _remedy(result: Collapse, doomed: Sequence[int]) -> str:
    """Name the least oversampling, or class weight, that keeps them apart."""
    counts = result.training_counts
    floor = collapse_floor(counts, *result.energies, precision=QUOTED)
    rates = np.maximum(1.0, floor / counts)[list(doomed)]
    low, high = f"{rates.min():.2g}", f"{rates.max():.2g}"
    often = low if low == high else f"{low} to {high}"
    return (
        f"At these energies classes collapse from a ratio of {counts.max() / floor:.3g} to the "
        f"largest on, below {floor:.4g} samples; sample {_names(result, doomed, lower=True)} over "
        f"{often} times as often, or weight their loss by as much "
        "(lawscope.oversampling_weights)."
    )


def _smoothing(result: Collapse) -> list[str]:
    """Say what label smoothing would do to the minority, where its cosine is defined."""
    before = math.nan if result.predicted is None else result.predicted.minority_cosine.classifiers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LawscopeWarning)  # the prediction has warned already
        smoothed = peel(
            result.training_counts, *result.energies, loss="label_smoothed", smoothing=SMOOTHING
        )
    apart = all(group.phase == "separated" for group in smoothed.groups)
    would = "would keep all classes apart" if apart else "would not keep them apart"
    if math.isnan(before + smoothed.minority_cosine):
        return []
    return [
        f"Label smoothing of {SMOOTHING:g} {would}: the predicted minority cosine goes from "
        f"{before:.2f} to {smoothed.minority_cosine:.2f}."
    ]


def _names(result: Collapse, classes: Sequence[int], lower: bool = False) -> str:
    names = [result.class_names[k] for k in classes]
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    word = ("class" if lower else "Class") + "es" * (len(names) > 1)
    return f"{word} {', '.join(names[:6])}{more}"
