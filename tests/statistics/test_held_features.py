"""Held features come back as they were given, in few pieces."""

import pytest
import torch

from lawscope.statistics import held_features
from lawscope.statistics.held_features import HeldFeatures


def batches(sizes, dim=3):
    """Numbered features and groups in batches of these sizes."""
    total = sum(sizes)
    features = torch.arange(total * dim, dtype=torch.float32).view(total, dim)
    return list(zip(features.split(sizes), torch.arange(total).split(sizes), strict=True))


@pytest.mark.parametrize("expected", [None, 0, 7, 60, 1000])
@pytest.mark.parametrize("start", [0, 1, 12, 59, 60])
def test_everything_from_a_sample_on_comes_back_in_order(expected, start, monkeypatch):
    monkeypatch.setattr(held_features, "BLOCK_BYTES", 20 * 3 * 4)
    held, given = HeldFeatures(expected), batches([5, 1, 30, 4, 20])
    for features, rows in given:
        held.add(features, rows)
    blocks = list(held.blocks(start))
    assert [r for _, rows in blocks for r in rows.tolist()] == list(range(start, 60))
    everything = torch.cat([f for f, _ in given])[start:]
    assert torch.equal(torch.cat([everything[:0], *(f for f, _ in blocks)]), everything)
    assert (held.samples, held.bytes) == (60, 60 * 3 * 4)


def test_expected_samples_share_one_block():
    held = HeldFeatures(expected=50)
    for features, rows in batches([1] * 50):
        held.add(features, rows)
    assert len(list(held.blocks())) == 1


def test_what_the_network_overwrites_is_kept():
    held, features = HeldFeatures(), torch.ones(2, 3)
    held.add(features, torch.zeros(2, dtype=torch.int64))
    features.zero_()
    ((kept, _),) = held.blocks()
    assert bool((kept == 1).all())


def test_batches_of_another_precision_keep_theirs():
    held, rows = HeldFeatures(), torch.zeros(2, dtype=torch.int64)
    held.add(torch.ones(2, 3), rows)
    held.add(torch.full((2, 3), 1 / 3, dtype=torch.float64), rows)
    assert [f.dtype for f, _ in held.blocks()] == [torch.float32, torch.float64]
