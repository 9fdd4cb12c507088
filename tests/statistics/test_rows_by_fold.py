"""Rows in the order of their folds, and labels that blocks share."""

import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lawscope.statistics.prediction_moments import JOINED_ROWS, PredictionMoments
from lawscope.statistics.rows_by_fold import RowLabels, by_fold


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=4))
def test_rows_keep_their_targets_and_their_order_within_a_fold(batches):
    parts, start = [], 0
    for folds in batches:
        numbers = torch.arange(start, start + len(folds))
        parts.append((numbers[:, None] * 1.0, RowLabels(numbers[:, None], torch.tensor(folds))))
        start += len(folds)
    features, labels = by_fold(parts)
    everything = [fold for folds in batches for fold in folds]
    expected = sorted(range(start), key=everything.__getitem__)
    assert features[:, 0].tolist() == labels.targets[:, 0].tolist() == expected
    assert labels.folds.tolist() == sorted(everything)
    assert sum(labels.sizes) == start


def test_blocks_that_see_the_same_rows_share_their_labels():
    parts = [RowLabels(torch.arange(3)[:, None], torch.tensor([1, 0, 1])) for _ in range(2)]
    first, second = ([(torch.randn(3, 2), labels) for labels in parts] for _ in range(2))
    assert by_fold(first)[1] is by_fold(second)[1]
    assert by_fold(first[:1])[1] is not by_fold(second[1:])[1]  # equal labels of other rows


def test_rows_as_they_are_need_no_copy_and_are_not_kept_alive():
    features, labels = torch.randn(3, 2), RowLabels(torch.ones(3, 1), torch.tensor([0, 0, 2]))
    gone = weakref.ref(labels)
    assert by_fold([(features, labels)])[0] is features
    del labels
    assert gone() is None


def test_types_are_counted_once_each():
    labels = RowLabels(torch.tensor([[7, 1], [3, 1], [7, 1]]), torch.zeros(3, dtype=torch.int64))
    first, second = labels.types
    assert (first.ids.tolist(), first.counts.tolist()) == ([3, 7], [1, 2])
    assert first.ids[first.places].tolist() == [7, 3, 7]
    assert (second.ids.tolist(), second.counts.tolist()) == ([1], [3])


@pytest.mark.parametrize("defer", [False, True])
def test_rows_wait_for_enough_and_deferred_ones_for_twice_as_many(defer):
    statistic = PredictionMoments(2)
    labels = RowLabels(torch.zeros(JOINED_ROWS // 2, 1), torch.zeros(JOINED_ROWS // 2).long())
    seen = []
    for _ in range(4):
        statistic.update(torch.randn(JOINED_ROWS // 2, 2), labels, defer=defer)
        seen.append((statistic.due, statistic.basis is not None))
    waits, due, done = (False, False), (True, False), (False, True)
    assert seen == ([waits, due, due, done] if defer else [waits, done, done, done])
