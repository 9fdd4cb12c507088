from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canonical_files import npz_bytes

from lawscope.errors import LawscopeError
from lawscope.zoo.npz import load_arrays

X = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
Y = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)


@pytest.fixture
def save(tmp_path: Path) -> Any:
    def write(**arrays: Any) -> Path:
        path = tmp_path / "mine.npz"
        path.write_bytes(npz_bytes(**arrays))
        return path

    return write


def test_x_and_y(save: Any) -> None:
    data = load_arrays(save(x=X, y=Y))
    assert data.name == "mine"
    assert data.class_names == ("0", "1", "2")
    np.testing.assert_array_equal(data.x_train, X)
    assert data.y_train.dtype == np.int64
    assert data.x_test.shape == (0, 4, 5)
    assert data.y_test.shape == (0,)


def test_train_alone(save: Any) -> None:
    assert len(load_arrays(str(save(x_train=X, y_train=Y, extra=Y))).y_train) == 6


def test_train_and_test(save: Any) -> None:
    data = load_arrays(save(x_train=X, y_train=Y, x_test=X[:2], y_test=Y[:2]))
    np.testing.assert_array_equal(data.x_test, X[:2])
    assert data.y_test.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": X, "labels": Y}, r"lacks the array y \(it holds x, labels\)"),
        ({"features": X}, r"lacks the array x and y \(it holds features\)"),
        ({"x_train": X, "y": Y}, r"lacks the array y_train \(it holds x_train, y\)"),
        ({"x_train": X, "y_train": Y, "x_test": X}, "lacks the array y_test"),
        ({}, r"lacks the array x and y \(it holds nothing\)"),
    ],
)
def test_missing_arrays_are_named(save: Any, arrays: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LawscopeError, match=rf"mine\.npz {sentence}"):
        load_arrays(save(**arrays))


def test_python_objects_are_refused(save: Any) -> None:
    path = save(x=np.array([np.zeros(2), np.zeros(3)], dtype=object), y=Y[:2])
    with pytest.raises(LawscopeError, match="holds Python objects in the array x"):
        load_arrays(path)


def test_every_cut_is_named(save: Any) -> None:
    path = save(x=X, y=Y)
    content = path.read_bytes()
    for kept in range(len(content)):
        path.write_bytes(content[:kept])
        with pytest.raises(LawscopeError, match=r"mine\.npz cannot be read as an \.npz file"):
            load_arrays(path)


def test_damaged_contents_are_named(save: Any) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (6, 20, 20), dtype=np.uint8)
    path = save(x=noise, y=Y)
    content = bytearray(path.read_bytes())
    content[500:510] = bytes(10)
    path.write_bytes(content)
    with pytest.raises(LawscopeError, match=r"mine\.npz cannot be read"):
        load_arrays(path)


def test_a_single_array_is_not_an_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(LawscopeError, match=r"x\.npy cannot be read as an \.npz file"):
        load_arrays(tmp_path / "x.npy")


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LawscopeError, match=r"nowhere\.npz does not exist"):
        load_arrays(tmp_path / "nowhere.npz")
