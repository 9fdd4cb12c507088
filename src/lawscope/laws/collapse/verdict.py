"""Has the head collapsed to where the Layer-Peeled Model says it goes, and what to do about it?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.formatting import number, percent
from lawscope.laws.base import Answer, Verdict, decide
from lawscope.laws.collapse.metrics import NC1, pairs_of
from lawscope.laws.collapse.result import Collapse, Predicted
from lawscope.theory.layer_peeled.peel import peel
from lawscope.theory.layer_peeled.peeled import Peeled
from lawscope.theory.layer_peeled.thresholds import collapse_floor

SPREAD = 0.1  # D/K: within-class variance a tenth of the between-class variance per direction
ANGLE = 0.1  # mean distance of cosines from the predicted
DUAL = 0.1  # distance of NC3 from the predicted: 0.1 is a cosine of 0.95
MISMATCH = 0.01  # NC4
SHARED = 0.9  # classifiers at least this close are one
SMOOTHING = 0.1
CLEARLY = 1.5  # times as large as the classes that are called rare
LEAST_RATE = 1.1  # of oversampling that is worth a sentence
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
        _below("NC4", nc4, interval["nc4"], MISMATCH, percent),
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


def _below(
    name: str,
    value: float,
    ends: tuple[float, float],
    bar: float,
    write: Callable[[float], str] = number,
) -> Answer:
    low, high = ends
    said = f"{name} is {write(value)}" + (f" [{write(low)}, {write(high)}]" if low < high else "")
    limit = f"{bar:.0%}" if write is percent else f"{bar:g}"
    if high < bar:
        return True, f"{said}, below {limit}"
    if low >= bar:
        return False, f"{said}, not below {limit}"
    return None, f"{said}, which does not settle whether it is below {limit}"


def advise_collapse(result: Collapse) -> tuple[str, ...]:
    """Say how to keep classes apart that have merged or will, in a network that has learned.

    Every sentence begins with what to do; the rules stand in docs/advice.md.
    """
    if not result.learned:
        return ()
    counts = result.training_counts
    rare = set(np.flatnonzero(counts.max() >= CLEARLY * counts).tolist())
    expected = _predict(result)
    phases = {} if expected is None else {group.count: group.phase for group in expected.groups}
    doomed = [k for k in sorted(rare) if phases.get(counts[k]) in ("collapsed", "vanished")]
    sentences = [*_oversample(result, doomed), *_smoothing(result, doomed)]
    for group in merged_classes(result.classifier_cosines):
        if not set(group) <= set(doomed):
            sentences.append(_separate(result, group, set(group) <= rare))
    sentences += _train_head(result)
    return tuple(sentences[:3])


def _predict(result: Collapse, **loss: Any) -> Peeled | None:
    """Return the optimum at the energies of what tells classes apart.

    The mean feature and the mean classifier give all classes the same logit; with them in the
    energies the model expects classes to stay apart that merge in trained networks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LawscopeWarning)  # the prediction has warned already
        try:
            return peel(result.training_counts, *result.centred_energies, **loss)
        except LawscopeError:  # energies without an optimum
            return None


def merged_classes(cosines: FloatArray) -> list[list[int]]:
    """Return groups of two or more classes linked by cosines of at least :data:`SHARED`."""
    from scipy.sparse.csgraph import connected_components

    _, member = connected_components(np.nan_to_num(cosines, nan=-1.0) >= SHARED, directed=False)
    groups = [np.flatnonzero(member == g).tolist() for g in np.unique(member)]
    return [group for group in groups if len(group) > 1]


def _oversample(result: Collapse, doomed: Sequence[int]) -> list[str]:
    """Name the least oversampling, or class weight, that keeps classes apart which merge."""
    if len(doomed) < 2:
        return []
    counts = result.training_counts
    energies = result.centred_energies
    floor = collapse_floor(counts, *energies, precision=QUOTED)
    rates = np.maximum(1.0, floor / counts)[list(doomed)]
    low, high = f"{rates.min():.2g}", f"{rates.max():.2g}"
    if rates.min() < LEAST_RATE:
        return []
    mean = float(pairs_of(result.classifier_cosines, doomed).mean())
    now = "share one classifier" if mean >= SHARED else "are about to share one classifier"
    return [
        f"Sample {_names(result, doomed)} over {low if low == high else f'{low} to {high}'} times "
        "as often, or weight their loss by as much (lawscope.oversampling_weights): they "
        f"{now} (mean cosine {mean:.2f}, accuracy {result.class_accuracy[list(doomed)].mean():.0%})"
        f", as the Layer-Peeled Model predicts for classes below {floor:.3g} samples at the "
        f"centred energies of this network (E_W = {energies.weight:.3g}, "
        f"E_H = {energies.feature:.3g})."
    ]


def _smoothing(result: Collapse, doomed: Sequence[int]) -> list[str]:
    """Advise label smoothing where it would keep all classes apart."""
    if len(doomed) < 2:
        return []
    smoothed = _predict(result, loss="label_smoothed", smoothing=SMOOTHING)
    if smoothed is None or any(group.phase != "separated" for group in smoothed.groups):
        return []
    cosine = float(pairs_of(smoothed.cosines, doomed).mean())
    return [
        f"Train with label smoothing of {SMOOTHING:g} where sampling cannot be changed: by the "
        f"Layer-Peeled Model it keeps them apart, at a mean cosine of {cosine:.2f}."
    ]


def _separate(result: Collapse, group: list[int], rare: bool) -> str:
    """Say what to do about classes that share a classifier though the model keeps them apart."""
    least, counts = pairs_of(result.classifier_cosines, group).min(), result.training_counts
    said = (
        f"share one classifier (cosines of {least:.2f} and more, accuracy "
        f"{result.class_accuracy[group].mean():.0%})"
    )
    if rare:
        return (
            f"Sample {_names(result, group)} more often, up to "
            f"{counts.max() / counts[group].min():.3g} times for equal shares: they {said} though "
            "the Layer-Peeled Model would still keep them apart."
        )
    return (
        f"Check whether labels or inputs tell {_names(result, group)} apart: they {said}, which "
        "class sizes do not explain."
    )


def _train_head(result: Collapse) -> list[str]:
    """Advise on the head where the nearest class mean is surely right more often.

    Class means of few samples fit those samples themselves, hence D must be settled.
    """
    samples, population = int(result.counts.sum()), result.population
    gain = (result.nearest_accuracy - result.accuracy) * samples
    if population is None or not population.settled.all():
        return []
    if gain <= SURE * math.sqrt(max(result.nc4 * samples, 1.0)):
        return []
    return [
        "Train the head longer, or on balanced batches: the nearest class mean is right on "
        f"{result.nearest_accuracy:.1%} of the samples, the head on {result.accuracy:.1%}."
    ]


def find_facts(result: Collapse) -> list[str]:
    """Return what was seen beside the verdict and asks for nothing."""
    facts = []
    for group in merged_classes(result.classifier_cosines):
        least = pairs_of(result.classifier_cosines, group).min()
        facts.append(
            f"The classifiers of {_names(result, group)} have merged (cosines of {least:.2f} and "
            f"more); the accuracy of these classes is {result.class_accuracy[group].mean():.0%}."
        )
    return facts


def _names(result: Collapse, classes: Sequence[int]) -> str:
    names = [result.class_names[k] for k in classes]
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"class{'es' * (len(names) > 1)} {', '.join(names[:6])}{more}"
