"""The bars of the collapse verdict and of its advice, from both sides."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import lawscope as ls
from lawscope.laws.collapse_advice import merged_classes
from lawscope.laws.collapse_metrics import NC1
from lawscope.laws.collapse_verdict import judge_collapse

SIMPLEX = 1.5 * np.eye(3) - 0.5


def verdict(papyan=0.01, angle=0.0, nc3=0.0, nc4=0.001, spread=1e-6):
    """The verdict on three classes whose numbers are off the predicted by as much."""
    measured = SIMPLEX + angle * (1 - np.eye(3))
    interval = {"D": (3 * papyan - spread, 3 * papyan + spread), "nc4": (nc4 - 1e-6, nc4 + 1e-6)}
    predicted = SimpleNamespace(cosines=SIMPLEX, nc3=0.2)
    found = judge_collapse(
        NC1(3 * papyan, papyan, 0.0), measured, 0.2 + nc3, nc4, interval, predicted
    )
    return found[0]


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("papyan", 0.099, 0.101),
        ("angle", 0.099, 0.101),
        ("nc3", 0.099, 0.101),
        ("nc3", -0.099, -0.101),
        ("nc4", 0.0099, 0.0101),
    ],
)
def test_each_of_the_four_bars_decides(name, inside, outside):
    assert verdict() == "holds"
    assert verdict(**{name: inside}) == "holds"
    assert verdict(**{name: outside}) == "does not hold"


def test_an_interval_across_the_bar_settles_nothing():
    assert verdict(papyan=0.099, spread=0.1) == "cannot be told"
    assert verdict(papyan=math.nan) == "cannot be told"


def test_classes_are_merged_from_a_cosine_of_nine_tenths():
    pair = np.array([[1.0, 0.89], [0.89, 1.0]])
    assert merged_classes(pair) == []
    assert merged_classes(pair + 0.02) == [[0, 1]]


@pytest.mark.parametrize(("bias", "told"), [(0.18, False), (0.2, True)])
def test_a_bias_of_a_tenth_of_the_logits_is_told(bias, told):
    # Features are the axes and the head is the identity: centred logits have the square 2/3.
    head = nn.Linear(3, 3)
    with torch.no_grad():
        head.weight.copy_(torch.eye(3))
        head.bias.copy_(torch.tensor([bias, 0.0, -bias]))
    y = torch.arange(60) % 3
    x = torch.eye(3)[y] + 1e-3 * torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    found = ls.collapse(head, (x, y))
    assert found.bias_share == pytest.approx(2 * bias**2 / (2 * bias**2 + 2 / 3), rel=0.01)
    assert any("The bias makes" in sentence for sentence in found.advice) == told


def test_the_interval_of_nc1_is_divided_like_nc1():
    y = torch.arange(60) % 3
    x = torch.eye(3)[y] + 0.3 * torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    rows = ls.collapse(nn.Linear(3, 3), (x, y)).table().set_index("metric")
    for column in ("value", "low", "high"):
        assert rows.loc["NC1 Papyan", column] == rows.loc["NC1 D", column] / 3


def test_one_sample_per_class_has_no_spread():
    with pytest.raises(ls.LawscopeError, match="3 samples in 3 classes: no class has two"):
        ls.collapse(nn.Linear(3, 3), (torch.eye(3), torch.arange(3)))
