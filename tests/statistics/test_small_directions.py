"""Directions near the rounding of their features: real ones count, false ones do not."""

import pytest
import torch
from sklearn.linear_model import LinearRegression

import lawscope as ls
from lawscope.capture.final_norm import RowNorm
from lawscope.statistics.prediction_moments import PredictionMoments


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dim", [2, 8, 64])
def test_fast_sees_a_small_direction_of_the_first_rows(dim, seed):
    """A ten-thousandth of the largest, below the rounding of float32 products."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(100 * dim, dim, generator=generator, dtype=torch.float64)
    x = z.clone()
    x[:, -1] = z[:, 0] + 1e-4 * z[:, -1]
    y = (10 * z[:, -1:] + 50).round().long()
    fast = PredictionMoments(dim, precision="fast", dtype=torch.float32)
    fast.update(x.float(), y, torch.zeros(len(x), dtype=torch.int64))
    result = fast.compute()
    assert result.rank == dim
    assert result.pr[0] < 0.002


def test_fast_holds_float64_features_to_the_rounding_of_float32():
    """LayerNorm takes a direction away, and rounding to float32 brings a false one."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3000, 32, generator=generator, dtype=torch.float64)
    x = torch.nn.functional.layer_norm(x, (32,))
    y = (300 + 40 * x[:, :1] + 90 * torch.randn(3000, 1, generator=generator)).long()
    results = []
    for precision in ("float64", "fast"):
        statistic = PredictionMoments(32, precision=precision, dtype=torch.float64)
        statistic.update(x, y, torch.zeros(3000, dtype=torch.int64))
        results.append(statistic.compute())
    assert [result.rank for result in results] == [31, 31]
    assert results[1].condition == pytest.approx(results[0].condition, rel=1e-2)
    assert results[1].pr == pytest.approx(results[0].pr, rel=1e-5)


@pytest.mark.parametrize("seed", range(50, 60))
def test_one_dependence_among_float32_features(seed):
    """Some of these have a last pivot that is rounding, and moments that seem regular."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3840, 64, generator=generator, dtype=torch.float64).float()
    x[:, -1] = x[:, 0] + x[:, 1]
    y = torch.randn(3840, generator=generator)
    expected = 1 - LinearRegression().fit(x[:, :-1], y).score(x[:, :-1], y)
    assert ls.prediction_residual(x, y) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("dim", "common"), [(100, 0.0), (200, 0.3), (400, 1.0)])
def test_a_direction_that_layer_norm_took_is_no_reason_to_whiten(dim, common):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6 * dim, dim, generator=generator)
    shared = torch.randn(6 * dim, 5, generator=generator)
    x += common * shared @ torch.randn(5, dim, generator=generator)
    made = PredictionMoments(dim, dtype=x.dtype, prepare=RowNorm("LayerNorm", 1e-5))
    made.update(x, x[:, :1].double(), torch.zeros(len(x), dtype=torch.int64))
    assert made.compute().rank == dim - 1
    assert made.basis.matrix is None


@pytest.mark.parametrize("size", [1e-5, 1e-4])
def test_a_small_sum_of_all_features_is_not_taken_for_layer_norm(size):
    """In products of float32 it looks like what LayerNorm leaves."""
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.functional.layer_norm(torch.randn(1200, 150, generator=generator), (150,))
    x += size * torch.randn(1200, 1, generator=generator)
    made = PredictionMoments(150, dtype=x.dtype, precision="fast")
    made.update(x, x[:, :1].double(), torch.zeros(len(x), dtype=torch.int64))
    assert made.compute().rank == 150
    assert made.basis.matrix is not None
