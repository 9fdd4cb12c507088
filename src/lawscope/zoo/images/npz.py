"""Labelled arrays in numpy's .npz files."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError
from lawscope.zoo.images.arrays import Dataset, make_dataset

_DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error)
SPLIT_KEYS = ("x_train", "y_train", "x_test", "y_test")


def load_arrays(
    path: str | Path, name: str | None = None, class_names: tuple[str, ...] | None = None
) -> Dataset:
    """Read a dataset, named after its file by default, from one ``.npz`` file.

    It holds the arrays ``x`` and ``y``, or ``x_train`` and ``y_train`` and, where there is a test
    set, ``x_test`` and ``y_test``; shapes and types as in ``Dataset``.
    """
    path = Path(path).expanduser()
    arrays = read_npz(path, ("x", "y", *SPLIT_KEYS))
    train_keys = SPLIT_KEYS[:2] if any(key in arrays for key in SPLIT_KEYS) else ("x", "y")
    test_keys = SPLIT_KEYS[2:] if any(key in arrays for key in SPLIT_KEYS[2:]) else ()
    missing = [key for key in (*train_keys, *test_keys) if key not in arrays]
    if missing:
        present = ", ".join(list_npz(path)) or "nothing"
        raise LawscopeError(
            f"{path} lacks the array {' and '.join(missing)} (it holds {present}): "
            "save x and y, or x_train, y_train, x_test and y_test, with numpy.savez"
        )
    x_train, y_train = (arrays[key] for key in train_keys)
    test = (arrays["x_test"], arrays["y_test"]) if test_keys else None
    return make_dataset(name or path.stem, str(path), (x_train, y_train), test, class_names)


def list_npz(path: Path) -> list[str]:
    """Return the names of the arrays in an ``.npz`` file, without reading them."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except (OSError, *_DAMAGED_ZIP) as error:
        raise _unreadable(path, error) from error


def read_npz(path: Path, keys: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Read those of the arrays ``keys`` that an ``.npz`` file holds; execute nothing in it."""
    present = list_npz(path)
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            for key in keys:
                if key in present:
                    arrays[key] = np.asarray(archive[key])
    except (OSError, EOFError, RuntimeError, ValueError, *_DAMAGED_ZIP) as error:
        if "allow_pickle" in str(error):
            raise LawscopeError(
                f"{path} holds Python objects in the array {key}, which could run code when read: "
                "save numbers of one shape and type instead"
            ) from error
        raise _unreadable(path, error) from error
    return arrays


def _unreadable(path: Path, error: Exception) -> LawscopeError:
    if not path.exists():
        return LawscopeError(f"{path} does not exist: check the path")
    return LawscopeError(
        f"{path} cannot be read as an .npz file ({error}): "
        "it may be cut short; save it again with numpy.savez"
    )
