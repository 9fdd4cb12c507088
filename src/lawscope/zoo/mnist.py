"""MNIST and Fashion-MNIST: four idx files each, under the same four names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from lawscope.zoo.arrays import Dataset, checked_dataset
from lawscope.zoo.fetch import NetworkError, fetch, out_of_reach
from lawscope.zoo.folders import cache_dir, data_folders
from lawscope.zoo.idx import find_idx, read_idx

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
_PUT_FILES = "put its four idx files into a folder given by --data-dir or LAWSCOPE_DATA"
STEMS = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)


@dataclass(frozen=True)
class IdxSource:
    """One dataset of four idx files, and where they come from.

    Attributes:
        name: the dataset's name.
        title: its name in sentences.
        subfolders: names that its folder goes by inside a data directory.
        system_folder: where the package manager puts it, or None.
        by_hand: what a person without a network can do, as phrases.
        address: canonical address of the files, ending in a slash.
        sha256: SHA-256 of each gzipped file, by its name without ``.gz``.
        test_labels_sha256: SHA-256 of the test labels themselves, which tell the datasets apart.
        class_names: one name per class.
    """

    name: str
    title: str
    subfolders: tuple[str, ...]
    system_folder: Path | None
    by_hand: tuple[str, ...]
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
    by_hand=(_PUT_FILES, "install Debian's package dataset-fashion-mnist"),
    address="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    sha256={
        TRAIN_IMAGES: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        TRAIN_LABELS: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        TEST_IMAGES: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        TEST_LABELS: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
    test_labels_sha256="3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    class_names=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
)

# Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document
# recognition", 1998; the address is PyTorch's copy of the canonical files.
MNIST = IdxSource(
    name="mnist",
    title="MNIST",
    subfolders=("mnist", "MNIST/raw"),
    system_folder=None,
    by_hand=(_PUT_FILES,),
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
    """Read MNIST or Fashion-MNIST from this machine, or download it.

    Args:
        source: which of the two.
        data_dir: data directory to look through first.

    Returns:
        60000 training and 10000 test images of 28×28.

    Raises:
        LawscopeError: when the files are neither here nor within reach, or are damaged.
    """
    files = _find(source, data_dir) or _download(source)
    arrays = {stem: read_idx(path) for stem, path in files.items()}
    return checked_dataset(
        source.name,
        str(files[TRAIN_IMAGES].parent),
        (arrays[TRAIN_IMAGES], arrays[TRAIN_LABELS]),
        (arrays[TEST_IMAGES], arrays[TEST_LABELS]),
        source.class_names,
    )


def _find(source: IdxSource, data_dir: str | Path | None) -> dict[str, Path] | None:
    """The four files in the first folder that has them, and not those of the namesake."""
    folders = data_folders(source.subfolders, data_dir)
    if source.system_folder is not None:
        folders.append(source.system_folder)
    namesakes = {
        other.test_labels_sha256 for other in (MNIST, FASHION_MNIST) if other.name != source.name
    }
    for folder in folders:
        files = {stem: path for stem in STEMS if (path := find_idx(folder, stem))}
        if len(files) == len(STEMS):
            labels = read_idx(files[TEST_LABELS])
            if hashlib.sha256(labels.tobytes()).hexdigest() not in namesakes:
                return files
    return None


def _download(source: IdxSource) -> dict[str, Path]:
    """The four files, fetched into the cache folder."""
    folder = cache_dir() / source.name
    try:
        return {
            stem: fetch(f"{source.address}{stem}.gz", folder, sha256)
            for stem, sha256 in source.sha256.items()
        }
    except NetworkError as error:
        raise out_of_reach(source.title, source.by_hand, error) from error
