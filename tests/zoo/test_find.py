"""Whatever a person hands over becomes a dataset, or a sentence."""

from pathlib import Path

import numpy as np
import pytest
import torch

from lawscope.errors import LawscopeError
from lawscope.zoo.find import find_data


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
        (([[1.0], [1.0, 2.0]], [0, 1]), "no arrays"),
    ],
)
def test_what_is_no_data(data: object, said: str) -> None:
    with pytest.raises(LawscopeError, match=said):
        find_data(data)  # type: ignore[arg-type]
