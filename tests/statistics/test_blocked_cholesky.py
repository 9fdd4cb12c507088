"""Cholesky's factor by blocks against LAPACK's."""

import pytest
import torch

from lawscope.statistics.blocked_cholesky import BLOCK, upper_factor


def moments(dim, dtype, rows=None):
    x = torch.randn(rows or 3 * dim, dim, generator=torch.Generator().manual_seed(dim)).double()
    return (x.T @ x).to(dtype)


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
@pytest.mark.parametrize("dim", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_equals_lapack_and_reads_the_upper_triangle_only(dim, dtype, digits):
    matrix = moments(dim, dtype)
    expected = torch.linalg.cholesky(matrix).T
    upper = upper_factor(matrix.masked_fill(torch.ones(dim, dim).tril(-1).bool(), torch.nan))
    torch.testing.assert_close(upper, expected, rtol=0, atol=digits * float(expected.max()))
    assert not upper.tril(-1).any()


@pytest.mark.parametrize("place", [0, BLOCK - 1, BLOCK, 2 * BLOCK + 3])
def test_what_is_not_positive_definite_has_none(place):
    """In the first block, at its end, and behind others."""
    matrix = moments(2 * BLOCK + 10, torch.float64)
    matrix[place, place] = -1.0
    assert upper_factor(matrix) is None


def test_the_factor_stands_where_the_matrix_was():
    matrix = moments(10, torch.float64)
    assert upper_factor(matrix).data_ptr() == matrix.data_ptr()
