"""Rank, condition number and factor without a decomposition, against eigenvalues and NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lawscope.statistics.lanczos import largest_eigenvalue
from lawscope.statistics.spanning_columns import spanning_columns

SHARE = 1e-12


def features(dim, rows, *, steep=1.0, layer_norm=True, seed=0):
    """Centred features with correlations and, after LayerNorm, rows that add up to zero."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, dim, generator=generator, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))[0]
    x = x * torch.logspace(0, -np.log10(steep), dim, dtype=torch.float64) @ turn
    if layer_norm:
        x = torch.nn.functional.layer_norm(x, (dim,))
    return x - x.mean(dim=0)


def found(x, accuracy=1e-5):
    return spanning_columns(x.T @ x, torch.full((x.shape[1],), 1e-20).double(), SHARE, accuracy)


@pytest.mark.parametrize("scale", [1e-60, 1e-25, 1e25, 1e60])
@pytest.mark.parametrize("steep", [30.0, 900.0, 1e4, 1e5])
def test_condition_has_three_digits_whatever_the_scale(steep, scale):
    x = features(60, 600, steep=steep, layer_norm=False) * scale
    sizes = np.linalg.svd((x / x.norm(dim=0)).numpy(), compute_uv=False)
    result = spanning_columns(x.T @ x, torch.zeros(60).double(), SHARE, 1e-3)
    assert result.condition == pytest.approx(sizes[0] / sizes[-1], rel=1e-3)


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("steep", [1.0, 100.0])
@pytest.mark.parametrize("dim", [2, 3, 40, 300])
def test_condition_and_rank_are_those_of_the_singular_values(dim, steep, layer_norm):
    x = features(dim, 5 * dim + 20, steep=steep, layer_norm=layer_norm)
    rank = dim - layer_norm
    sizes = np.linalg.svd((x / x.norm(dim=0)).numpy(), compute_uv=False)
    result = found(x)
    assert result.rank == rank
    assert result.condition == pytest.approx(sizes[0] / sizes[rank - 1], rel=1e-5)


@pytest.mark.parametrize("work", [torch.float32, torch.float64])
@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("steep", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("dim", [2, 40, 300])
def test_rough_conditions_are_hardly_too_small(dim, steep, layer_norm, work):
    """They bound both ends, within the fourth root of the number of features."""
    x = features(dim, 5 * dim + 20, steep=steep, layer_norm=layer_norm)
    least = torch.full((dim,), 1e-20).double()
    rough = spanning_columns(x.T @ x, least, SHARE, None, work=work)
    exact = found(x)
    assert rough.rank == exact.rank
    assert exact.condition / 1.5 < rough.condition < exact.condition * dim**0.25 * 1.5


def test_the_factor_is_that_of_the_others_and_of_the_identity():
    x = features(30, 200)
    x[:, 4] = 0  # never varies; the others still add up to nearly nothing
    x[:, 5:] -= x.sum(dim=1, keepdim=True) / 25
    result = found(x)
    widest = int((x.norm(dim=0)).argmax())
    assert result.off.tolist() == sorted([4, widest])
    expected = x.T @ x
    expected[result.off] = 0
    expected[:, result.off] = 0
    expected[result.off, result.off] = 1
    assert torch.allclose(result.lower @ result.lower.T, expected, rtol=1e-12, atol=1e-12)


def test_nothing_varies():
    result = spanning_columns(torch.full((3, 3), 1e-30).double(), torch.ones(3).double(), SHARE, 1)
    assert (result.rank, result.off.tolist()) == (0, [0, 1, 2])
    assert np.isnan(result.condition)


@pytest.mark.parametrize("layer_norm", [True, False])
def test_other_dependences_are_left_to_eigenvalues(layer_norm):
    x = features(20, 200, layer_norm=layer_norm)
    x[:, 3] = 2 * x[:, 7] - x[:, 8]
    assert found(x) is None


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**16), st.integers(1, 60), st.integers(0, 6))
@example(4079, 8, 5)  # the largest had not come up when the next seemed settled
@example(32819, 19, 4)
def test_lanczos_finds_the_largest_eigenvalue(seed, dim, decades):
    generator = torch.Generator().manual_seed(seed)
    values = 10 ** (-decades * torch.rand(dim, generator=generator, dtype=torch.float64))
    turn = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))[0]
    start = torch.randn(dim, generator=generator, dtype=torch.float64)
    value = largest_eigenvalue(lambda v: turn @ (values * (turn.T @ v)), start, 1e-6)
    assert value == pytest.approx(float(values.max()), rel=1e-4)


def test_an_edge_too_dense_for_the_steps_is_told():
    values = torch.linspace(0, 1, 60_000, dtype=torch.float64)
    assert largest_eigenvalue(lambda v: values * v, torch.ones_like(values), 1e-12) is None


@pytest.mark.parametrize("default", [torch.float64, torch.float16])
def test_the_default_dtype_of_the_user_does_not_matter(default):
    x = features(40, 300)
    expected = found(x)
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        result = found(x)
    finally:
        torch.set_default_dtype(before)
    assert result.condition == pytest.approx(expected.condition, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lanczos_gives_up_on_numbers_that_are_not_finite(dtype):
    huge = torch.full((20,), 0.5 * torch.finfo(dtype).max, dtype=dtype)
    assert largest_eigenvalue(lambda v: 1e5 * huge * v, torch.ones(20, dtype=dtype), 1e-3) is None


@pytest.mark.parametrize("decades", [9, 14])
def test_lanczos_ends_where_one_eigenvalue_is_all_that_rounding_leaves(decades):
    """In float32 the rest of the space is rounding after a step or two, and would grow."""
    generator = torch.Generator().manual_seed(decades)
    values = torch.rand(64, generator=generator)
    values[-1] = 10.0**decades
    found = largest_eigenvalue(lambda v: values * v, torch.randn(64, generator=generator), 1e-3)
    assert found == pytest.approx(10.0**decades, rel=1e-4)
