"""Remedies against minority collapse: sampling rates, a fixed head, an outlook before training."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import cases
from torch import nn

import lawscope as ls
from lawscope.theory.layer_peeled.oversampling import collapse_floor
from lawscope.training.fixed_classifier import nearest_simplex

THREE = [1000.0] * 3 + [100.0] * 3 + [10.0] * 3


def phases(peeled):
    return [g.phase for g in peeled.groups]


@pytest.mark.parametrize(
    ("counts", "energy"),
    [([1000] * 5 + [10] * 5, 5.0), (THREE, 1.0), (THREE, 5.0), ([900] * 4 + [300] + [4] * 3, 5.0)],
)
def test_rates_are_the_smallest_that_separate(counts, energy):
    plan = ls.oversampling_weights(counts, 1.0, energy)
    assert plan.needed
    assert "collapsed" in phases(plan.before)
    assert set(phases(plan.after)) == {"separated"}
    again = ls.peel(counts, 1.0, energy, oversampling=plan.rates)
    assert set(phases(again)) == {"separated"}
    less = np.where(plan.rates > 1, 0.99 * plan.rates, 1.0)
    assert "collapsed" in phases(ls.peel(counts, 1.0, energy, oversampling=less))


def test_two_sizes_need_the_ratio_over_the_threshold():
    plan = ls.oversampling_weights([1000] * 5 + [10] * 5, margin=0.0)
    assert plan.rates[-1] == pytest.approx(100 / ls.collapse_threshold([1000] * 5 + [10] * 5))
    assert plan.rates[0] == 1


def test_only_classes_below_the_floor_are_lifted():
    floor = collapse_floor(THREE, 1.0, 5.0)
    plan = ls.oversampling_weights(THREE, 1.0, 5.0, margin=0.1)
    assert 10 < floor < 100
    assert plan.rates.tolist() == pytest.approx([1.0] * 6 + [floor * 1.1 / 10] * 3)


def test_nothing_to_do_where_nothing_collapses():
    plan = ls.oversampling_weights([100, 90, 80], 1.0, 25.0)
    assert not plan.needed
    assert plan.rates.tolist() == [1, 1, 1]
    assert "no oversampling" in str(plan)


def test_the_sampler_draws_by_the_rates():
    labels = torch.tensor([0] * 400 + [1] * 400 + [2] * 4)
    plan = ls.oversampling_weights([400, 400, 4], 1.0, 2.0)
    torch.manual_seed(0)
    sampler = plan.sampler(labels, samples=20000)
    drawn = labels[list(sampler)].bincount()
    share = plan.counts * plan.rates
    expected = 20000 * share / share.sum()
    assert np.abs(drawn.numpy() - expected).max() < 5 * math.sqrt(expected.max())
    assert len(plan.sampler(labels)) == math.ceil((plan.counts * plan.rates).sum() - 1e-9)


def test_a_plan_is_plain():
    plan = ls.oversampling_weights([400, 400, 4], 1.0, 2.0)
    json.dumps(plan.to_dict(), allow_nan=False)
    assert plan.table()["rate"].tolist() == plan.rates.tolist()
    assert plan.plot() is not None
    assert plan.balancing.tolist() == [1, 1, 100]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ls.oversampling_weights([5, 0]), "count of class 1 is 0"),
        (lambda: ls.oversampling_weights([5, -1]), "count of class 1 is -1"),
        (lambda: ls.oversampling_weights([5, math.nan]), "count of class 1 is nan"),
        (lambda: ls.oversampling_weights([5]), "two or more classes"),
        (lambda: ls.oversampling_weights([5, 4], margin=-1), "margin is -1"),
        (lambda: ls.oversampling_weights([5, 4], margin="some"), "margin is 'some'"),
        (lambda: ls.oversampling_weights([5, 4], weight_energy=0), "weight_energy is 0"),
        (lambda: ls.oversampling_weights([5, 4]).sampler([0, 1, 2]), "Label 2 has no count"),
        (lambda: ls.oversampling_weights([5, 4]).sampler([0.5]), "list of integers"),
        (lambda: ls.collapse_report([3, 3]), "All 2 labels are 3"),
        (lambda: ls.collapse_report([0.0, math.nan]), "float64"),
        (lambda: ls.collapse_report([[0, 1]]), "one integer per sample"),
        (lambda: ls.collapse_report([]), "one integer per sample"),
    ],
)
def test_bad_input_is_a_sentence(call, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        call()


def test_report_before_training():
    labels = torch.tensor([7] * 500 + [2] * 500 + [3] * 5 + [4] * 5)
    report = ls.collapse_report(labels)
    assert report.classes.tolist() == [2, 3, 4, 7]
    for outlook in report.outlooks:
        found = ls.peel([500, 500, 5, 5], 1.0, outlook.feature_energy)
        assert outlook.phase == found.groups[-1].phase
        assert outlook.threshold == pytest.approx(found.threshold)
        assert outlook.rate == pytest.approx(max(1.0, 100 / found.threshold), rel=1e-6)
    assert "more than" in report.advice[1]
    json.dumps(report.to_dict(), allow_nan=False)
    assert len(report.table()) == 4
    assert report.plot() is not None


def test_report_of_equal_classes_has_nothing_to_fear():
    report = ls.collapse_report([0, 1, 2] * 10)
    assert {o.collapsed for o in report.outlooks} == {0}
    assert "no class collapses" in str(report)


@given(
    classes=st.integers(2, 7), extra=st.integers(-1, 5), seed=st.integers(0, 99), zero=st.booleans()
)
@settings(max_examples=40, deadline=None)
def test_nearest_simplex(classes, extra, seed, zero):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, max(1, classes + extra), generator=generator).double()
    weight = 0 * weight if zero else weight
    frame = nearest_simplex(weight)
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
