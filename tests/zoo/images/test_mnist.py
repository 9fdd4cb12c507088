"""MNIST and Fashion-MNIST: found, told apart, downloaded."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from canonical_files import idx_bytes, write_idx_files

from lawscope.errors import LawscopeError
from lawscope.zoo.images.mnist import (
    FASHION_MNIST,
    MNIST,
    STEMS,
    TEST_LABELS,
    IdxSource,
    load_idx_dataset,
    read_idx,
)

NOT_PACKAGED = replace(FASHION_MNIST, system_folder=None)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object, **kwargs: object) -> NoReturn:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("place", [".", "mnist", "MNIST/raw"])
def test_reads_a_data_directory(
    bare_machine: Path, no_network: None, tmp_path: Path, packed: bool, place: str
) -> None:
    arrays = write_idx_files(tmp_path / "data" / place, packed)
    data = load_idx_dataset(MNIST, tmp_path / "data")
    assert data.name == "mnist"
    assert data.class_names == tuple("0123456789")
    assert data.y_train.dtype == np.int64
    read = (data.x_train, data.y_train, data.x_test, data.y_test)
    for array, stem in zip(read, STEMS, strict=True):
        np.testing.assert_array_equal(array, arrays[stem])


@pytest.mark.parametrize("source", [MNIST, NOT_PACKAGED], ids=lambda source: source.name)
def test_without_network_the_sentence_names_the_ways(
    bare_machine: Path, no_network: None, source: IdxSource
) -> None:
    with pytest.raises(LawscopeError) as caught:
        load_idx_dataset(source)
    sentence = str(caught.value)
    assert sentence.startswith(f"{source.title} is not on this machine and {source.address}")
    assert "no route to host" in sentence
    assert "--data-dir, data_dir= or LAWSCOPE_DATA" in sentence
    assert ("dataset-fashion-mnist" in sentence) == (source.name == "fashion-mnist")
    assert sentence.endswith("or connect to the network")


def test_a_folder_with_some_of_the_files_is_passed_over(
    bare_machine: Path, no_network: None, tmp_path: Path
) -> None:
    write_idx_files(tmp_path / "data")
    (tmp_path / "data" / f"{TEST_LABELS}.gz").unlink()
    with pytest.raises(LawscopeError, match="MNIST is not on this machine"):
        load_idx_dataset(MNIST, tmp_path / "data")


def test_the_package_manager_is_asked_after_the_data_directory(
    bare_machine: Path, no_network: None, tmp_path: Path
) -> None:
    packaged = replace(FASHION_MNIST, system_folder=tmp_path / "system")
    write_idx_files(tmp_path / "system")
    assert len(load_idx_dataset(packaged).y_train) == 30
    write_idx_files(tmp_path / "data")
    for stem, shape in zip(STEMS, [(8, 28, 28), (8,), (6, 28, 28), (6,)], strict=True):
        content = idx_bytes(np.zeros(shape, np.uint8))
        (tmp_path / "data" / stem).write_bytes(content)
    assert len(load_idx_dataset(packaged, tmp_path / "data").y_train) == 8


def test_the_namesake_is_not_taken_for_it(
    bare_machine: Path, no_network: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = write_idx_files(tmp_path / "data")[TEST_LABELS]
    digest = hashlib.sha256(labels.tobytes()).hexdigest()
    namesake = replace(MNIST, test_labels_sha256=digest)
    monkeypatch.setattr("lawscope.zoo.images.mnist.MNIST", namesake)
    assert len(load_idx_dataset(namesake, tmp_path / "data").y_train) == 30
    with pytest.raises(LawscopeError, match="Fashion-MNIST is not on this machine"):
        load_idx_dataset(NOT_PACKAGED, tmp_path / "data")


def test_downloads_into_the_cache(web: tuple[str, Path], bare_machine: Path) -> None:
    address, served = web
    arrays = write_idx_files(served)
    digests = {
        stem: hashlib.sha256((served / f"{stem}.gz").read_bytes()).hexdigest() for stem in STEMS
    }
    source = replace(MNIST, address=address, sha256=digests)
    np.testing.assert_array_equal(load_idx_dataset(source).y_test, arrays[TEST_LABELS])
    cached = sorted(path.name for path in (bare_machine / "mnist").iterdir())
    assert cached == sorted(f"{stem}.gz" for stem in STEMS)
    again = replace(source, address="http://127.0.0.1:1/")
    np.testing.assert_array_equal(load_idx_dataset(again).y_test, arrays[TEST_LABELS])


@pytest.mark.skipif(
    not (FASHION_MNIST.system_folder or Path()).is_dir(),
    reason="Debian's dataset-fashion-mnist is not installed",
)
def test_the_digest_that_tells_fashion_mnist_apart() -> None:
    folder = FASHION_MNIST.system_folder
    assert folder is not None
    labels = read_idx(folder / f"{TEST_LABELS}.gz")
    assert hashlib.sha256(labels.tobytes()).hexdigest() == FASHION_MNIST.test_labels_sha256
