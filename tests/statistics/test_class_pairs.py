"""Means over pairs of samples against loops, and intervals against a known population."""

import itertools

import numpy as np
import pytest
from scipy.stats import t

from lawscope.statistics.class_pairs import compute_class_pairs, compute_pair_gap


def by_loops(values, classes):
    """Same, other and gap, pair by pair."""
    labels = np.unique(classes)
    pairs = {(k, j): [] for k in labels for j in labels}
    for a, b in itertools.permutations(range(len(classes)), 2):
        pairs[classes[a], classes[b]].append(values[a, b])
    means = {pair: np.mean(found) for pair, found in pairs.items()}
    same = np.mean([mean for (k, j), mean in means.items() if k == j])
    other = np.mean([mean for (k, j), mean in means.items() if k != j])
    return np.array([same, other, same - other]), means


def test_means_and_intervals_are_those_of_loops():
    random = np.random.default_rng(0)
    classes = np.array([0, 2, 1, 0, 2, 1, 1, 2, 0, 1, 2, 2])
    values = random.normal(size=(12, 12)) + classes[:, None]
    found = compute_pair_gap(values, classes)
    expected, means = by_loops(values, classes)
    assert [found.same, found.other, found.gap] == pytest.approx(expected)
    table = compute_class_pairs(values, classes)
    assert all(table[pair] == pytest.approx(mean) for pair, mean in means.items())
    variance = np.zeros(3)
    for label in range(3):
        rows = np.flatnonzero(classes == label)
        kept = [np.delete(np.arange(12), row) for row in rows]
        again = np.array([by_loops(values[np.ix_(k, k)], classes[k])[0] for k in kept])
        variance += (len(rows) - 1) / len(rows) * ((again - again.mean(axis=0)) ** 2).sum(axis=0)
    width = t.ppf(0.975, 12 - 3) * np.sqrt(variance)
    for i, name in enumerate(("same", "other", "gap")):
        assert found.interval[name] == pytest.approx(
            (expected[i] - width[i], expected[i] + width[i])
        )


def test_a_class_of_two_has_a_gap_and_no_interval():
    found = compute_pair_gap(np.eye(5), np.array([0, 0, 1, 1, 1]))
    assert found.gap == 0
    assert found.interval == {}


def similar(samples):
    """|z·z′|/|z|², as the relative similarity of a linear classifier."""
    gram = samples @ samples.T
    return np.abs(gram / np.diag(gram)[:, None])


@pytest.mark.parametrize(("classes", "probes"), [(2, 4), (3, 8), (10, 8)])
def test_intervals_cover_the_population(classes, probes):
    random = np.random.default_rng(classes * probes)
    centres = random.normal(size=(classes, 5)) * 1.5
    labels = np.repeat(np.arange(classes), probes)
    crowd = np.repeat(np.arange(classes), 4000 // classes)
    population = by_sums(similar(centres[crowd] + random.normal(size=(len(crowd), 5))), crowd)
    trials, covered = 400, 0
    for _ in range(trials):
        samples = centres[labels] + random.normal(size=(len(labels), 5))
        low, high = compute_pair_gap(similar(samples), labels).interval["gap"]
        covered += low <= population <= high
    # Three standard errors below 95 %; too wide is allowed for few probes, not beyond 99.5 %.
    assert 0.917 <= covered / trials <= 0.995


def by_sums(values, classes):
    means = compute_class_pairs(values, classes)
    off = ~np.eye(len(means), dtype=bool)
    return np.diag(means).mean() - means[off].mean()
