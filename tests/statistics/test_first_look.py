"""Which coordinates the first rows choose, and in which precision they are looked at."""

import pytest
import torch

from lawscope.capture.row_norm import RowNorm
from lawscope.statistics.prediction_moments import PredictionMoments
from lawscope.statistics.rows_by_fold import RowLabels

NORM = RowNorm("LayerNorm", 1e-5)


def one_fold(x):
    return RowLabels(x[:, :1].double(), torch.zeros(len(x), dtype=torch.int64))


def looked_at(x, monkeypatch, **settings):
    """A statistic that has seen features, and the dtypes in which their products were summed."""
    seen = []
    plain = PredictionMoments._sum

    def recorded(self, features, labels, dtype):
        seen.append(dtype)
        plain(self, features, labels, dtype)

    monkeypatch.setattr(PredictionMoments, "_sum", recorded)
    made = PredictionMoments(x.shape[1], dtype=x.dtype, **settings)
    made.update(x, one_fold(x))
    made.compute()
    return made, seen


@pytest.mark.parametrize(("dim", "common"), [(100, 0.0), (200, 0.0), (200, 0.3), (400, 1.0)])
def test_a_lost_direction_alone_is_no_reason_to_whiten(dim, common):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6 * dim, dim, generator=generator)
    # Correlated columns: without one of them, the others are far worse conditioned.
    x += (
        common
        * torch.randn(6 * dim, 5, generator=generator)
        @ torch.randn(5, dim, generator=generator)
    )
    made = PredictionMoments(dim, dtype=x.dtype, prepare=RowNorm("LayerNorm", 1e-5))
    made.update(x, one_fold(x))
    result = made.compute()
    assert made.basis.matrix is None
    assert result.rank == dim - 1


@pytest.mark.parametrize("norm", [NORM, RowNorm("RMSNorm", 1e-5)])
def test_fast_products_suffice_for_features_that_are_well_conditioned(norm, monkeypatch):
    x = torch.randn(1200, 150, generator=torch.Generator().manual_seed(0))
    made, seen = looked_at(x, monkeypatch, precision="fast", prepare=norm)
    assert made.basis.matrix is None
    assert seen == [torch.float32]


@pytest.mark.parametrize("size", [1e-5, 1e-4])
def test_a_small_sum_of_all_features_is_not_taken_for_layer_norm(size, monkeypatch):
    """In products of float32 it cannot be told from what LayerNorm leaves."""
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.functional.layer_norm(torch.randn(1200, 150, generator=generator), (150,))
    x += size * torch.randn(1200, 1, generator=generator)
    made, seen = looked_at(x, monkeypatch, precision="fast")
    assert seen[:2] == [torch.float32, torch.float64]
    assert made.basis.matrix is not None
    assert made.compute().rank == 150


def test_products_beyond_float32_are_looked_at_in_float64(monkeypatch):
    x = 5e18 * torch.randn(300, 40, generator=torch.Generator().manual_seed(0))
    made, seen = looked_at(x, monkeypatch, precision="fast")
    assert made.basis.matrix is None
    assert seen[:2] == [torch.float32, torch.float64]
