"""MNIST and Fashion-MNIST: four idx files each, under the same four names."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError
from lawscope.zoo.images.arrays import Dataset, make_dataset
from lawscope.zoo.storage import cache_dir, data_folders, fetch, find_file

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
_PUT_FILES = "put its four idx files into a folder given by --data-dir, data_dir= or LAWSCOPE_DATA"
STEMS = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)
_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTE = 0x08


@dataclass(frozen=True)
class IdxSource:
    """One dataset of four idx files, and where they come from.

    ``sha256`` is that of each gzipped file, by its name without ``.gz``; that of the test labels
    themselves tells the datasets apart. ``by_hand`` says what to do without a network.
    """

    name: str
    title: str
    subfolders: tuple[str, ...]
    system_folder: Path | None
    by_hand: str
    address: str
    sha256: dict[str, str]
    test_labels_sha256: str
    class_names: tuple[str, ...]


# H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine
# learning algorithms", arXiv:1708.07747.
FASHION_MNIST = IdxSource(
    name="fashion-mnist",
    title="Fashion-MNIST",
    subfolders=("fashion-mnist", "FashionMNIST/raw"),
    system_folder=Path("/usr/share/datasets/fashion-mnist"),
    by_hand=f"{_PUT_FILES}, install Debian's package dataset-fashion-mnist",
    address="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    sha256={
        TRAIN_IMAGES: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        TRAIN_LABELS: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        TEST_IMAGES: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        TEST_LABELS: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
    test_labels_sha256="3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    class_names=tuple(
        "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot".split(",")
    ),
)

# Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document
# recognition", 1998; the address is PyTorch's copy of the canonical files.
MNIST = IdxSource(
    name="mnist",
    title="MNIST",
    subfolders=("mnist", "MNIST/raw"),
    system_folder=None,
    by_hand=_PUT_FILES,
    address="https://ossci-datasets.s3.amazonaws.com/mnist/",
    sha256={
        TRAIN_IMAGES: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        TRAIN_LABELS: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        TEST_IMAGES: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        TEST_LABELS: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
    test_labels_sha256="ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    class_names=tuple("0123456789"),
)


def load_idx_dataset(source: IdxSource, data_dir: str | Path | None = None) -> Dataset:
    """Read MNIST or Fashion-MNIST from this machine, or download it."""
    files = _find(source, data_dir)
    if files is None:
        folder, said = cache_dir() / source.name, (source.title, source.by_hand)
        files = [fetch(f"{source.address}{s}.gz", folder, source.sha256[s], *said) for s in STEMS]
    x, y, x_test, y_test = map(read_idx, files)
    origin = str(files[0].parent)
    return make_dataset(source.name, origin, (x, y), (x_test, y_test), source.class_names)


def _find(source: IdxSource, data_dir: str | Path | None) -> list[Path] | None:
    """Return the four files of the first folder that has them, and not those of the namesake."""
    folders = data_folders(source.subfolders, data_dir)
    if source.system_folder is not None:
        folders.append(source.system_folder)
    namesake = (FASHION_MNIST if source.name == MNIST.name else MNIST).test_labels_sha256
    for folder in folders:
        files = [path for stem in STEMS if (path := find_file(folder, stem))]
        if len(files) == len(STEMS):
            labels = read_idx(files[STEMS.index(TEST_LABELS)])
            if hashlib.sha256(labels.tobytes()).hexdigest() != namesake:
                return files
    return None


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, plain or gzipped.

    The header is the bytes (0, 0, type, number of axes) and the length of each axis in four
    big-endian bytes (Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits").
    """
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(_GZIP_MAGIC) else content
    except (OSError, EOFError, zlib.error) as error:
        raise LawscopeError(
            f"{path} cannot be read ({error}): delete it and get the canonical file again"
        ) from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTE:
        raise LawscopeError(
            f"{path} is not an idx file of unsigned bytes (it begins with "
            f"{content[:4].hex(' ') or 'nothing'}): delete it and get the canonical file again"
        )
    header = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, header, 4))
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise LawscopeError(
            f"{path} has {len(content)} bytes where its header promises {expected}: "
            "delete it and get the canonical file again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()
