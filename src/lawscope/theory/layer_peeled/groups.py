"""From class counts and a loss to groups of classes that the program cannot tell apart."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lawscope.errors import LawscopeError

FloatArray = NDArray[np.float64]
LARGEST = 200.0  # logits beyond it have losses like e^−400
FAINTEST = 1e-5  # below it what tells classes apart is lost in rounding
SMALLEST = 1e-100  # lightest over heaviest class
LOSSES = ("cross_entropy", "class_weighted", "logit_adjusted", "label_smoothed", "mse")
SMOOTHING, ADJUSTMENT = 0.1, 1.0  # where none is given


@dataclass(frozen=True)
class Loss:
    """A loss by name with its setting.

    Attributes:
        name: one of ``LOSSES``.
        smoothing: ε of label smoothing; zero for the others.
        adjustment: t of logit adjustment, softmax(z + t·log(n/N)); zero for the others.
        class_weights: weight of a sample of each class, or None for 1/n_k.
    """

    name: str = "cross_entropy"
    smoothing: float = 0.0
    adjustment: float = 0.0
    class_weights: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class Grouping:
    """Classes of equal weight and offset, the heaviest group first.

    Attributes:
        counts: samples of a class (times its oversampling), shape (G,).
        sizes: K_g, shape (G,).
        alpha: share of the loss of one class, shape (G,).
        offsets: added to the logits before the softmax, shape (G,).
        member: group of every class, shape (K,).
    """

    counts: FloatArray
    sizes: FloatArray
    alpha: FloatArray
    offsets: FloatArray
    member: NDArray[np.int64]


def check_counts(counts: ArrayLike) -> FloatArray:
    """Class counts as floats: two or more, positive and finite."""
    try:
        found = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):  # a tensor with a gradient is the last
        raise LawscopeError(
            "counts must be numbers, one per class, like [5000, 5000, 50]."
        ) from None
    if found.ndim != 1 or len(found) < 2:
        raise LawscopeError("counts needs two or more classes, one number per class.")
    # The ufuncs themselves: half the time of found.min() on a few classes.
    if not (np.minimum.reduce(found) > 0 and np.maximum.reduce(found) < np.inf):
        k = int(np.flatnonzero(~(np.isfinite(found) & (found > 0)))[0])
        raise LawscopeError(
            f"The count of class {k} is {found[k]:g}; counts must be positive and finite: leave "
            "empty classes out."
        )
    return found


def check_energy(name: str, value: float) -> float:
    """A positive, finite energy."""
    found = check_number(name, value)
    if not (math.isfinite(found) and found > 0):
        raise LawscopeError(f"{name} is {found:g}; it must be positive, e.g. 1.0.")
    return found


def check_number(name: str, value: Any) -> float:
    """One number, NaN and infinity included."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise LawscopeError(f"{name} is {value!r}; it must be a number.") from None


def check_length(length: float) -> float:
    """The size of logits, √(E_W·E_H), refused where the loss or the margins leave the floats."""
    if length > LARGEST:
        raise LawscopeError(
            f"The energies allow logits of {length:.3g}; above {LARGEST:g} the loss is too "
            "small for a number: lower the energies."
        )
    if length < FAINTEST:
        raise LawscopeError(
            f"The energies allow logits of {length:.3g}; below {FAINTEST:g} classes cannot be told "
            "apart in floats: raise the energies."
        )
    return length


def choose_loss(
    name: str,
    smoothing: float | None,
    adjustment: float | None,
    class_weights: Sequence[float] | None,
) -> Loss:
    """The loss of a name with its setting; a setting of another loss is an error."""
    if name not in LOSSES:
        near = difflib.get_close_matches(str(name), LOSSES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(LOSSES)}."
        raise LawscopeError(f"No loss is named {name!r}; {hint}")
    _check_belongs("smoothing", smoothing, name, "label_smoothed")
    _check_belongs("adjustment", adjustment, name, "logit_adjusted")
    _check_belongs("class_weights", class_weights, name, "class_weighted")
    if name == "label_smoothed":
        eps = check_number("smoothing", SMOOTHING if smoothing is None else smoothing)
        if not 0 < eps < 1:
            raise LawscopeError(f"smoothing is {eps:g}; it must lie between 0 and 1, e.g. 0.1.")
        return Loss(name, smoothing=eps)
    if name == "logit_adjusted":
        t = check_number("adjustment", ADJUSTMENT if adjustment is None else adjustment)
        if not math.isfinite(t):
            raise LawscopeError(f"adjustment is {t:g}; it must be a number, e.g. 1.0.")
        return Loss(name, adjustment=t)
    if class_weights is None:
        return Loss(name)
    if not hasattr(class_weights, "__iter__"):
        raise LawscopeError(f"class_weights is {class_weights!r}; give one number per class.")
    return Loss(name, class_weights=tuple(check_number("class_weights", w) for w in class_weights))


def _check_belongs(setting: str, value: Any, name: str, owner: str) -> None:
    if value is not None and name != owner:
        raise LawscopeError(
            f"{setting} was given, but belongs to loss='{owner}', not to '{name}'; choose that "
            f"loss or leave {setting} out."
        )


def minority_of(counts: FloatArray) -> NDArray[np.int64]:
    """The minority: the smallest group or, if that is one class, those below the mean count."""
    smallest = np.flatnonzero(counts == counts.min())
    return smallest if len(smallest) > 1 else np.flatnonzero(counts < counts.mean())


def oversampled(counts: FloatArray, rate: float | Sequence[float] | None) -> FloatArray:
    """Counts times the oversampling: a rate for the smallest classes, or one rate per class."""
    if rate is None:
        return counts
    try:
        rates = np.asarray(rate, dtype=np.float64)
    except (TypeError, ValueError):
        raise LawscopeError(
            f"oversampling is {rate!r}; give one rate for the smallest classes or one per class."
        ) from None
    if rates.ndim == 0:
        rates = np.where(counts == counts.min(), rates, 1.0)
    if rates.shape != counts.shape:
        raise LawscopeError(
            f"oversampling has {rates.size} rates for {counts.size} classes; give one rate for "
            "the smallest classes or one per class."
        )
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise LawscopeError("oversampling rates must be positive numbers, e.g. 10.")
    return np.asarray(counts * rates)


def group(counts: FloatArray, loss: Loss) -> Grouping:
    """Group the classes that have equal weight and offset.

    Class weights normalise as torch's ``weight=`` does: Σ w_k·n_k·ℓ_k / Σ w_k·n_k.
    """
    weight = counts
    if loss.name == "class_weighted":
        weights = 1 / counts if loss.class_weights is None else np.asarray(loss.class_weights)
        if weights.shape != counts.shape or not (np.isfinite(weights) & (weights > 0)).all():
            raise LawscopeError(
                f"class_weights must be {len(counts)} positive numbers, one per class."
            )
        weight = counts * weights
        if loss.class_weights is None:
            weight = np.ones_like(counts)
    heavy, common = weight.tolist(), counts.tolist()
    keys = list(heavy)
    if loss.adjustment or loss.name == "class_weighted":
        keys = list(zip(heavy, common, strict=True))
    alike: dict[Any, list[int]] = {}
    for k, key in enumerate(keys):
        alike.setdefault(key, []).append(k)
    groups = [alike[key] for key in sorted(alike, reverse=True)]
    count = np.array([common[classes[0]] for classes in groups])
    sizes = np.array([float(len(classes)) for classes in groups])
    # As shares of the heaviest, so that neither a sum nor a ratio overflows.
    share = [heavy[classes[0]] / heavy[groups[0][0]] for classes in groups]
    if share[-1] < SMALLEST:
        raise LawscopeError(
            "The lightest class has less than a part in 10¹⁰⁰ of the heaviest; beyond a ratio of "
            "1e100 floats end: leave it out."
        )
    total = sum(part * len(classes) for part, classes in zip(share, groups, strict=True))
    offsets = np.zeros(len(groups))
    if loss.adjustment:
        prior = count / counts.max()
        offsets = loss.adjustment * np.log(prior / (sizes @ prior))
    member = [0] * len(keys)
    for g, classes in enumerate(groups):
        for k in classes:
            member[k] = g
    alpha = np.array([part / total for part in share])
    return Grouping(count, sizes, alpha, offsets, np.array(member))
