"""Labelled arrays in numpy's .npz files."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError
from lawscope.zoo.arrays import Dataset, checked_dataset

_DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error)
SPLIT_KEYS = ("x_train", "y_train", "x_test", "y_test")


def load_arrays(path: str | Path) -> Dataset:
    """Read a dataset of your own from one ``.npz`` file.

    Args:
        path: file with the arrays ``x`` and ``y``, or ``x_train`` and ``y_train`` and, where there
            is a test set, ``x_test`` and ``y_test``; shapes and types as in ``Dataset``.

    Returns:
        The dataset, named after the file, with its labels in digits for class names.

    Raises:
        LawscopeError: when the file is absent, damaged, lacks an array, holds Python objects, or
            its arrays do not fit together.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = Path(folder.name) / "mine.npz"
        >>> np.savez(file, x=np.zeros((6, 4, 4), np.uint8), y=np.arange(6) % 2)
        >>> load_arrays(file).x_train.shape
        (6, 4, 4)
        >>> folder.cleanup()
    """
    path = Path(path).expanduser()
    arrays = read_npz(path, ("x", "y", *SPLIT_KEYS))
    train_keys = SPLIT_KEYS[:2] if any(key in arrays for key in SPLIT_KEYS) else ("x", "y")
    test_keys = SPLIT_KEYS[2:] if any(key in arrays for key in SPLIT_KEYS[2:]) else ()
    missing = [key for key in (*train_keys, *test_keys) if key not in arrays]
    if missing:
        present = ", ".join(npz_keys(path)) or "nothing"
        raise LawscopeError(
            f"{path} lacks the array {' and '.join(missing)} (it holds {present}): "
            "save x and y, or x_train, y_train, x_test and y_test, with numpy.savez"
        )
    x_train, y_train = (arrays[key] for key in train_keys)
    test = (arrays["x_test"], arrays["y_test"]) if test_keys else None
    return checked_dataset(path.stem, str(path), (x_train, y_train), test)


def npz_keys(path: Path) -> list[str]:
    """Names of the arrays in an ``.npz`` file, without reading them.

    Args:
        path: the file.

    Returns:
        The names, in the order of the file.

    Raises:
        LawscopeError: when the file cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except (OSError, *_DAMAGED_ZIP) as error:
        raise _unreadable(path, error) from error


def read_npz(path: Path, keys: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Those of the arrays ``keys`` that an ``.npz`` file holds; nothing in it is executed.

    Args:
        path: the file.
        keys: arrays to read.

    Returns:
        The arrays found, by name.

    Raises:
        LawscopeError: when the file is absent, damaged or holds Python objects.
    """
    present = npz_keys(path)
    arrays = {}
    with path.open("rb") as file:
        for key in keys:
            if key in present:
                arrays[key] = _read_one(path, file, key)
    return arrays


def _read_one(path: Path, file: BinaryIO, key: str) -> NDArray[Any]:
    """One array of an open ``.npz`` file."""
    file.seek(0)
    try:
        with np.load(file, allow_pickle=False) as archive:
            return np.asarray(archive[key])
    except (OSError, EOFError, RuntimeError, ValueError, *_DAMAGED_ZIP) as error:
        if "allow_pickle" in str(error):
            raise LawscopeError(
                f"{path} holds Python objects in the array {key}, which could run code when read: "
                "save numbers of one shape and type instead"
            ) from error
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> LawscopeError:
    if not path.exists():
        return LawscopeError(f"{path} does not exist: check the path")
    return LawscopeError(
        f"{path} cannot be read as an .npz file ({error}): "
        "it may be cut short; save it again with numpy.savez"
    )
