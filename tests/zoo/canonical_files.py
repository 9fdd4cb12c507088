"""Small files in the canonical formats, written independently of the code that reads them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lawscope.zoo.images.mnist import STEMS


def idx_bytes(array: NDArray[Any]) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx_files(folder: Path, packed: bool = True) -> dict[str, NDArray[np.uint8]]:
    """A tiny MNIST: 30 training and 20 test images of 28×28. Returns the arrays by file stem."""
    generator = np.random.default_rng(0)
    shapes = dict(zip(STEMS, [(30, 28, 28), (30,), (20, 28, 28), (20,)], strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for stem, shape in shapes.items():
        highest = 9 if len(shape) == 1 else 255
        arrays[stem] = generator.integers(0, highest, shape, dtype=np.uint8, endpoint=True)
        content = idx_bytes(arrays[stem])
        if packed:
            (folder / f"{stem}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            (folder / stem).write_bytes(content)
    return arrays


def python2_batch(data: NDArray[np.uint8], labels: list[int]) -> bytes:
    """A batch as Python 2 and numpy 1 pickled it: protocol 2, byte strings, integer flags."""

    def string(text: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(text)) + text

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    dtype = (
        b"cnumpy\ndtype\n" + string(b"u1") + b"K\x00K\x01\x87R"  # dtype('u1', 0, 1)
        b"(K\x03" + string(b"|") + b"NNN" + number(-1) + number(-1) + b"K\x00tb"
    )
    shape = b"(" + b"".join(number(size) for size in data.shape) + b"t"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        + string(b"b")
        + b"\x87R"
        b"(K\x01" + shape + dtype + b"\x89" + string(data.tobytes()) + b"tb"
    )
    items = b"".join(number(label) for label in labels)
    return (
        b"\x80\x02}(" + string(b"batch_label") + string(b"training batch") + string(b"labels")
        + b"](" + items + b"e" + string(b"data") + array + b"u."
    )  # fmt: skip


def write_cifar_batches(folder: Path) -> dict[str, tuple[NDArray[np.uint8], list[int]]]:
    """The six batches, four images each. Returns data (4, 3072) and labels by batch."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    batches = {}
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        data = generator.integers(0, 256, (4, 3072), dtype=np.uint8)
        labels = generator.integers(0, 10, 4).tolist()
        (folder / name).write_bytes(python2_batch(data, labels))
        batches[name] = data, labels
    (folder / "batches.meta").write_bytes(b"not needed")
    return batches


def pack(folder: Path, archive: Path, arcname: str) -> None:
    """Pack a folder into a tar.gz file."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=arcname)


def npz_bytes(**arrays: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
