"""What every loader hands over: images and labels, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lawscope.arrays import IntArray
from lawscope.errors import LawscopeError

if TYPE_CHECKING:
    import torch

Images = NDArray[Any]
Labels = IntArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled examples, split into those to train on and those to test on.

    Attributes:
        name: what the data is called in tables and reports.
        x_train: uint8 pixels of shape (n, H, W) or (n, H, W, 3); or floating-point inputs of shape
            (n, …), which reach the network as they are.
        y_train: class of each training example, int64 of shape (n,), counted from 0.
        x_test: like ``x_train``; of length 0 when there is no test set.
        y_test: like ``y_train``.
        class_names: one name per class, in the order of the labels.
    """

    name: str
    x_train: Images
    y_train: Labels
    x_test: Images
    y_test: Labels
    class_names: tuple[str, ...]


def make_dataset(
    name: str,
    origin: str,
    train: tuple[NDArray[Any], NDArray[Any]],
    test: tuple[NDArray[Any], NDArray[Any]] | None = None,
    class_names: tuple[str, ...] | None = None,
) -> Dataset:
    """Check shapes, types, lengths and labels, and return them as a ``Dataset``."""
    x_train, y_train = _check_split(train, f"{origin} (train)")
    if len(y_train) == 0:
        raise LawscopeError(f"{origin} holds no examples: hand over at least one per class")
    if test is None:
        test = x_train[:0], y_train[:0]
    x_test, y_test = _check_split(test, f"{origin} (test)")
    if (x_test.shape[1:], x_test.dtype) != (x_train.shape[1:], x_train.dtype):
        raise LawscopeError(
            f"{origin} has training examples of shape {x_train.shape[1:]} and type "
            f"{x_train.dtype}, test examples of shape {x_test.shape[1:]} and type {x_test.dtype}: "
            "make them alike"
        )
    highest = int(max(y_train.max(), y_test.max(initial=0)))
    classes = len(y_train) if class_names is None else len(class_names)
    if highest >= classes:
        raise LawscopeError(
            f"{origin} has the label {highest}, but no more than {classes} classes: "
            "number the classes 0, 1, 2, …"
        )
    if class_names is None:
        class_names = tuple(str(label) for label in range(highest + 1))
    return Dataset(name, x_train, y_train, x_test, y_test, class_names)


def _check_split(
    split: tuple[NDArray[Any], NDArray[Any]], origin: str
) -> tuple[NDArray[Any], Labels]:
    """Return one split, images as (n, H, W[, 3]) and labels in int64."""
    x, y = split
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise LawscopeError(
            f"{origin} has labels of shape {y.shape} and type {y.dtype}: "
            "give one integer per example, shape (n,)"
        )
    if y.min(initial=0) < 0:
        raise LawscopeError(
            f"{origin} has the label {y.min()}: number the classes 0, 1, 2, … and drop "
            "examples without a class"
        )
    if x.ndim == 0 or len(x) != len(y):
        raise LawscopeError(
            f"{origin} has examples of shape {x.shape} and {len(y)} labels: "
            "give as many labels as examples"
        )
    return _check_inputs(x, origin), y.astype(np.int64)


def _check_inputs(x: NDArray[Any], origin: str) -> Images:
    """Return pixels as (n, H, W[, 3]), or finite floating-point inputs of any shape (n, …)."""
    if x.dtype == np.uint8 and x.ndim == 4 and x.shape[3] == 1:
        x = x[..., 0]
    _check_kind(x, f"{origin} has examples of shape {x.shape} and type {x.dtype}")
    if not are_pixels(x) and not np.isfinite(x).all():
        raise LawscopeError(f"{origin} has inputs that are infinite or not numbers: drop them")
    return x


def _check_kind(x: NDArray[Any], wrong: str) -> None:
    if not are_pixels(x) and not (np.issubdtype(x.dtype, np.floating) and x.ndim >= 2):
        raise LawscopeError(
            f"{wrong}: give uint8 pixels (n, H, W) or (n, H, W, 3), or floating-point inputs (n, …)"
        )


def are_pixels(x: NDArray[Any]) -> bool:
    """Return whether this is uint8 of shape (n, H, W) or (n, H, W, 3)."""
    return x.dtype == np.uint8 and (x.ndim == 3 or (x.ndim == 4 and x.shape[3] == 3))


def as_inputs(x: Images, flatten: bool = True) -> torch.Tensor:
    """Return pixels as float32 in [−1, 1], channels first: x / 127.5 − 1.

    Floating-point inputs keep their values and, unless flattened, their shape.
    """
    import torch

    _check_kind(x, f"examples of shape {x.shape} and type {x.dtype} are not inputs")
    if are_pixels(x):
        x = x[:, None] if x.ndim == 3 else np.moveaxis(x, 3, 1)
    inputs = torch.tensor(np.ascontiguousarray(x), dtype=torch.float32)
    if x.dtype == np.uint8:
        inputs.div_(127.5).sub_(1.0)
    return inputs.flatten(1) if flatten else inputs
