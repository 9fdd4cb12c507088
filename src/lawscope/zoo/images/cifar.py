"""CIFAR-10, from the canonical archive, its unpacked folder, or an .npz file."""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lawscope.arrays import IntArray
from lawscope.errors import LawscopeError
from lawscope.progress import progress
from lawscope.zoo.images.arrays import SPLIT_KEYS, Dataset, make_dataset, read_npz
from lawscope.zoo.storage import cache_dir, data_folders, fetch

# A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
ARCHIVE = "cifar-10-python.tar.gz"
ADDRESS = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
UNPACKED = "cifar-10-batches-py"
TRAIN_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST_BATCH = "test_batch"
BATCHES = (*TRAIN_BATCHES, TEST_BATCH)
CLASS_NAMES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())

Batch = tuple[NDArray[np.uint8], IntArray]


def load_cifar10(data_dir: str | Path | None = None) -> Dataset:
    """Read CIFAR-10 from this machine, or download it; see :func:`find_cifar10`."""
    found = find_cifar10(data_dir)
    if found is not None:
        return found
    by_hand = f"put {ARCHIVE} into a folder given by --data-dir, data_dir= or LAWSCOPE_DATA"
    archive = fetch(ADDRESS, cache_dir() / "cifar10", SHA256, "CIFAR-10", by_hand)
    return _from_batches(archive, _archived(archive))


def find_cifar10(data_dir: str | Path | None = None) -> Dataset | None:
    """Read CIFAR-10 if this machine has it.

    In each folder the unpacked ``cifar-10-batches-py`` is preferred, then the archive
    ``cifar-10-python.tar.gz``, then an ``.npz`` file with x_train, y_train, x_test and y_test.
    """
    for folder in data_folders((f"cifar10/{UNPACKED}", UNPACKED, "cifar10"), data_dir):
        if (folder / TEST_BATCH).is_file():
            names = (name for name in BATCHES if (folder / name).is_file())
            return _from_batches(folder, ((name, (folder / name).read_bytes()) for name in names))
        if (folder / ARCHIVE).is_file():
            return _from_batches(folder / ARCHIVE, _archived(folder / ARCHIVE))
        if (dataset := _from_npz(folder)) is not None:
            return dataset
    return None


def read_batch(content: bytes, origin: str) -> Batch:
    """Decode a pickled batch into images (n, 32, 32, 3) and labels (n,)."""
    try:
        batch = read_plain_pickle(content)
        array, labels = batch[b"data"], np.array(batch[b"labels"], dtype=np.int64)
        if not isinstance(array, PickledArray):
            raise TypeError("its data is not an array")
        images = array.value.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    except (pickle.UnpicklingError, KeyError, TypeError, ValueError) as error:
        raise LawscopeError(
            f"{origin} is not a batch of CIFAR-10 ({error}): delete it and get {ARCHIVE} again"
        ) from error
    return np.ascontiguousarray(images), labels


def _archived(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each batch in the archive; nothing is written to disk."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                file = archive.extractfile(member) if name in BATCHES else None
                if file is not None:
                    yield name, file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise LawscopeError(
            f"{path} cannot be read ({error}): delete it and get {ARCHIVE} again"
        ) from error


def _from_batches(origin: Path, contents: Iterable[tuple[str, bytes]]) -> Dataset:
    """Return the dataset of the six batches."""
    batches: dict[str, Batch] = {}
    with progress("reading CIFAR-10", len(BATCHES)) as advance:
        for name, content in contents:
            batches[name] = read_batch(content, f"{origin}: {name}")
            advance(1)
    if missing := [name for name in BATCHES if name not in batches]:
        raise LawscopeError(
            f"{origin} lacks {', '.join(missing)}: delete it and get {ARCHIVE} again"
        )
    images, labels = zip(*(batches[name] for name in TRAIN_BATCHES), strict=True)
    train = np.concatenate(images), np.concatenate(labels)
    return make_dataset("cifar10", str(origin), train, batches[TEST_BATCH], CLASS_NAMES)


def _from_npz(folder: Path) -> Dataset | None:
    """Return the dataset of the one ``.npz`` file that looks like CIFAR-10, if any."""
    found: dict[str, Dataset] = {}
    for path in sorted(folder.glob("*.npz")):
        arrays, _ = read_npz(path, SPLIT_KEYS)
        if len(arrays) == len(SPLIT_KEYS) and arrays["x_train"].shape[1:] == (32, 32, 3):
            x, y, x_test, y_test = (arrays[key] for key in SPLIT_KEYS)
            data = make_dataset("cifar10", str(path), (x, y), (x_test, y_test), CLASS_NAMES)
            found[path.name] = data
    if len(found) > 1:
        raise LawscopeError(
            f"{folder} holds several files that may be CIFAR-10 ({', '.join(found)}): keep one"
        )
    return next(iter(found.values()), None)


class PickledArray:
    """Stands for ``numpy.ndarray`` while unpickling; admits bytes of type uint8 only."""

    def __init__(self, *_: object) -> None:
        self.value: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[int, tuple[int, ...], PickledType, bool, bytes]) -> None:
        _version, shape, kind, fortran, content = state
        if kind.name != "u1":
            raise pickle.UnpicklingError(f"an array has type {kind.name}, not unsigned bytes")
        flat = np.frombuffer(content, np.uint8)
        self.value = flat.reshape(shape, order="F" if fortran else "C")


class PickledType:
    """Stands for ``numpy.dtype`` while unpickling: its name, and nothing else."""

    def __init__(self, name: str | bytes, *_: object) -> None:
        self.name = name.decode("ascii") if isinstance(name, bytes) else name

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment mean nothing for single bytes."""


# numpy renamed numpy.core in its version 2; files keep the name of the version that wrote them.
_STAND_INS = {
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): PickledType,
    ("numpy.core.multiarray", "_reconstruct"): PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): PickledArray,
}


class _PlainDataUnpickler(pickle.Unpickler):
    """Knows the stand-ins above and no other class or function."""

    def find_class(self, module: str, name: str) -> Any:
        stand_in = _STAND_INS.get((module, name))
        if stand_in is None:
            raise pickle.UnpicklingError(f"it asks to run {module}.{name}, which is refused")
        return stand_in


def read_plain_pickle(content: bytes) -> Any:
    """Unpickle dicts, lists, numbers, bytes and uint8 arrays; refuse anything else.

    A pickle is a program, and an untrusted one may do harm. Here its only vocabulary is two inert
    stand-ins for numpy's classes, so not even numpy runs on what the file says.
    """
    try:
        return _PlainDataUnpickler(io.BytesIO(content), encoding="bytes").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a damaged pickle may raise anything (documentation of pickle)
        raise pickle.UnpicklingError(f"it is damaged ({error})") from error
