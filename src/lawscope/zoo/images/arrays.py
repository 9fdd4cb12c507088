"""What every loader hands over: images and labels, checked once; and numpy's .npz files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lawscope.arrays import IntArray, as_native
from lawscope.errors import LawscopeError
from lawscope.lazy import torch

Images = NDArray[Any]
Labels = IntArray
Split = tuple[NDArray[Any], NDArray[Any]]
SPLIT_KEYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled examples, split into those to train on and those to test on, which may be none.

    Examples are uint8 pixels of shape (n, H, W) or (n, H, W, 3), or floating-point inputs of shape
    (n, …), which reach the network as they are; labels are int64 of shape (n,), counted from 0.
    """

    name: str  # what the data is called in tables and reports
    x_train: Images
    y_train: Labels
    x_test: Images
    y_test: Labels
    class_names: tuple[str, ...]  # in the order of the labels


def make_dataset(
    name: str,
    origin: str,
    train: Split,
    test: Split | None = None,
    class_names: tuple[str, ...] | None = None,
) -> Dataset:
    """Check shapes, types, lengths and labels, and return them as a ``Dataset``."""
    x_train, y_train = _check_split(train, f"{origin} (train)")
    if len(y_train) == 0:
        raise LawscopeError(f"{origin} holds no examples: hand over at least one per class")
    x_test, y_test = _check_split(test or (x_train[:0], y_train[:0]), f"{origin} (test)")
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
    names = class_names or tuple(str(label) for label in range(highest + 1))
    return Dataset(name, x_train, y_train, x_test, y_test, names)


def _check_split(split: Split, origin: str) -> tuple[Images, Labels]:
    """Return pixels as (n, H, W[, 3]), or finite floating-point inputs (n, …); labels in int64."""
    x, y = split
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise LawscopeError(
            f"{origin} has labels of shape {y.shape} and type {y.dtype}: "
            "give one integer per example, shape (n,)"
        )
    if y.min(initial=0) < 0 or y.max(initial=0) >= 2**63:
        wrong = y.min() if y.min() < 0 else y.max()
        raise LawscopeError(
            f"{origin} has the label {wrong}: number the classes 0, 1, 2, … and drop "
            "examples without a class"
        )
    if x.ndim == 0 or len(x) != len(y):
        raise LawscopeError(
            f"{origin} has examples of shape {x.shape} and {len(y)} labels: "
            "give as many labels as examples"
        )
    if x.dtype == np.uint8 and x.ndim == 4 and x.shape[3] == 1:
        x = x[..., 0]
    _check_kind(x, f"{origin} has examples of shape {x.shape} and type {x.dtype}")
    if not are_pixels(x) and not np.isfinite(x).all():
        raise LawscopeError(f"{origin} has inputs that are infinite or not numbers: drop them")
    return x, y.astype(np.int64)


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
    _check_kind(x, f"examples of shape {x.shape} and type {x.dtype} are not inputs")
    if are_pixels(x):
        x = x[:, None] if x.ndim == 3 else np.moveaxis(x, 3, 1)
    inputs = torch.tensor(as_native(np.ascontiguousarray(x)), dtype=torch.float32)
    if x.dtype == np.uint8:
        inputs.div_(127.5).sub_(1.0)
    return inputs.flatten(1) if flatten else inputs


def load_arrays(
    path: str | Path, name: str | None = None, class_names: tuple[str, ...] | None = None
) -> Dataset:
    """Read a dataset, named after its file by default, from one ``.npz`` file.

    It holds the arrays ``x`` and ``y``, or ``x_train`` and ``y_train`` and, where there is a test
    set, ``x_test`` and ``y_test``; shapes and types as in ``Dataset``.
    """
    path = Path(path).expanduser()
    arrays, present = read_npz(path, ("x", "y", *SPLIT_KEYS))
    wanted = ["x_train", "y_train"] if set(SPLIT_KEYS) & set(present) else ["x", "y"]
    if {"x_test", "y_test"} & set(present):
        wanted += ["x_test", "y_test"]
    if missing := [key for key in wanted if key not in arrays]:
        raise LawscopeError(
            f"{path} lacks the array {' and '.join(missing)} (it holds "
            f"{', '.join(present) or 'nothing'}): "
            "save x and y, or x_train, y_train, x_test and y_test, with numpy.savez"
        )
    x, y, *test = (arrays[key] for key in wanted)
    split = (test[0], test[1]) if test else None
    return make_dataset(name or path.stem, str(path), (x, y), split, class_names)


def read_npz(path: Path, keys: Sequence[str]) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return those of the arrays ``keys`` that an ``.npz`` file holds, and the names of all.

    Nothing in the file is executed, and other arrays are not read.
    """
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            present = [name.removesuffix(".npy") for name in archive.namelist()]
        with path.open("rb") as file, np.load(file, allow_pickle=False) as loaded:
            for key in (key for key in keys if key in present):
                arrays[key] = np.asarray(loaded[key])
    except FileNotFoundError as error:
        raise LawscopeError(f"{path} does not exist: check the path") from error
    except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise LawscopeError(
                f"{path} holds Python objects in the array {key}, which could run code when read: "
                "save numbers of one shape and type instead"
            ) from error
        raise LawscopeError(
            f"{path} cannot be read as an .npz file ({error}): "
            "it may be cut short; save it again with numpy.savez"
        ) from error
    return arrays, present
