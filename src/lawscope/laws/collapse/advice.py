"""What a measured collapse advises: sentences that each rest on a number they quote."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeWarning
from lawscope.laws.collapse.result import Collapse
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.thresholds import collapse_floor

SHARED = 0.9  # classifiers at least this close are one
SMOOTHING = 0.1
LARGE_BIAS = 0.1
SURE = 3.0  # standard deviations
QUOTED = 0.005  # two digits of a rate are quoted


def advise_collapse(result: Collapse) -> tuple[str, ...]:
    """Return which classes share a classifier or will, what would keep them apart, the rest."""
    merged = merged_classes(result.classifier_cosines)
    doomed = [k for k, phase in enumerate(result.phases) if phase in ("collapsed", "vanished")]
    sentences = [_shares(result, group, doomed) for group in merged]
    ahead = [k for k in doomed if not any(k in group for group in merged)]
    if len(ahead) > 1:
        sentences.append(_will_share(result, ahead))
    if doomed:
        sentences += [_remedy(result, doomed), *_smoothing(result)]
    if result.verdict == "holds":
        sentences.insert(0, f"Neural collapse is there as the model predicts it: {result.reason}.")
    sentences += _head_behind(result) + _bias(result)
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


def _pairs(cosines: FloatArray, group: Sequence[int]) -> FloatArray:
    return np.asarray(cosines[np.ix_(group, group)][np.triu_indices(len(group), 1)])


def _shares(result: Collapse, group: list[int], doomed: list[int]) -> str:
    """Say which classes have one classifier now, and whether the model expects it."""
    least = _pairs(result.classifier_cosines, group).min()
    said = (
        f"{_names(result, group)} share one classifier (cosines of {least:.2f} and more); "
        f"their accuracy is {result.class_accuracy[group].mean():.0%}."
    )
    if result.predicted is None:
        return said
    if set(group) <= set(doomed):
        return f"{said} The Layer-Peeled Model predicts it for these class sizes and energies."
    expected = float(_pairs(result.predicted.cosines, group).mean())
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


def _will_share(result: Collapse, ahead: list[int]) -> str:
    """Say which classes the model merges and the network has not yet merged."""
    mean = _pairs(result.classifier_cosines, ahead).mean()
    return (
        f"{_names(result, ahead)} are about to collapse if the energies stay where they are "
        f"(E_W = {result.energies.weight:.3g}, E_H = {result.energies.feature:.3g}): their "
        f"classifiers have a mean cosine of {mean:.2f} now, and the Layer-Peeled Model merges them."
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
    if math.isnan(before) or math.isnan(smoothed.minority_cosine):
        return []
    return [
        f"Label smoothing of {SMOOTHING:g} {would}: the predicted minority cosine goes from "
        f"{before:.2f} to {smoothed.minority_cosine:.2f}."
    ]


def _head_behind(result: Collapse) -> list[str]:
    """Say so where the nearest class mean is surely right more often than the head."""
    samples = int(result.counts.sum())
    gain = (result.nearest_accuracy - result.accuracy) * samples
    if gain <= SURE * math.sqrt(max(result.nc4 * samples, 1.0)):
        return []
    return [
        f"The nearest class mean is right on {result.nearest_accuracy:.1%} of the samples, the "
        f"head on {result.accuracy:.1%}: the features are ahead of the head; train the head longer "
        "or on balanced batches."
    ]


def _bias(result: Collapse) -> list[str]:
    if result.bias_share <= LARGE_BIAS:
        return []
    return [
        f"The bias makes {result.bias_share:.0%} of the logits of the class means; NC2, NC3 and "
        "the prediction know no bias, so read them with that in mind."
    ]


def _names(result: Collapse, classes: Sequence[int], lower: bool = False) -> str:
    names = [result.class_names[k] for k in classes]
    some = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    word = ("class" if lower else "Class") + ("es" if len(names) > 1 else "")
    return f"{word} {some}"
