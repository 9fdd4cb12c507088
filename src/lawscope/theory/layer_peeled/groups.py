"""From class counts and a loss to groups of classes that the program cannot tell apart."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lawscope.arrays import FloatArray, IntArray, refuse_masked
from lawscope.errors import LawscopeError

# Larger logits have losses like e^−400; between smaller ones the margins are lost in rounding.
LARGEST, FAINTEST = 200.0, 1e-5
# How many times as large the largest class is, at least, for a smaller one to be a minority.
CLEARLY = 1.5
# Least weight of the lightest class over that of the heaviest.
SMALLEST = 1e-100
LOSSES = ("cross_entropy", "class_weighted", "logit_adjusted", "label_smoothed", "mse")
# Which loss each setting belongs to.
LOSS_SETTINGS = {
    "smoothing": "label_smoothed", "adjustment": "logit_adjusted", "class_weights": "class_weighted"
}  # fmt: skip


@dataclass(frozen=True)
class Loss:
    """A loss by name with its setting."""

    name: str = "cross_entropy"
    smoothing: float = 0.0  # ε
    adjustment: float = 0.0  # t of softmax(z + t·log(n/N))
    class_weights: Sequence[float] | None = None  # of a sample of each class; None is 1/n_k


@dataclass(frozen=True, eq=False)
class Grouping:
    """Classes of equal weight and offset, the heaviest group first; all but the last shape (G,)."""

    counts: FloatArray  # samples of a class, times its oversampling
    sizes: FloatArray
    alpha: FloatArray  # share of the loss of one class
    offsets: FloatArray
    member: IntArray  # group of every class, shape (K,)


def check_counts(counts: ArrayLike) -> FloatArray:
    """Return class counts as floats: two or more, positive and finite."""
    refuse_masked(counts)
    try:
        found = np.asarray(counts, dtype=np.float64)
    # Numbers beyond the floats, a tensor with a gradient.
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise LawscopeError(
            "counts must be numbers, one per class, like [5000, 5000, 50]."
        ) from None
    if found.ndim != 1 or len(found) < 2:
        raise LawscopeError("counts needs two or more classes, one number per class.")
    if not (found.min() > 0 and found.max() < np.inf):
        k = int(np.flatnonzero(~(np.isfinite(found) & (found > 0)))[0])
        raise LawscopeError(
            f"The count of class {k} is {found[k]:g}; counts must be positive and finite: leave "
            "empty classes out."
        )
    return found


def check_energy(name: str, value: float) -> float:
    """Return a positive, finite energy."""
    found = check_number(name, value)
    if not (math.isfinite(found) and found > 0):
        raise LawscopeError(f"{name} is {found:g}; it must be positive, e.g. 1.0.")
    return found


def check_number(name: str, value: Any) -> float:
    """Return one number, NaN and infinity included."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise LawscopeError(f"{name} is {value!r}; it must be a number.") from None


def check_length(length: float) -> float:
    """Refuse logits of size √(E_W·E_H) whose loss or margins leave the floats."""
    if FAINTEST <= length <= LARGEST:
        return length
    why = (
        f"above {LARGEST:g} the loss is too small for a number: lower the energies."
        if length > LARGEST
        else f"below {FAINTEST:g} floats cannot tell classes apart: raise the energies."
    )
    raise LawscopeError(f"The energies allow logits of {length:.3g}; {why}")


def choose_loss(
    name: str,
    smoothing: float | None,
    adjustment: float | None,
    class_weights: Sequence[float] | None,
) -> Loss:
    """Return the loss of a name with its setting; refuse a setting of another loss."""
    if name not in LOSSES:
        near = difflib.get_close_matches(str(name), LOSSES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(LOSSES)}."
        raise LawscopeError(f"No loss is named {name!r}; {hint}")
    given = (smoothing, adjustment, class_weights)
    for value, (setting, owner) in zip(given, LOSS_SETTINGS.items(), strict=True):
        if value is not None and name != owner:
            raise LawscopeError(
                f"{setting} was given, but belongs to loss='{owner}', not to '{name}'; choose that "
                f"loss or leave {setting} out."
            )
    if name == "label_smoothed":
        eps = check_number("smoothing", 0.1 if smoothing is None else smoothing)
        if not 0 < eps < 1:
            raise LawscopeError(f"smoothing is {eps:g}; it must lie between 0 and 1, e.g. 0.1.")
        return Loss(name, smoothing=eps)
    if name == "logit_adjusted":
        t = check_number("adjustment", 1.0 if adjustment is None else adjustment)
        if not math.isfinite(t):
            raise LawscopeError(f"adjustment is {t:g}; it must be a number, e.g. 1.0.")
        return Loss(name, adjustment=t)
    if class_weights is None:
        return Loss(name)
    if not hasattr(class_weights, "__iter__"):
        raise LawscopeError(f"class_weights is {class_weights!r}; give one number per class.")
    return Loss(name, class_weights=[check_number("class_weights", w) for w in class_weights])


def find_minority(counts: FloatArray) -> IntArray:
    """Return the smallest group or, if that is one class, those below the mean count.

    Only classes of which the largest is :data:`CLEARLY` times as large or more are a minority;
    where there are none, it is all classes.

    Example:
        >>> find_minority(np.array([9.0, 9, 6, 6])), find_minority(np.array([201.0, 190, 174]))
        (array([2, 3]), array([0, 1, 2]))
    """
    rare = counts.max() >= CLEARLY * counts
    if not rare.any():
        return np.arange(len(counts))
    smallest = np.flatnonzero(counts == counts.min())
    return smallest if len(smallest) > 1 else np.flatnonzero(rare & (counts < counts.mean()))


def oversample(counts: FloatArray, rate: float | Sequence[float] | None) -> FloatArray:
    """Return counts times a rate for the smallest classes, or times one rate per class."""
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
    if loss.class_weights is not None:
        weights = np.asarray(loss.class_weights)
        if weights.shape != counts.shape or not (np.isfinite(weights) & (weights > 0)).all():
            raise LawscopeError(
                f"class_weights must be {len(counts)} positive numbers, one per class."
            )
        weight = counts * weights
    elif loss.name == "class_weighted":
        weight = np.ones_like(counts)
    # Complex numbers sort by weight, then by count; without class weights that adds nothing.
    _, first, member, classes = np.unique(
        -(weight + 1j * counts), return_index=True, return_inverse=True, return_counts=True
    )
    # As shares of the heaviest, so that neither a sum nor a ratio overflows.
    share, sizes = weight[first] / weight.max(), classes.astype(np.float64)
    if share[-1] < SMALLEST:
        raise LawscopeError(
            "The lightest class has less than a part in 10¹⁰⁰ of the heaviest; beyond a ratio of "
            "1e100 floats end: leave it out."
        )
    offsets = np.zeros_like(share)
    if loss.adjustment:
        prior = counts[first] / counts.max()
        offsets = loss.adjustment * np.log(prior / (sizes @ prior))
    return Grouping(counts[first], sizes, share / (sizes @ share), offsets, member)
