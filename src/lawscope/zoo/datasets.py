"""The datasets of the papers by name, and datasets of your own."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

from lawscope.errors import LawscopeError
from lawscope.zoo.arrays import Dataset, checked_dataset
from lawscope.zoo.cifar import load_cifar10
from lawscope.zoo.images import load_image_folder, resize
from lawscope.zoo.inputs import as_inputs
from lawscope.zoo.mnist import FASHION_MNIST, MNIST, load_idx_dataset
from lawscope.zoo.npz import SPLIT_KEYS, load_arrays, read_npz
from lawscope.zoo.sampling import balanced

__all__ = [
    "NAMES",
    "Dataset",
    "as_inputs",
    "balanced",
    "load",
    "load_arrays",
    "load_image_folder",
    "resize",
]

EMBEDDED = "fashion-mnist-10x10"


def _load_embedded(data_dir: str | Path | None) -> Dataset:
    """The part of Fashion-MNIST at 10×10 that comes with the package; needs no ``data_dir``."""
    with as_file(files("lawscope.zoo") / "data" / "fashion_mnist_10x10.npz") as path:
        arrays = read_npz(path, SPLIT_KEYS)
        return checked_dataset(
            EMBEDDED,
            str(path),
            (arrays["x_train"], arrays["y_train"]),
            (arrays["x_test"], arrays["y_test"]),
            FASHION_MNIST.class_names,
        )


_LOADERS: dict[str, Callable[[str | Path | None], Dataset]] = {
    EMBEDDED: _load_embedded,
    FASHION_MNIST.name: lambda data_dir: load_idx_dataset(FASHION_MNIST, data_dir),
    MNIST.name: lambda data_dir: load_idx_dataset(MNIST, data_dir),
    "cifar10": load_cifar10,
}

NAMES = tuple(_LOADERS)


def load(name: str, *, data_dir: str | Path | None = None) -> Dataset:
    """Load a dataset by its name: embedded, from this machine, or downloaded.

    Files are looked for in ``data_dir``, in the folder that the environment variable
    ``LAWSCOPE_DATA`` names, in the user's cache folder, and where Debian's package puts them; in
    each, a subfolder named after the dataset comes first. What is found nowhere is downloaded from
    its canonical address into the cache folder and checked against its SHA-256.

    Args:
        name: one of ``NAMES``. ``fashion-mnist-10x10`` comes with the package: 500 training and
            100 test images per class.
        data_dir: data directory to look through first.

    Returns:
        The dataset.

    Raises:
        LawscopeError: when there is no such name, or its files are damaged or out of reach.

    Example:
        >>> data = load("fashion-mnist-10x10")
        >>> data.x_train.shape, data.x_test.shape, data.class_names[9]
        ((5000, 10, 10), (1000, 10, 10), 'Ankle boot')
    """
    if name not in _LOADERS:
        near = difflib.get_close_matches(name.lower(), NAMES) or NAMES
        raise LawscopeError(f"there is no dataset {name!r}: did you mean {' or '.join(near)}?")
    return _LOADERS[name](data_dir)
