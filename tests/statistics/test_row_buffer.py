"""Rows come out of a buffer once, in order and joined."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from lawscope.statistics.row_buffer import RowBuffer, split_rows


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 40))
def test_every_row_comes_out_once_and_in_order(sizes, capacity):
    rows = torch.arange(sum(sizes))
    buffer, parts = RowBuffer(capacity), []
    for part in rows.split(sizes):
        parts += buffer.append(part[:, None].expand(-1, 3).float(), part)
        assert 3 * len(buffer) < capacity
    parts += buffer.flush()
    assert len(buffer) == 0
    assert buffer.flush() == []
    assert torch.cat([labels for _, labels in parts]).tolist() == rows.tolist()
    for features, labels in parts:
        assert torch.equal(features, labels[:, None].expand(-1, 3).float())


def test_what_the_network_overwrites_is_kept():
    buffer, features = RowBuffer(100), torch.ones(2, 3)
    assert buffer.append(features) == []
    features.zero_()
    assert torch.equal(buffer.rows()[0], torch.ones(2, 3))
    assert len(buffer) == 2


def test_batches_of_two_precisions_are_joined_in_the_wider():
    buffer = RowBuffer(100)
    buffer.append(torch.ones(2, 3))
    buffer.append(torch.full((2, 3), 1 / 3, dtype=torch.float64))
    ((rows,),) = buffer.flush()
    assert rows.dtype == torch.float64
    assert rows[3, 0] == 1 / 3


def test_slices_are_as_wide_as_the_batch_and_of_at_least_64_rows():
    features, labels = torch.zeros(200, 100_000), torch.arange(200)
    sizes = [(x.shape, len(y)) for x, y in split_rows(features, labels)]
    assert sizes == [((n, 100_000), n) for n in (64, 64, 64, 8)]
