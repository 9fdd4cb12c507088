"""CIFAR-10 in its three layouts, read without running what is in its pickles."""

from __future__ import annotations

import hashlib
import os
import pickle
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from canonical_files import npz_bytes, pack, write_cifar_batches

from lawscope.errors import LawscopeError
from lawscope.zoo.images import cifar
from lawscope.zoo.images.arrays import Dataset
from lawscope.zoo.images.cifar import load_cifar10, read_batch, read_plain_pickle

UNPACKED = "cifar-10-batches-py"
ARCHIVE = "cifar-10-python.tar.gz"


def splits(side: int = 32, **others: Any) -> dict[str, Any]:
    arrays = {
        "x_train": np.full((6, side, side, 3), 9, np.uint8),
        "y_train": np.arange(6, dtype=np.uint8),
        "x_test": np.zeros((3, side, side, 3), np.uint8),
        "y_test": np.arange(3, dtype=np.uint8),
    }
    return {**arrays, **others}


def assert_holds(data: Dataset, batches: dict[str, Any]) -> None:
    assert data.x_train.shape == (20, 32, 32, 3)
    assert data.class_names[3] == "cat"
    pixels, labels = batches["data_batch_3"]
    assert data.y_train[8:12].tolist() == labels
    # red, green and blue planes follow each other, each row by row
    assert data.x_train[9, 5, 7].tolist() == [pixels[1, c * 1024 + 5 * 32 + 7] for c in range(3)]
    assert data.y_test.tolist() == batches["test_batch"][1]


@pytest.mark.parametrize("place", [".", "cifar10", UNPACKED, f"cifar10/{UNPACKED}"])
def test_the_unpacked_folder(bare_machine: Path, tmp_path: Path, place: str) -> None:
    batches = write_cifar_batches(tmp_path / "data" / place)
    assert_holds(load_cifar10(tmp_path / "data"), batches)


@pytest.mark.parametrize("place", [".", "cifar10"])
def test_the_archive(bare_machine: Path, tmp_path: Path, place: str) -> None:
    batches = write_cifar_batches(tmp_path / "unpacked")
    (tmp_path / "data/cifar10").mkdir(parents=True)
    pack(tmp_path / "unpacked", tmp_path / "data" / place / ARCHIVE, UNPACKED)
    assert_holds(load_cifar10(tmp_path / "data"), batches)


def test_the_archive_is_downloaded(
    web: tuple[str, Path], bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, served = web
    batches = write_cifar_batches(tmp_path / "unpacked")
    pack(tmp_path / "unpacked", served / ARCHIVE, UNPACKED)
    digest = hashlib.sha256((served / ARCHIVE).read_bytes()).hexdigest()
    monkeypatch.setattr(cifar, "ADDRESS", f"{address}{ARCHIVE}")
    monkeypatch.setattr(cifar, "SHA256", digest)
    assert_holds(load_cifar10(), batches)
    assert (bare_machine / "cifar10" / ARCHIVE).is_file()


def test_without_network_the_sentence_names_the_ways(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*args: object, **kwargs: object) -> NoReturn:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    with pytest.raises(
        LawscopeError, match=f"CIFAR-10 .*put {ARCHIVE} .*LAWSCOPE_DATA, or connect to the network"
    ):
        load_cifar10()


def test_a_missing_batch_is_named(bare_machine: Path, tmp_path: Path) -> None:
    write_cifar_batches(tmp_path)
    (tmp_path / "data_batch_4").unlink()
    with pytest.raises(LawscopeError, match="lacks data_batch_4"):
        load_cifar10(tmp_path)


def test_an_archive_that_would_run_code_is_refused(bare_machine: Path, tmp_path: Path) -> None:
    write_cifar_batches(tmp_path / "unpacked")
    bait = tmp_path / "bait"
    harm = b"cos\nmkdir\n(V" + str(bait).encode() + b"\ntR."
    (tmp_path / "unpacked/data_batch_2").write_bytes(harm)
    pack(tmp_path / "unpacked", tmp_path / ARCHIVE, UNPACKED)
    with pytest.raises(LawscopeError, match=r"data_batch_2 is not .*os\.mkdir, which is refused"):
        load_cifar10(tmp_path)
    assert not bait.exists()


@pytest.mark.parametrize(
    "batch",
    [
        [],
        {b"labels": [1]},
        {b"data": [1, 2], b"labels": [1]},
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": ["cat"]},
        {b"data": np.zeros((1, 3071), np.uint8), b"labels": [1]},
    ],
    ids=["list", "no data", "data not an array", "labels not numbers", "wrong size"],
)
def test_a_pickle_of_something_else_is_named(batch: Any) -> None:
    with pytest.raises(LawscopeError, match="here is not a batch of CIFAR-10"):
        read_batch(pickle.dumps(batch, 4), "here")


@pytest.mark.parametrize("place", [".", "cifar10"])
def test_an_npz_file_will_do(bare_machine: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "data/cifar10").mkdir(parents=True)
    (tmp_path / "data" / "other.npz").write_bytes(npz_bytes(weights=np.zeros(3)))
    (tmp_path / "data" / "small.npz").write_bytes(npz_bytes(**splits(side=8)))
    (tmp_path / "data" / place / "part.npz").write_bytes(npz_bytes(**splits()))
    data = load_cifar10(tmp_path / "data")
    assert data.name == "cifar10"
    assert data.y_test.tolist() == [0, 1, 2]
    assert data.y_test.dtype == np.int64
    assert len(data.class_names) == 10


def test_two_npz_files_are_one_too_many(bare_machine: Path, tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        (tmp_path / name).write_bytes(npz_bytes(**splits()))
    with pytest.raises(LawscopeError, match=r"\(a\.npz, b\.npz\): keep one"):
        load_cifar10(tmp_path)


class RunsCode:
    def __init__(self, function: Any, *args: object) -> None:
        self.call = function, args

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_today(protocol: int, order: Any) -> None:
    array = np.asarray(np.arange(12, dtype=np.uint8).reshape(3, 4), order=order)
    read = read_plain_pickle(pickle.dumps({b"data": array}, protocol))
    np.testing.assert_array_equal(read[b"data"].value, array)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    bait = tmp_path / "bait"
    content = pickle.dumps({"data": RunsCode(os.mkdir, str(bait))}, protocol)
    with pytest.raises(pickle.UnpicklingError, match=r"asks to run \w+\.mkdir, which is refused"):
        read_plain_pickle(content)
    assert not bait.exists()


@pytest.mark.parametrize("function", [eval, exec, getattr, __import__, np.load, np.frombuffer])
def test_no_function_is_admitted(function: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="which is refused"):
        read_plain_pickle(pickle.dumps(RunsCode(function, "1")))


@pytest.mark.parametrize("array", [np.arange(3), np.array([{}, []], dtype=object)])
def test_other_arrays_are_refused(array: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="not unsigned bytes"):
        read_plain_pickle(pickle.dumps(array, 4))
