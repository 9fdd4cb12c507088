"""Data as a person hands it over: a name, a file, a folder, or arrays."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lawscope.errors import LawscopeError
from lawscope.zoo.arrays import Dataset, checked_dataset
from lawscope.zoo.datasets import NAMES, load, load_arrays, load_image_folder


def find_data(
    data: str | Path | Dataset | Sequence[Any],
    *,
    data_dir: str | Path | None = None,
    size: tuple[int, int] | None = None,
) -> Dataset:
    """The dataset that ``data`` stands for.

    Args:
        data: a name of ``lawscope.zoo.datasets.NAMES``, an ``.npz`` file, a folder of images by
            class, a pair ``(x, y)`` of arrays or tensors, or a :class:`Dataset`.
        data_dir: data directory to look through first.
        size: size of the images of a folder.

    Returns:
        The dataset.

    Raises:
        LawscopeError: there is no such thing, or it cannot be used.

    Example:
        >>> find_data((np.zeros((4, 3)), [0, 1, 0, 1])).class_names
        ('0', '1')
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        return _by_name(str(data), data_dir, size)
    if not isinstance(data, Sequence) or len(data) != 2:
        raise LawscopeError(
            f"data is a {type(data).__name__}; give a name, a path, or a pair (x, y) of arrays."
        )
    try:
        x, y = (np.asarray(part) for part in data)
    except (TypeError, ValueError) as error:
        raise LawscopeError(f"x and y are no arrays ({error}); give numbers on the CPU.") from error
    return checked_dataset("your data", "(x, y)", (x, y))


def _by_name(data: str, data_dir: str | Path | None, size: tuple[int, int] | None) -> Dataset:
    if data in NAMES:
        return load(data, data_dir=data_dir)
    path = Path(data).expanduser()
    if path.is_dir():
        return load_image_folder(path, size)
    if path.is_file() and path.suffix == ".npz":
        return load_arrays(path)
    if path.exists():
        raise LawscopeError(f"{data} is neither an .npz file nor a folder of images.")
    near = difflib.get_close_matches(data, NAMES, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; known names: {', '.join(NAMES)}."
    raise LawscopeError(f"{data} is no known dataset and there is no such file{hint}")
