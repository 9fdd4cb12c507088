"""1 − R² on plain arrays: oracles, invariances, and what cannot be regressed."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

import lawscope as ls


def test_equals_scikit_learn_with_large_means():
    """torchmetrics.R2Score in float32 gave 0.9993 instead of 0.9886 with targets of mean 1e4."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1500, 12, generator=generator, dtype=torch.float64)
    y = (10 * x[:, 0] + torch.randn(1500, generator=generator)).round()
    expected = 1 - LinearRegression().fit(x, y).score(x, y)
    assert ls.prediction_residual(x + 1e6, y + 1e5) == pytest.approx(expected, rel=1e-9)
    narrow = ls.prediction_residual(x.float(), (y + 1e4).float())
    assert narrow == pytest.approx(expected, rel=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**16), st.floats(-50, 50), st.floats(0.01, 100))
def test_affine_maps_of_features_and_target_change_nothing(seed, shift, scale):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(400, 5, generator=generator, dtype=torch.float64)
    y = x[:, 0] + torch.randn(400, generator=generator, dtype=torch.float64)
    mixed = x @ torch.randn(5, 5, generator=generator, dtype=torch.float64)
    value = ls.prediction_residual(x, y)
    assert ls.prediction_residual(mixed * scale + shift, y) == pytest.approx(value, rel=1e-8)
    assert ls.prediction_residual(x, -scale * y + shift) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dependent_and_constant_features_count_once(dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 4, generator=generator, dtype=torch.float64).to(dtype)
    y = x[:, 0] + torch.randn(600, generator=generator)
    more = torch.cat([x, x[:, :2] - 2 * x[:, 1:3], torch.full((600, 1), 0.1, dtype=dtype)], dim=1)
    assert ls.prediction_residual(more, y) == pytest.approx(ls.prediction_residual(x, y), rel=1e-5)
    assert ls.prediction_residual(torch.full((600, 2), 0.1), y) == 1


def test_constant_targets_have_no_residual():
    for constant in (0.0, 1.0, 0.1, 1e9 / 3):
        y = torch.full((200,), constant, dtype=torch.float64)
        assert np.isnan(ls.prediction_residual(torch.randn(200, 2), y))


def test_what_cannot_be_regressed():
    x = torch.randn(40, 50)
    with pytest.raises(ls.LawscopeError, match=r"40 rows for 50 features.*better 2500"):
        ls.prediction_residual(x, x[:, 0])
    with pytest.raises(ls.LawscopeError, match="40 rows of features and 39 targets"):
        ls.prediction_residual(x, x[:39, 0])
    broken = torch.randn(100, 2)
    broken[3, 1] = torch.nan
    with pytest.raises(ls.LawscopeError, match="NaN"):
        ls.prediction_residual(broken, broken[:, 0])
    with pytest.warns(ls.LawscopeWarning, match="25 per feature"):
        ls.prediction_residual(torch.randn(50, 2), torch.randn(50))
    x = torch.randn(200, 2, dtype=torch.float64)
    with pytest.raises(ls.LawscopeError, match="too large to be squared; clean or scale them"):
        ls.prediction_residual(x * 1e170, x[:, 0])
    with pytest.raises(ls.LawscopeError, match="complex"):
        ls.prediction_residual(x, torch.randn(200, dtype=torch.complex64))
    with pytest.raises(ls.LawscopeError, match=r"targets .* are not an array of numbers"):
        ls.prediction_residual(x, ["cat"] * 200)


def test_steep_features_are_said():
    x = torch.randn(500, 2, dtype=torch.float64)
    x[:, 1] = x[:, 0] + 1e-8 * x[:, 1]
    with pytest.warns(ls.LawscopeWarning, match="condition number"):
        ls.prediction_residual(x, x[:, 0] + torch.randn(500))
