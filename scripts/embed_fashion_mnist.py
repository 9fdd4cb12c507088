"""Make the embedded data: 6000 images of Fashion-MNIST at 10×10.

    python scripts/embed_fashion_mnist.py

Reads the canonical files wherever ``lawscope.zoo.images.catalogue.load`` finds them, draws 500
training and 100 test images per class with seed 0, resizes them bilinearly and writes one .npz
file whose bytes are the same in every run. A few seconds on one core.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError
from lawscope.zoo.images.arrays import Dataset
from lawscope.zoo.images.catalogue import load
from lawscope.zoo.images.folder import resize
from lawscope.zoo.images.sampling import balanced

SEED = 0
SIZE = (10, 10)
TRAIN_PER_CLASS, TEST_PER_CLASS = 500, 100
TARGET = Path(__file__).parents[1] / "src/lawscope/zoo/data/fashion_mnist_10x10.npz"


def derive(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """The arrays to embed, drawn from the full dataset."""
    arrays: dict[str, NDArray[Any]] = {}
    splits = (
        ("train", dataset.x_train, dataset.y_train, TRAIN_PER_CLASS),
        ("test", dataset.x_test, dataset.y_test, TEST_PER_CLASS),
    )
    for split, x, y, per_class in splits:
        images, labels = balanced(x, y, per_class, SEED)
        arrays[f"x_{split}"] = resize(images, SIZE)
        arrays[f"y_{split}"] = labels.astype(np.uint8)
    return arrays


def write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write an .npz file without the time of day in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, buffer.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


def main() -> int:
    """Write the file; 2 when Fashion-MNIST cannot be had."""
    try:
        arrays = derive(load("fashion-mnist"))
    except LawscopeError as error:
        print(error, file=sys.stderr)
        return 2
    write(TARGET, arrays)
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
