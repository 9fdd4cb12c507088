"""Estimates for the population: bias, coverage, open ends."""

import itertools
import math

import numpy as np
import pytest
import torch

import lawscope as ls
from lawscope.laws.line import line_numbers
from lawscope.laws.population import (
    Estimate,
    _ends_with_open,
    estimate_population,
    find_line_ends,
    jackknife,
)
from lawscope.statistics.class_scatter import ClassScatter


def test_with_equal_folds_it_is_the_textbook_jackknife():
    random = np.random.default_rng(0)
    data = random.normal(size=80)
    folds = np.arange(80) % 8
    whole = np.array([data.var()])
    without = np.array([[data[folds != f].var()] for f in range(8)])
    found = jackknife(np.vstack([whole, without]), np.full(8, 8.0), np.full(8, 8 / 7))
    pseudo = 8 * whole - 7 * without
    assert found.centre == pytest.approx(pseudo.mean(axis=0))
    assert found.error == pytest.approx(pseudo.std(axis=0, ddof=1) / math.sqrt(8))


def test_what_is_linear_in_the_noise_is_found_exactly_from_unequal_folds():
    growth = np.array([1.1, 1.2, 1.15, 1.3])
    values = 2.0 + 3.0 * np.concatenate([[1.0], growth])[:, None]
    found = jackknife(values, np.array([5.0, 3.0, 4.0, 6.0]), growth)
    assert found.centre == pytest.approx([2.0])
    assert found.error == pytest.approx([0.0], abs=1e-12)


def layers(seed, samples, classes=4, dim=12):
    """Three layers of classes with known D: 6, 3 and 1.5."""
    world, random = np.random.default_rng(7), np.random.default_rng(seed)
    y = torch.arange(samples * classes) % classes
    noise, parts, truth = random.normal(size=(len(y), dim)), [], np.array([6.0, 3.0, 1.5])
    for value in truth:
        means = world.normal(size=(classes, dim))
        sizes = np.linalg.svd(means - means.mean(axis=0), compute_uv=False)[: classes - 1]
        inverse = classes * (1 / sizes**2).sum()  # trace of the pseudoinverse of the means' scatter
        x = math.sqrt(value / inverse) * noise + means[y]
        stat = ClassScatter("held", folds=8)
        stat.update(torch.from_numpy(x), y)
        parts.append(stat.compute())
    return parts, truth


def test_intervals_cover_and_the_bias_is_gone():
    held, rho, estimates = [], [], []
    for seed in range(150):
        parts, truth = layers(seed, samples=25)
        found = estimate_population(parts)
        low, high = found.interval.T
        held.append((low <= truth) & (truth <= high))
        ends = found.fit.interval["rho"]
        rho.append(ends[0] <= 0.5 <= ends[1])
        estimates.append(np.minimum(found.values, 100) / truth)
    assert 0.9 <= np.mean(held) <= 0.995
    assert np.mean(rho) >= 0.9
    assert np.median(estimates, axis=0) == pytest.approx(1, abs=0.08)


def test_many_small_classes_leave_no_bias():
    # Of ten samples a fold takes one here and four there, and D of the samples is far too small.
    found = [estimate_population(layers(seed, 10, classes=20, dim=400)[0]) for seed in range(20)]
    inverse = np.mean([1 / each.values for each in found], axis=0)
    assert inverse * [6.0, 3.0, 1.5] == pytest.approx(np.ones(3), abs=0.05)


def test_classes_that_cannot_be_told_apart_leave_the_end_open():
    """D of two classes with the same mean is infinite: an upper end would be wrong."""
    y, closed = torch.arange(80) % 4, []
    for seed in range(40):
        random = np.random.default_rng(seed)
        means = random.normal(size=(4, 12))
        means[1] = means[0]
        stat = ClassScatter(folds=8)
        stat.update(means[y] + 0.3 * random.normal(size=(80, 12)), y)
        found = estimate_population([stat.compute()])
        closed.append(bool(np.isfinite(found.interval[0, 1])))
        assert found.needed is None or found.needed >= 20
        assert closed[-1] or found.needed > 20
    assert np.mean(closed) < 0.1


def test_fewer_features_than_contrasts_do_not_leave_every_end_open():
    # Three features span no more than three of the seven contrasts of eight classes.
    parts, truth = layers(0, samples=200, classes=8, dim=3)
    found = estimate_population(parts)
    assert np.isfinite(found.interval).all()
    assert ((found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1])).all()


def test_with_open_stations_on_the_left_the_ends_are_those_of_brute_force():
    random = np.random.default_rng(3)
    tried = np.exp(np.linspace(0, 60, 61))
    for _ in range(20):
        inverse = Estimate(np.exp(np.sort(random.normal(size=6))), np.zeros((8, 6)))
        closed = np.array([False, False, True, True, True, True])
        low = 1 / inverse.centre
        ends = _ends_with_open(inverse, closed, low)
        curves = [
            np.log([low[0] * a, low[1] * b, *low[2:]]) for a, b in itertools.product(tried, tried)
        ]
        slopes, _, rs = np.transpose([line_numbers(curve) for curve in curves])
        assert ends.slope[1] == pytest.approx(slopes.max())
        assert ends.slope[0] == -math.inf
        if ends.slope[1] < 0:
            assert ends.pearson[1] >= rs.max() - 1e-6
        assert ends.pearson[0] <= rs.min() + 1e-9


def test_a_perfect_line_has_minus_one_in_its_interval_and_a_bend_has_not():
    random = np.random.default_rng(0)
    influence, index = 0.001 * random.normal(size=(8, 6)), np.arange(6.0)
    straight = np.exp(0.5 * index)
    assert find_line_ends(Estimate(straight, straight * influence), index).pearson[0] < -0.99999
    bent = np.exp(0.5 * index + 0.5 * (index > 2))
    low, high = find_line_ends(Estimate(bent, bent * influence), index).pearson
    assert -0.999 < low < line_numbers(-np.log(bent))[2] < high


def test_neither_order_nor_batches_change_an_interval():
    torch.manual_seed(0)
    y = torch.arange(90) % 3
    x = torch.randn(90, 6, dtype=torch.float64) + 2 * torch.eye(6, dtype=torch.float64)[y]
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)
    ).double()
    order = torch.randperm(90)
    here = ls.separation(net, (x, y)).population
    there = ls.separation(net, [(x[i], y[i]) for i in order.split(17)]).population
    assert np.allclose(here.interval, there.interval, rtol=1e-9)
    assert here.fit.interval["slope"] == pytest.approx(there.fit.interval["slope"], rel=1e-9)


def test_the_whole_training_set_has_no_error():
    torch.manual_seed(0)
    y = torch.arange(40) % 4
    x = torch.randn(40, 5) + torch.eye(5)[y]
    net = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.ReLU())
    found = ls.separation(net, (x, y), whole=True)
    assert np.array_equal(found.population.values, found.values)
    assert found.population.settled.all()
    assert found.population.verdict == found.verdict
