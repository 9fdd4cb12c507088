"""Regressions without one fold against brute force."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict

from lawscope.statistics.prediction_moments import PredictionMoments

FOLDS = 5


def measured(x, targets, folds, **settings):
    statistic = PredictionMoments(
        x.shape[1], targets.shape[1], folds=FOLDS, dtype=x.dtype, **settings
    )
    statistic.update(x, targets, folds)
    return statistic.compute()


def rows(count, layer_norm, dim=40, seed=0):
    """Features far from zero, two targets that depend on them, folds whose means differ."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    x = x @ torch.randn(dim, dim, generator=generator, dtype=torch.float64) + 3
    folds = torch.arange(count) % FOLDS
    x[:, 0] += folds
    if layer_norm:
        x = torch.nn.functional.layer_norm(x, (dim,))
    noise = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    targets = (300 + 40 * (x[:, :2] + x[:, 2:4] * 0.5 + noise)).round().long()
    return x, targets, folds


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("count", "dim"), [(2000, 40), (280, 200)])
def test_leaving_folds_out_equals_scikit_learn(count, dim, layer_norm):
    x, targets, folds = rows(count, layer_norm, dim)
    result = measured(x, targets, folds)
    for fold in range(FOLDS):
        here = (folds != fold).numpy()
        plain = LinearRegression().fit(x.numpy()[here], targets.numpy()[here])
        for i in range(2):
            y = targets.numpy()[here, i]
            expected = np.square(y - plain.predict(x.numpy()[here])[:, i]).sum()
            expected /= np.square(y - y.mean()).sum()
            assert result.deleted[fold, i] == pytest.approx(expected, rel=1e-8)
    predicted = cross_val_predict(
        LinearRegression(), x.numpy(), targets.numpy(), cv=PredefinedSplit(folds.numpy())
    )
    y = targets.numpy()
    errors = np.square(predicted - y).sum(axis=0) / np.square(y - y.mean(axis=0)).sum(axis=0)
    assert result.cv == pytest.approx(errors, rel=1e-8)


def test_fast_folds_are_those_of_float64_to_six_digits():
    x, targets, folds = rows(2000, layer_norm=True)
    exact = measured(x.float(), targets, folds)
    fast = measured(x.float(), targets, folds, precision="fast")
    assert fast.deleted == pytest.approx(exact.deleted, rel=1e-5)
    assert fast.cv == pytest.approx(exact.cv, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("turned", [False, True])
def test_a_direction_that_only_the_missing_fold_has(dtype, turned):
    x, targets, folds = rows(2000, layer_norm=False)
    x[folds != 2, 3] = 1.5
    if turned:  # then rounding is all that the other folds have of it
        generator = torch.Generator().manual_seed(1)
        x = x @ torch.linalg.qr(torch.randn(40, 40, generator=generator, dtype=torch.float64))[0]
    x = x.to(dtype)
    result = measured(x, targets, folds)
    assert result.rank == 40
    here = (folds != 2).numpy()
    y = targets.numpy()[here]
    # numpy cuts off what is below a share of the largest singular value, as we do.
    centred = x.double().numpy()[here] - x.double().numpy()[here].mean(axis=0)
    beta = np.linalg.lstsq(centred, y - y.mean(axis=0), rcond=1e-6)[0]
    expected = np.square(y - y.mean(axis=0) - centred @ beta).sum(axis=0)
    expected /= np.square(y - y.mean(axis=0)).sum(axis=0)
    assert result.deleted[2] == pytest.approx(expected, rel=1e-7)
    assert (result.cv < 2).all()  # rounding is not taken for something to predict from


@pytest.mark.parametrize("constant", [7.0, 0.1, 1e9 / 3])
def test_targets_that_never_change_have_no_residual(constant):
    x, targets, folds = rows(2000, layer_norm=False)
    always = targets.double()
    always[:, 1] = constant
    result = measured(x, always, folds)
    assert np.isnan(result.pr).tolist() == [False, True]
    assert np.isnan(result.cv).tolist() == [False, True]
    assert np.isnan(result.deleted[:, 1]).all()
    always[folds == 2, 1] += targets[folds == 2, 0]
    result = measured(x, always, folds)
    assert np.isnan(result.deleted[:, 1]).tolist() == [False, False, True, False, False]
    assert np.isfinite(result.cv).all()


@pytest.mark.parametrize("precision", ["float64", "fast"])
@pytest.mark.parametrize("scale", [1e-18, 1e10, 3e17])
def test_the_scale_of_features_does_not_matter(precision, scale):
    x, targets, folds = rows(2000, layer_norm=False)
    plain = measured(x, targets, folds, precision=precision)
    scaled = measured(scale * x, targets, folds, precision=precision)
    digits = 1e-8 if precision == "float64" else 1e-4
    assert scaled.condition == pytest.approx(plain.condition, rel=1e-3)
    assert scaled.pr == pytest.approx(plain.pr, rel=digits)
    assert scaled.deleted == pytest.approx(plain.deleted, rel=digits)
    assert scaled.cv == pytest.approx(plain.cv, rel=digits)


def test_fast_folds_of_sums_beyond_float32():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30_000, 8, generator=generator)
    targets = (300 + 40 * (x[:, :1] + torch.randn(30_000, 1, generator=generator))).round().long()
    results = []
    for scale in (1.0, 1.2e17):  # each product is below 3e38, their sum is not
        statistic = PredictionMoments(8, folds=FOLDS, dtype=x.dtype, precision="fast")
        for part in range(0, 30_000, 5000):
            some = slice(part, part + 5000)
            statistic.update(scale * x[some], targets[some], torch.arange(5000) % FOLDS)
        results.append(statistic.compute())
    assert results[1].deleted == pytest.approx(results[0].deleted, rel=1e-4)
    assert results[1].cv == pytest.approx(results[0].cv, rel=1e-4)
