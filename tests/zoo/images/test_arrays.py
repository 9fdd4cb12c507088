"""Arrays that become a dataset, and a dataset that becomes what a network takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lawscope.errors import LawscopeError
from lawscope.zoo.images.arrays import as_inputs, load_arrays, make_dataset

X = np.random.default_rng(0).integers(0, 256, (4, 6, 5), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
Y = np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("x", "kept"),
    [
        (X, (4, 6, 5)),
        (X[..., None], (4, 6, 5)),
        (COLOUR, (4, 6, 5, 3)),
        (np.zeros((4, 7), np.float32), (4, 7)),
        (np.zeros((4, 3, 6, 5)), (4, 3, 6, 5)),
    ],
)
def test_shapes_that_are_taken(x: Any, kept: tuple[int, ...]) -> None:
    data = make_dataset("some", "file", (x, Y.astype(np.uint8)[:, None]))
    assert data.x_train.shape == kept
    assert data.x_train.dtype == x.dtype
    assert (data.y_train.dtype, data.y_train.tolist()) == (np.int64, Y.tolist())


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (X[:3], Y, r"shape \(3, 6, 5\) and 4 labels: give as many"),
        (X[:0], Y[:0], "file holds no examples"),
        (X, Y[:, None].repeat(2, axis=1), r"labels of shape \(4, 2\)"),
        (X, Y[None], r"labels of shape \(1, 4\)"),
        (X, Y.astype(float), "type float64: give one integer per example"),
        (X, Y - 1, "label -1: number the classes"),
        (X, Y * 4, "label 4, but no more than 4 classes"),
        (X.reshape(4, 30), Y, r"shape \(4, 30\) and type uint8: give uint8 pixels"),
        (COLOUR[..., :2], Y, r"shape \(4, 6, 5, 2\)"),
        (X.astype(np.int64), Y, "type int64: give uint8 pixels"),
        (np.full((4, 2), np.nan), Y, "infinite or not numbers"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(x: Any, y: Any, sentence: str) -> None:
    with pytest.raises(LawscopeError, match=sentence):
        make_dataset("some", "file", (x, y))


@pytest.mark.parametrize("x_test", [np.zeros((4, 6, 6), np.uint8), np.zeros((4, 6, 5))])
def test_train_and_test_must_be_alike(x_test: Any) -> None:
    with pytest.raises(LawscopeError, match=r"file has training examples.*make them alike"):
        make_dataset("some", "file", (X, Y), (x_test, Y))


def test_labels_of_the_test_set_count_too() -> None:
    data = make_dataset("some", "file", (X, Y), (X, Y + 1))
    assert data.class_names == ("0", "1", "2")
    with pytest.raises(LawscopeError, match="label 2, but no more than 2 classes"):
        make_dataset("some", "file", (X, Y), (X, Y + 1), class_names=("a", "b"))


@pytest.mark.parametrize("test", [0, 2])
def test_npz_files_have_a_test_set_or_none(tmp_path: Any, test: int) -> None:
    arrays = {"x_train": X, "y_train": Y, "extra": Y}
    arrays |= {"x_test": X[:test], "y_test": Y[:test]} if test else {}
    np.savez(tmp_path / "mine.npz", **arrays)
    data = load_arrays(str(tmp_path / "mine.npz"))
    assert (data.name, data.class_names) == ("mine", ("0", "1"))
    np.testing.assert_array_equal(data.x_train, X)
    np.testing.assert_array_equal(data.x_test, X[:test])
    assert (data.y_test.dtype, data.y_test.tolist()) == (np.int64, Y[:test].tolist())


@pytest.mark.parametrize("x", [X, COLOUR, X[:, ::-1], X[:0]], ids=["gray", "colour", "flip", "0"])
def test_pixels_become_numbers_with_their_channels_first(x: Any) -> None:
    inputs = as_inputs(x, flatten=False)
    channels = x[..., None] if x.ndim == 3 else x
    assert inputs.dtype == torch.float32
    expected = np.moveaxis(channels, 3, 1) / 127.5 - 1
    np.testing.assert_allclose(inputs.numpy(), expected, atol=1e-6)
    assert torch.equal(as_inputs(x), inputs.flatten(1))
    assert as_inputs(np.array([[[0, 255]]], np.uint8)).tolist() == [[-1.0, 1.0]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floating_point_keeps_its_values_in_memory_of_its_own(dtype: Any) -> None:
    x = np.array([[0.5, -3.0], [2.0, 100.0]], dtype=dtype)
    inputs = as_inputs(x)
    assert (inputs.dtype, inputs.tolist()) == (torch.float32, x.tolist())
    inputs.zero_()
    assert x.all()
    deep = np.zeros((2, 3, 4, 5), dtype)
    assert as_inputs(deep).shape == (2, 60)
    assert as_inputs(deep, flatten=False).shape == (2, 3, 4, 5)


@pytest.mark.parametrize("x", [X[0], X.astype(np.int64), COLOUR[..., :2], np.zeros(3)])
def test_other_arrays_are_refused(x: Any) -> None:
    with pytest.raises(LawscopeError, match="are not inputs: give uint8 pixels"):
        as_inputs(x)
