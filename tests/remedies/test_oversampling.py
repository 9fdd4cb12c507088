"""Sampling rates: the smallest that separate, and the sampler that applies them."""

import json
import math

import numpy as np
import pytest
import torch

import lawscope as ls
from lawscope.theory.layer_peeled.thresholds import collapse_floor

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
    ],
)
def test_bad_input_is_a_sentence(call, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        call()
