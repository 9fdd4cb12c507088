from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lawscope.errors import LawscopeError
from lawscope.zoo.arrays import checked_dataset

X = np.zeros((4, 6, 5), np.uint8)
Y = np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("x", "kept"),
    [
        (X, (4, 6, 5)),
        (X[..., None], (4, 6, 5)),
        (np.zeros((4, 6, 5, 3), np.uint8), (4, 6, 5, 3)),
        (np.zeros((4, 7), np.float32), (4, 7)),
        (np.zeros((4, 3, 6, 5)), (4, 3, 6, 5)),
    ],
)
def test_shapes_that_are_taken(x: Any, kept: tuple[int, ...]) -> None:
    data = checked_dataset("some", "file", (x, Y.astype(np.uint8)))
    assert data.x_train.shape == kept
    assert data.x_train.dtype == x.dtype
    assert data.y_train.dtype == np.int64


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
        (X.reshape(4, 6, 5, 1).repeat(2, axis=3), Y, r"shape \(4, 6, 5, 2\)"),
        (X.astype(np.int64), Y, "type int64: give uint8 pixels"),
        (np.full((4, 2), np.nan), Y, "infinite or not numbers"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(x: Any, y: Any, sentence: str) -> None:
    with pytest.raises(LawscopeError, match=sentence):
        checked_dataset("some", "file", (x, y))


@pytest.mark.parametrize("x_test", [np.zeros((4, 6, 6), np.uint8), np.zeros((4, 6, 5))])
def test_train_and_test_must_be_alike(x_test: Any) -> None:
    with pytest.raises(LawscopeError, match=r"file has training examples.*make them alike"):
        checked_dataset("some", "file", (X, Y), (x_test, Y))


def test_labels_in_a_column() -> None:
    data = checked_dataset("some", "file", (X, Y[:, None]), (X[:0], Y[:0, None]))
    assert data.y_train.tolist() == Y.tolist()
    assert data.y_test.shape == (0,)


def test_labels_of_the_test_set_count_too() -> None:
    data = checked_dataset("some", "file", (X, Y), (X, Y + 1))
    assert data.class_names == ("0", "1", "2")
    with pytest.raises(LawscopeError, match="label 2, but no more than 2 classes"):
        checked_dataset("some", "file", (X, Y), (X, Y + 1), class_names=("a", "b"))
