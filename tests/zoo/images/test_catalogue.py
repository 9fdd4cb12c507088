"""Datasets by name, and whatever else a person hands over."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from canonical_files import write_cifar_batches

from lawscope.errors import LawscopeError
from lawscope.zoo.images.catalogue import find_data, load
from lawscope.zoo.images.mnist import FASHION_MNIST

SCRIPT = Path(__file__).parents[3] / "scripts" / "embed_fashion_mnist.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("embed_fashion_mnist", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_embedded_data_needs_no_files(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", None)
    data = load("fashion-mnist-10x10", data_dir="not/looked/at")
    assert data.name == "fashion-mnist-10x10"
    assert data.x_train.shape == (5000, 10, 10)
    assert data.x_test.shape == (1000, 10, 10)
    assert data.x_train.dtype == data.x_test.dtype == np.uint8
    assert data.y_train.dtype == data.y_test.dtype == np.int64
    assert np.bincount(data.y_train).tolist() == [500] * 10
    assert np.bincount(data.y_test).tolist() == [100] * 10
    assert len(data.class_names) == 10
    assert not bare_machine.exists()


def test_the_embedded_data_is_small_shuffled_and_comes_with_its_notice() -> None:
    folder = files("lawscope.zoo") / "data"
    assert len((folder / "fashion_mnist_10x10.npz").read_bytes()) < 1_000_000
    notice = (folder / "NOTICE").read_text(encoding="utf-8")
    assert "Copyright (c) 2017 Zalando SE, https://tech.zalando.com" in notice
    labels = load("fashion-mnist-10x10").y_train
    assert np.count_nonzero(np.diff(labels) == 0) < 700  # 500 expected of a shuffled order


def test_the_embedded_images_look_like_their_classes() -> None:
    data = load("fashion-mnist-10x10")
    means = np.stack([data.x_train[data.y_train == k].mean(axis=0) for k in range(10)])
    distances = ((data.x_test[:, None] - means) ** 2).sum(axis=(2, 3))
    assert (distances.argmin(axis=1) == data.y_test).mean() > 0.6


@pytest.mark.skipif(
    not (FASHION_MNIST.system_folder or Path()).is_dir(),
    reason="Debian's dataset-fashion-mnist is not installed",
)
def test_the_script_makes_the_embedded_data(
    bare_machine: Path, script: ModuleType, tmp_path: Path
) -> None:
    arrays = script.derive(load("fashion-mnist"))
    embedded = load("fashion-mnist-10x10")
    for key in ("x_train", "y_train", "x_test", "y_test"):
        np.testing.assert_array_equal(arrays[key], getattr(embedded, key))


def test_the_script_writes_the_same_bytes_each_time(script: ModuleType, tmp_path: Path) -> None:
    arrays = {"x": np.arange(1000).astype(np.uint8).reshape(10, 10, 10), "y": np.arange(10)}
    script.write(tmp_path / "one.npz", arrays)
    script.write(tmp_path / "two.npz", arrays)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with np.load(tmp_path / "one.npz", allow_pickle=False) as read:
        for key, array in arrays.items():
            np.testing.assert_array_equal(read[key], array)


def test_the_script_without_fashion_mnist(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nowhere(name: str) -> Any:
        raise LawscopeError(f"{name} is not on this machine: connect to the network")

    monkeypatch.setattr(script, "load", nowhere)
    assert script.main() == 2
    assert capsys.readouterr().err.startswith("fashion-mnist is not on this machine")


def test_cifar10_by_name_from_the_environment_variable(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar_batches(tmp_path / "data/cifar-10-batches-py")
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path / "data"))
    assert load("cifar10").x_train.shape == (20, 32, 32, 3)


@pytest.mark.parametrize(
    ("name", "offer"),
    [
        ("cifar-10", "cifar10"),
        ("CIFAR10", "cifar10"),
        ("FashionMNIST", "fashion-mnist"),
        ("imagenet", "fashion-mnist-10x10 or fashion-mnist or mnist or cifar10"),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(name: str, offer: str) -> None:
    with pytest.raises(LawscopeError, match=f"no dataset '{name}': did you mean .*{offer}"):
        load(name)


def test_a_name_a_file_a_pair_and_a_dataset(tmp_path: Path) -> None:
    assert find_data("fashion-mnist-10x10").x_train.shape == (5000, 10, 10)
    x, y = np.zeros((4, 3, 3), np.uint8), np.array([0, 1, 0, 1])
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    assert find_data(tmp_path / "mine.npz").name == "mine"
    pair = find_data((torch.ones(4, 5), torch.tensor([0, 1, 2, 0])))
    assert pair.x_train.shape == (4, 5)
    assert pair.class_names == ("0", "1", "2")
    assert find_data(pair) is pair


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("cifar-10", "did you mean cifar10"),
        ("quite unknown", "known names: fashion-mnist-10x10"),
        ((1, 2, 3), "a pair"),
        ((np.zeros((3, 2)), [0, 1]), "as many labels as examples"),
        (([[1.0], [1.0, 2.0]], [0, 1]), "not arrays"),
    ],
)
def test_what_is_not_data(data: Any, said: str) -> None:
    with pytest.raises(LawscopeError, match=said):
        find_data(data)
