"""One triangle of products and factors, by BLAS and by torch, against whole matrices."""

import pytest
import torch

from lawscope.statistics import symmetric_blas
from lawscope.statistics.symmetric_blas import add_gram, upper_factor

DIGITS = {torch.float64: 1e-13, torch.float32: 1e-5}


@pytest.fixture(params=["scipy", "torch", "several threads"], autouse=True)
def library(request, monkeypatch):
    """SciPy's functions, what is done without them, and where torch has more than one thread."""
    assert symmetric_blas._exported("dsyrk") is not None
    if request.param == "torch":
        monkeypatch.setattr(symmetric_blas, "_exported", lambda name: None)
    before = torch.get_num_threads()
    torch.set_num_threads(2 if request.param == "several threads" else 1)
    yield request.param
    torch.set_num_threads(before)


def normal(*shape, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("n", "dim"), [(1, 1), (3, 7), (200, 97), (90, 200), (40, 500)])
def test_a_gram_matrix_is_added_to_one_triangle_and_the_other_left_alone(dtype, lower, n, dim):
    rows, before = normal(n, dim, dtype=dtype), normal(dim, dim, dtype=dtype)
    half = torch.tril if lower else torch.triu
    expected = before + half(rows.T @ rows)
    sums = before.clone()
    add_gram(sums, rows, lower=lower)
    scale = float(expected.abs().max())
    torch.testing.assert_close(sums, expected, rtol=0, atol=DIGITS[dtype] * scale)
    other = ~half(torch.ones(dim, dim)).bool()
    assert torch.equal(sums[other], before[other])


def test_sums_may_be_part_of_a_wider_matrix_and_rows_lie_in_any_order():
    wide, rows = torch.zeros(5, 9, dtype=torch.float64), normal(5, 12).T
    add_gram(wide[:, 2:7], rows)
    torch.testing.assert_close(wide[:, 2:7], (rows.T @ rows).triu())
    assert not wide[:, :2].any()
    assert not wide[:, 7:].any()


def test_rows_of_another_dtype_are_widened_first_and_no_features_are_none():
    rows, sums = normal(9, 6, dtype=torch.float32), torch.zeros(6, 6, dtype=torch.float64)
    add_gram(sums, rows)
    torch.testing.assert_close(sums, (rows.double().T @ rows.double()).triu())
    add_gram(torch.zeros(0, 0), torch.zeros(3, 0))
    assert upper_factor(torch.zeros(0, 0)).shape == (0, 0)


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("dim", [1, 2, 95, 300])
def test_the_factor_equals_torch_s_and_reads_the_upper_triangle_only(dtype, dim):
    rows = normal(3 * dim, dim)
    matrix = (rows.T @ rows).to(dtype)
    expected = torch.linalg.cholesky(matrix).T
    below = torch.ones(dim, dim).tril(-1).bool()
    upper = upper_factor(matrix.masked_fill(below, torch.nan))
    torch.testing.assert_close(upper, expected, rtol=0, atol=DIGITS[dtype] * float(expected.max()))
    assert not upper.tril(-1).any()


@pytest.mark.parametrize("place", [0, 95, 201])
@pytest.mark.parametrize("value", [-1.0, torch.nan])
def test_what_is_not_positive_definite_has_no_factor(place, value):
    rows = normal(600, 202)
    matrix = rows.T @ rows
    matrix[place, place] = value
    assert upper_factor(matrix) is None


def test_the_factor_stands_where_the_matrix_was():
    matrix = torch.eye(4) * 9
    upper = upper_factor(matrix)
    assert upper.data_ptr() == matrix.data_ptr()
    assert torch.equal(upper, 3 * torch.eye(4))


def test_a_library_that_counts_in_other_integers_is_left_alone(monkeypatch, library):
    if library != "scipy":
        return
    from scipy.linalg import cython_blas

    class Capsules(dict):
        def __getitem__(self, name):
            return name

    symmetric_blas._exported.cache_clear()
    monkeypatch.setattr(cython_blas, "__pyx_capi__", Capsules())
    monkeypatch.setattr(
        symmetric_blas, "_signature", lambda capsule: b"void (char *, npy_int64 *, double *)"
    )
    try:
        assert symmetric_blas._exported("dsyrk") is None
    finally:
        symmetric_blas._exported.cache_clear()
