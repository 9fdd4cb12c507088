"""A sample's hash depends on its content alone."""

import pytest
import torch

from lawscope.data.batches import Batch
from lawscope.data.row_hash import hash_rows, hash_samples


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8]
)
def test_neither_order_nor_batches_change_it(dtype):
    rows = (100 * torch.rand(50, 3, 7)).to(dtype)
    hashes, order = hash_rows(rows), torch.randperm(50)
    assert torch.equal(hash_rows(rows[order]), hashes[order])
    assert torch.equal(torch.cat([hash_rows(rows[:13]), hash_rows(rows[13:])]), hashes)
    assert len(hashes.unique()) == 50


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_precision_of_floats_does_not_change_it(dtype):
    rows = torch.randn(20, 7).to(torch.bfloat16)
    assert torch.equal(hash_rows(rows.to(dtype)), hash_rows(rows.double()))


def test_folds_are_about_equally_large_for_round_numbers_too():
    for rows in (torch.randn(8000, 5), (torch.rand(8000, 30) > 0.5).float(), torch.arange(8000)):
        counts = (hash_rows(rows) % 8).bincount(minlength=8)
        assert counts.min() > 800
        assert counts.max() < 1200


def test_one_number_changes_it():
    rows = torch.randn(2, 100)
    rows[1] = rows[0]
    assert hash_rows(rows).unique().numel() == 1
    rows[1, 57] += 1e-6
    assert hash_rows(rows).unique().numel() == 2


def test_padding_does_not_count_wherever_it_stands():
    ids, real = torch.randint(1, 50, (6, 9)), torch.ones(6, 9, dtype=torch.int64)

    def padded(before, after, word):
        def pad(rows, value):
            return torch.nn.functional.pad(rows, (before, after), value=value)

        kwargs = {"input_ids": pad(ids, word), "attention_mask": pad(real, 0)}
        return hash_samples(Batch((), kwargs, None))

    assert torch.equal(padded(0, 0, 0), padded(0, 4, 7))
    assert torch.equal(padded(0, 0, 0), padded(3, 0, 0))
