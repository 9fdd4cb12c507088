"""Rows through the inverse of a triangular factor against a solve by NumPy."""

import numpy as np
import pytest
import torch

from lawscope.statistics.triangular_rows import BLOCK, TriangularRows


@pytest.mark.parametrize("steep", [1.0, 300.0])
@pytest.mark.parametrize("dim", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_equals_a_dense_solve_and_reads_the_upper_triangle_only(dim, steep):
    generator = torch.Generator().manual_seed(dim)
    x = torch.randn(3 * dim + 5, dim, generator=generator, dtype=torch.float64)
    x = x * torch.logspace(0, -np.log10(steep), dim, dtype=torch.float64)
    upper = torch.linalg.cholesky(x.T @ x, upper=True)
    rows = torch.randn(20, dim, generator=generator, dtype=torch.float64)
    expected = np.linalg.solve(upper.T.numpy(), rows.T.numpy()).T
    upper[torch.ones(dim, dim, dtype=torch.bool).tril(-1)] = torch.nan
    made = TriangularRows(upper)(rows)
    assert made is rows
    scale = np.abs(expected).max()
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-11, atol=1e-12 * scale)


def test_many_rows_go_through_one_after_the_other():
    upper = torch.eye(5, dtype=torch.float64) * 2
    solve = TriangularRows(upper)
    for _ in range(2):
        assert solve(torch.ones(3, 5, dtype=torch.float64)).eq(0.5).all()
