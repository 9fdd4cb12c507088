"""The datasets of the papers by name, and datasets of your own."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from lawscope.arrays import refuse_masked
from lawscope.errors import LawscopeError
from lawscope.files import find_kind
from lawscope.zoo.images.arrays import Dataset, load_arrays, make_dataset
from lawscope.zoo.images.cifar import load_cifar10
from lawscope.zoo.images.folder import load_image_folder
from lawscope.zoo.images.mnist import FASHION_MNIST, MNIST, load_idx_dataset
from lawscope.zoo.images.shapes import NAME as SHAPES
from lawscope.zoo.images.shapes import load_shapes

EMBEDDED = "fashion-mnist-10x10"
_LOADERS: dict[str, Callable[[str | Path | None], Dataset]] = {
    FASHION_MNIST.name: partial(load_idx_dataset, FASHION_MNIST),
    MNIST.name: partial(load_idx_dataset, MNIST),
    "cifar10": load_cifar10,
    SHAPES: load_shapes,
}
NAMES = (EMBEDDED, *_LOADERS)


def load(name: str, *, data_dir: str | Path | None = None) -> Dataset:
    """Load a dataset by its name: embedded, from this machine, or downloaded.

    Files are looked for in ``data_dir``, in the folder that the environment variable
    ``LAWSCOPE_DATA`` names, in the user's cache folder, and where Debian's package puts them; in
    each, a subfolder named after the dataset comes first. What is found nowhere is downloaded from
    its canonical address into the cache folder and checked against its SHA-256.

    ``fashion-mnist-10x10`` comes with the package: 500 training and 100 test images per class.
    ``geometric-shapes`` are drawn: see :mod:`lawscope.zoo.images.shapes`.
    """
    if name == EMBEDDED:
        with as_file(files("lawscope.zoo") / "data" / "fashion_mnist_10x10.npz") as path:
            return load_arrays(path, EMBEDDED, FASHION_MNIST.class_names)
    if name not in _LOADERS:
        near = difflib.get_close_matches(name.lower(), NAMES) or NAMES
        raise LawscopeError(f"there is no dataset {name!r}: did you mean {' or '.join(near)}?")
    return _LOADERS[name](data_dir)


def find_data(
    data: str | Path | Dataset | Sequence[Any],
    *,
    data_dir: str | Path | None = None,
    size: tuple[int, int] | None = None,
) -> Dataset:
    """Return the dataset that ``data`` stands for.

    It is a name of ``NAMES``, an ``.npz`` file, a folder of images by class (which ``size``
    resizes), a pair ``(x, y)`` of arrays or tensors, or a :class:`Dataset`.
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        return _find_named(str(data), data_dir, size)
    if not isinstance(data, Sequence) or len(data) != 2:
        raise LawscopeError(
            f"data is a {type(data).__name__}; give a name, a path, or a pair (x, y) of arrays."
        )
    refuse_masked(*data)
    try:
        x, y = (np.asarray(part) for part in data)
    except (TypeError, ValueError) as error:
        raise LawscopeError(f"x and y are not arrays ({error}); give CPU numbers.") from error
    return make_dataset("your data", "(x, y)", (x, y))


def _find_named(data: str, data_dir: str | Path | None, size: tuple[int, int] | None) -> Dataset:
    if data in NAMES:
        return load(data, data_dir=data_dir)
    path = Path(data).expanduser()
    kind = find_kind(path)
    if kind == "folder":
        return load_image_folder(path, size)
    if kind == "file" and path.suffix == ".npz":
        return load_arrays(path)
    if kind:
        raise LawscopeError(f"{data} is neither an .npz file nor a folder of images.")
    near = difflib.get_close_matches(data, NAMES, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; known names: {', '.join(NAMES)}."
    raise LawscopeError(f"{data} is neither a known dataset nor a file{hint}")
