"""Symmetric matrices of folds, two to a rectangle, against whole ones."""

import pytest
import torch

from lawscope.statistics.symmetric_sums import BLOCK, SymmetricSums, mirrored


def folds_of(dim, folds, dtype=torch.float64):
    generator = torch.Generator().manual_seed(dim + folds)
    rows = [torch.randn(dim + 5, dim, generator=generator).to(dtype) for _ in range(folds)]
    sums = SymmetricSums(dim, folds)
    for _ in range(2):  # sums go on
        for fold in reversed(range(folds)):
            sums.add(fold, rows[fold])
    return sums, [2 * (x.double().T @ x.double()) for x in rows]


@pytest.mark.parametrize("folds", [1, 2, 3, 5])
@pytest.mark.parametrize("dim", [1, 2, BLOCK, BLOCK + 1, 2 * BLOCK + 7])
def test_every_fold_and_any_sum_of_them_is_that_of_the_rows(dim, folds):
    sums, expected = folds_of(dim, folds)
    for fold in range(folds):
        torch.testing.assert_close(sums.total(fold), expected[fold])
    torch.testing.assert_close(sums.diagonals(), torch.stack([m.diagonal() for m in expected]))
    torch.testing.assert_close(sums.total(), sum(expected))
    torch.testing.assert_close(sums.total(0, folds - 1), expected[0] + expected[-1])
    assert torch.equal(sums.total(), sums.total().T)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_without_a_fold_the_upper_triangle_is_meant(dtype):
    sums, expected = folds_of(50, 3)
    whole = sum(expected).to(dtype)
    for fold in range(3):
        rest = sums.less(whole, fold)
        assert rest.is_contiguous()
        wanted = (sum(expected) - expected[fold]).to(dtype)
        torch.testing.assert_close(rest.triu(), wanted.triu(), rtol=1e-4, atol=1e-4)


def test_float32_rows_are_multiplied_as_such_and_summed_wider():
    sums, expected = folds_of(30, 2, torch.float32)
    assert sums.pairs.dtype == torch.float64
    torch.testing.assert_close(sums.total(), sum(expected), rtol=1e-5, atol=1e-4)
    assert not torch.equal(sums.total(), sum(expected))


@pytest.mark.parametrize("folds", [2, 3])
def test_a_fold_that_is_replaced_leaves_the_others_alone(folds):
    for fold in range(folds):
        sums, expected = folds_of(20, folds)
        expected[fold] = torch.eye(20, dtype=torch.float64) * 7
        sums.put(fold, expected[fold])
        for other in range(folds):
            torch.testing.assert_close(sums.total(other), expected[other])


def test_half_the_memory_of_whole_matrices():
    assert SymmetricSums(100, 4).pairs.numel() == 2 * 100 * 101
    assert SymmetricSums(100, 5).pairs.numel() == 3 * 100 * 101


@pytest.mark.parametrize("dim", [1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_mirrored_reads_the_upper_triangle_only(dim):
    matrix = torch.randn(dim, dim, generator=torch.Generator().manual_seed(0))
    upper = matrix.masked_fill(torch.ones(dim, dim).tril(-1).bool(), torch.nan)
    assert torch.equal(mirrored(upper), matrix.triu() + matrix.triu(1).T)
