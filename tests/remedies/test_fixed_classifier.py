"""A head fixed to a simplex: nearest to what it was, frozen, and undone."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import cases
from torch import nn

import lawscope as ls
from lawscope.remedies.fixed_classifier import find_nearest_simplex


@given(
    classes=st.integers(2, 7), extra=st.integers(-1, 5), seed=st.integers(0, 99), zero=st.booleans()
)
@settings(max_examples=40, deadline=None)
def test_nearest_simplex(classes, extra, seed, zero):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, max(1, classes + extra), generator=generator).double()
    weight = 0 * weight if zero else weight
    frame = find_nearest_simplex(weight)
    norm = classes**0.5 if zero else float(weight.norm())
    gram = frame @ frame.T * ((classes - 1) / norm**2)
    simplex = torch.eye(classes).double() - 1 / classes
    assert torch.allclose(gram, simplex, atol=1e-9)
    # No rotation of the features brings it nearer.
    turn = torch.linalg.qr(torch.randn(*[frame.shape[1]] * 2, generator=generator).double())[0]
    assert (frame - weight).norm() <= (frame @ turn - weight).norm() + 1e-9


def test_fixed_head_stays_and_can_be_undone():
    model, (x, y) = cases.sequential(), (cases.vectors(), cases.labels())
    before = {k: v.clone() for k, v in model.state_dict().items()}
    fixed = ls.fix_classifier(model, (x, y))
    assert fixed.name == "5"
    frame = model[5].weight.clone()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    assert torch.equal(model[5].weight, frame)
    assert torch.equal(model[5].bias, torch.zeros(4))
    assert not torch.equal(model[0].weight, before["0.weight"])
    assert ls.collapse(model, (x, y)).nc2.classifiers.angle_error < 1e-6
    fixed.undo()
    assert torch.equal(model[5].weight, before["5.weight"])
    assert torch.equal(model[5].bias, before["5.bias"])
    assert model[5].weight.requires_grad
    assert model[5].bias.requires_grad


def test_it_says_in_a_line_what_it_is():
    fixed = ls.fix_classifier(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
    said = "head '2' fixed at a simplex of 3 classes in 8 dimensions"
    assert (str(fixed), repr(fixed)) == (said, f"<FixedClassifier: {said}>")


def test_fixed_as_long_as_the_block_lasts():
    model = cases.sequential()
    before = model[5].weight.clone()
    with ls.fix_classifier(model, head="5"):
        assert not model[5].weight.requires_grad
    assert torch.equal(model[5].weight, before)


class _Fcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.conv = nn.Conv2d(5, 4, 1), nn.Conv2d(3, 5, 3)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x))).mean((2, 3))


def test_the_head_is_found_by_what_it_computes():
    model = _Fcn()
    assert ls.fix_classifier(model, cases.images()).name == "head"
    with pytest.raises(ls.LawscopeError, match="kernel larger than 1×1"):
        ls.fix_classifier(model)  # the last in the list is not the head


@pytest.mark.parametrize(
    ("model", "more", "sentence"),
    [
        (nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 4)), {}, "needs at least 3"),
        (nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 1)), {}, "1 row"),
        (nn.ReLU(), {}, "no nn.Linear"),
        (nn.Sequential(nn.Linear(6, 4)), {"head": "x"}, "no module head='x'"),
        (nn.Sequential(nn.Linear(6, 4), nn.ReLU()), {"head": "1"}, "is a ReLU"),
    ],
)
def test_heads_that_cannot_be_fixed(model, more, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.fix_classifier(model, **more)


def test_a_head_tied_to_an_embedding_is_left_alone():
    model = nn.Sequential(nn.Embedding(4, 6), nn.Linear(6, 4, bias=False))
    model[1].weight = model[0].weight
    before = model[0].weight.detach().clone()
    with pytest.raises(ls.LawscopeError, match=r"the head '1' is also that of '0'.*untie"):
        ls.fix_classifier(model)
    assert torch.equal(model[0].weight, before)
    assert model[0].weight.requires_grad


def test_a_head_that_is_not_finite_is_left_alone():
    head = nn.Linear(6, 4)
    nn.init.constant_(head.bias, math.nan)
    with pytest.raises(ls.LawscopeError, match="bias of the head '' has NaN"):
        ls.fix_classifier(head)
    assert head.weight.requires_grad
