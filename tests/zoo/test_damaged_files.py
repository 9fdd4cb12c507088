"""One contract for every file that is read: whole, or a sentence that names it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canonical_files import idx_bytes, npz_bytes, pack, python2_batch, write_cifar_batches
from PIL import Image

from lawscope.errors import LawscopeError
from lawscope.zoo.images.arrays import load_arrays
from lawscope.zoo.images.cifar import ARCHIVE, UNPACKED, load_cifar10, read_batch
from lawscope.zoo.images.folder import load_image_folder
from lawscope.zoo.images.mnist import read_idx
from lawscope.zoo.text.sentences import read_sentences

NOISE = np.random.default_rng(0).integers(0, 256, (6, 20, 20), dtype=np.uint8)
PIXELS = np.random.default_rng(1).integers(0, 256, (2, 3072), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)


def same(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(a, b)


def archive(folder: Path) -> bytes:
    write_cifar_batches(folder / "unpacked")
    pack(folder / "unpacked", folder / ARCHIVE, UNPACKED)
    return (folder / ARCHIVE).read_bytes()


def png(folder: Path) -> bytes:
    Image.fromarray(NOISE[0]).save(folder / "made.png")
    content = (folder / "made.png").read_bytes()
    (folder / "made.png").unlink()
    return content


@dataclass
class Format:
    """A good file, how it is read, and what must have been read.

    Attributes:
        file: its place in an empty folder.
        content: makes its bytes, given that folder.
        read: from that folder.
        check: of what was read.
        strict: whether every cut must be noticed; the others may lack their last bytes.
    """

    file: str
    content: Callable[[Path], bytes]
    read: Callable[[Path], Any]
    check: Callable[[Any], None]
    strict: bool = True


SENTENCES = b"label\tsentence\n1\ta good film\n0\ta bad film\n"
FORMATS = {
    "idx": Format(
        "images-idx3-ubyte",
        lambda folder: idx_bytes(NOISE),
        lambda folder: read_idx(folder / "images-idx3-ubyte"),
        lambda read: same(read, NOISE),
    ),
    "idx gzipped": Format(
        "whatever",  # its name says nothing of the packing
        lambda folder: gzip.compress(idx_bytes(NOISE)),
        lambda folder: read_idx(folder / "whatever"),
        lambda read: same(read, NOISE),
    ),
    "npz": Format(
        "mine.npz",
        lambda folder: npz_bytes(x=NOISE, y=LABELS),
        lambda folder: load_arrays(folder / "mine.npz"),
        lambda read: same(read.x_train, NOISE),
    ),
    "cifar batch": Format(
        "data_batch_1",
        lambda folder: python2_batch(PIXELS, [7, 3]),
        lambda folder: read_batch((folder / "data_batch_1").read_bytes(), "data_batch_1"),
        lambda read: same(read[0], PIXELS.reshape(2, 3, 32, 32).transpose(0, 2, 3, 1)),
    ),
    "cifar archive": Format(
        ARCHIVE, archive, load_cifar10, lambda read: same(len(read.y_train), 20), strict=False
    ),
    "image": Format(
        "class/image.png",
        png,
        load_image_folder,
        lambda read: same(read.x_train[0], NOISE[0]),
        strict=False,
    ),
    "sentences gzipped": Format(
        "train.tsv.gz",
        lambda folder: gzip.compress(SENTENCES),
        lambda folder: read_sentences(folder / "train.tsv.gz"),
        lambda read: same(read[1], [1, 0]),
    ),
}


@pytest.fixture(params=FORMATS)
def case(request: Any, tmp_path: Path, bare_machine: Path) -> tuple[Format, Path, bytes]:
    chosen = FORMATS[request.param]
    content = chosen.content(tmp_path)
    path = tmp_path / "data" / chosen.file
    path.parent.mkdir(parents=True)
    return chosen, path, content


def refuses(chosen: Format, path: Path) -> str:
    """The sentence, which names the file and fits on a line."""
    with pytest.raises(LawscopeError) as caught:
        chosen.read(path.parents[len(Path(chosen.file).parts) - 1])
    sentence = str(caught.value)
    assert path.name in sentence
    assert "\n" not in sentence
    assert ": " in sentence  # the remedy
    return sentence


def test_a_good_file_is_read(case: tuple[Format, Path, bytes]) -> None:
    chosen, path, content = case
    path.write_bytes(content)
    chosen.check(chosen.read(path.parents[len(Path(chosen.file).parts) - 1]))


def test_a_cut_file_is_named(case: tuple[Format, Path, bytes]) -> None:
    chosen, path, content = case
    end = len(content) if chosen.strict else int(0.9 * len(content))
    for kept in {*range(0, end, max(1, end // 60)), end - 1}:
        path.write_bytes(content[:kept])
        refuses(chosen, path)


def test_another_kind_of_file_is_named(case: tuple[Format, Path, bytes]) -> None:
    chosen, path, _ = case
    for content in (b"", b"something else", gzip.compress(b"something else"), bytes(1000)):
        path.write_bytes(content)
        refuses(chosen, path)


@pytest.mark.parametrize("name", ["idx gzipped", "npz", "sentences gzipped"])
def test_a_damaged_middle_is_noticed(name: str, tmp_path: Path, bare_machine: Path) -> None:
    chosen = FORMATS[name]
    content = bytearray(chosen.content(tmp_path))
    middle = len(content) // 2
    content[middle : middle + 10] = bytes(value ^ 0xFF for value in content[middle : middle + 10])
    path = tmp_path / chosen.file
    path.write_bytes(content)
    refuses(chosen, path)


@pytest.mark.parametrize("name", ["idx", "npz"])
def test_an_absent_file_is_named(name: str, tmp_path: Path) -> None:
    refuses(FORMATS[name], tmp_path / FORMATS[name].file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (idx_bytes(LABELS) + b"!", "has 15 bytes where its header promises 14"),
        (bytes([0, 0, 0x0D, 1, 0, 0, 0, 1]) + bytes(4), "begins with 00 00 0d 01"),
    ],
)
def test_idx_files_of_another_length_or_type(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "images-idx3-ubyte").write_bytes(content)
    assert said in refuses(FORMATS["idx"], tmp_path / "images-idx3-ubyte")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": NOISE, "labels": LABELS}, "lacks the array y (it holds x, labels)"),
        ({"features": NOISE}, "lacks the array x and y (it holds features)"),
        ({"x_train": NOISE, "y": LABELS}, "lacks the array y_train (it holds x_train, y)"),
        ({"x_train": NOISE, "y_train": LABELS, "x_test": NOISE}, "lacks the array y_test"),
        ({}, "lacks the array x and y (it holds nothing)"),
        ({"x": np.array([[1], {}], dtype=object), "y": LABELS}, "Python objects in the array x"),
    ],
)
def test_npz_files_without_the_arrays(tmp_path: Path, arrays: Any, said: str) -> None:
    (tmp_path / "mine.npz").write_bytes(npz_bytes(**arrays))
    assert said in refuses(FORMATS["npz"], tmp_path / "mine.npz")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"sentence\tstars\nfine\t5\n", "columns label and sentence"),
        (b"label\tsentence\n5\tfine\n", "labels 0 and 1"),
        (b"label\tsentence\n", "labels 0 and 1"),
        (b"label\tsentence\n1\tfine\n1\n", "1 columns in row 3"),
        (b"label\tsentence\n1\t\xff\xfe\n", "cannot be read"),
    ],
)
def test_sentences_of_another_kind(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(content))
    assert said in refuses(FORMATS["sentences gzipped"], tmp_path / "train.tsv.gz")
