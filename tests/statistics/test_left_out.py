"""Regressions without one fold, and the method that solves them, against brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict

from lawscope.statistics import left_out
from lawscope.statistics.conjugate_gradients import conjugate_gradients
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
@pytest.mark.parametrize(("count", "dim", "settles"), [(2000, 40, True), (280, 200, False)])
def test_folds_left_out_equal_scikit_learn(monkeypatch, count, dim, settles, layer_norm):
    settled = []

    def watched(*arguments):
        found = conjugate_gradients(*arguments)
        settled.append(found is not None)
        return found

    monkeypatch.setattr(left_out, "conjugate_gradients", watched)
    x, targets, folds = rows(count, layer_norm, dim)
    result = measured(x, targets, folds)
    assert settled == [settles] * FOLDS  # with few rows, each fold takes a factor of its own
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


@settings(max_examples=60, deadline=None)
@given(
    dim=st.integers(1, 30),
    columns=st.integers(1, 4),
    least=st.floats(0.3, 1.0),
    seed=st.integers(0, 10**6),
)
def test_near_the_identity_equations_are_solved(dim, columns, least, seed):
    generator = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(generator.normal(size=(dim, dim)))
    matrix = torch.from_numpy(turn * generator.uniform(least, 1.0, dim) @ turn.T)
    targets = torch.from_numpy(generator.normal(size=(dim, columns)))
    targets[:, 0] *= 1e-8  # columns of very different size, and one of zeros
    targets[:, -1] *= columns > 1
    found = conjugate_gradients(lambda v: matrix @ v, targets, 1e-12)
    rest = (matrix @ found - targets).norm(dim=0)
    assert bool((rest <= 1e-11 * targets.norm(dim=0)).all())


@pytest.mark.parametrize("least", [1e-9, -1.0])
def test_what_does_not_settle_is_none(least):
    diagonal = torch.linspace(least, 1, 200, dtype=torch.float64)[:, None]
    ones = torch.ones(200, 1, dtype=torch.float64)
    assert conjugate_gradients(lambda v: diagonal * v, ones, 1e-12) is None


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
