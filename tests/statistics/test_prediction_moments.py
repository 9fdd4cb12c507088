"""Least squares from streamed moments against QR, scikit-learn and brute force in float64."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict

import lawscope as ls
from lawscope.capture.final_norm import RowNorm
from lawscope.statistics import prediction_moments
from lawscope.statistics.prediction_moments import PredictionMoments

D, N, FOLDS, TOKENS = 12, 1500, 4, 30


def residual(x, y):
    """1 − R² by QR of centred columns of unit length, projected twice; float64."""
    x = np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    y = y - y.mean()
    x = x - x.mean(axis=0)
    q, _ = np.linalg.qr(x / np.linalg.norm(x, axis=0))
    rest = y - q @ (q.T @ y)
    rest -= q @ (q.T @ rest)
    return float(rest @ rest / (y @ y))


def conditioned(condition, dim=D, rows=N, seed=0):
    """Features whose centred, column-scaled singular values span about ``condition``."""
    generator = torch.Generator().manual_seed(seed)

    def orthogonal(n):
        return torch.linalg.qr(torch.randn(n, dim, generator=generator, dtype=torch.float64))[0]

    sizes = torch.logspace(0, -np.log10(condition), dim, dtype=torch.float64)
    left = orthogonal(rows) * rows**0.5
    noise = torch.randn(rows, generator=generator, dtype=torch.float64)
    return left * sizes @ orthogonal(dim).T, left, noise


def data(seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, D, generator=generator) @ torch.randn(D, D, generator=generator)
    ids = torch.randint(0, TOKENS, (N,), generator=generator)
    x[:, 0] += 0.3 * ids  # something to predict
    folds = (torch.arange(N) // 50) % FOLDS
    return (x + 5).to(dtype), ids, folds


def statistic(x, ids, folds, parts=1, **settings):
    settings = {"folds": FOLDS, "dtype": x.dtype, "token_bytes": 10**6, **settings}
    made = PredictionMoments(D, 1, **settings)
    for part in torch.arange(len(x)).tensor_split(parts):
        made.update(x[part], ids[part][:, None], folds[part])
    return made


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch):
    """Buffers that these few rows flush several times."""
    monkeypatch.setattr(prediction_moments, "BUFFER_ROWS", 200)


@pytest.mark.parametrize("loads", ["noise", "smallest direction", "all directions"])
@pytest.mark.parametrize(
    ("condition", "digits"),
    [(1, 1e-10), (1e2, 1e-10), (250, 1e-10), (1e3, 1e-10), (1e4, 1e-10), (1e5, 1e-7), (1e6, 1e-7)],
)
def test_equals_qr_up_to_the_stated_condition(condition, digits, loads):
    """Streamed in small parts, and the plain formula."""
    x, left, noise = conditioned(condition)
    y = {
        "noise": noise,
        "smallest direction": left[:, -1] + 0.5 * noise,
        "all directions": left.sum(dim=1) + noise,
    }[loads] + 1e4
    expected = residual(x + 3, y)
    found = statistic(x + 3, y, torch.zeros(N).long(), parts=9, token_bytes=0).compute()
    assert found.pr[0] == pytest.approx(expected, rel=digits)
    assert ls.prediction_residual(x + 3, y) == pytest.approx(expected, rel=digits)


def test_rank_and_condition_are_those_of_the_features():
    for condition in (5, 2e3, 3e5):
        x, _, y = conditioned(condition)
        made = PredictionMoments(D)
        made.update(x, y[:, None], torch.zeros(N, dtype=torch.int64))
        result = made.compute()
        centred = (x - x.mean(dim=0)).numpy()
        expected = np.linalg.cond(centred / np.linalg.norm(centred, axis=0))
        assert result.condition == pytest.approx(expected, rel=1e-6)
        assert result.rank == D


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dependent_features_count_once(dtype):
    x, ids, _ = data(dtype=dtype)
    normed = torch.nn.functional.layer_norm(x, (D,))  # sums of rows vanish
    doubled = torch.cat([x, x[:, :3] * 2 - 1, torch.ones(N, 1, dtype=dtype)], dim=1)
    for features, independent in ((normed, normed[:, 1:]), (doubled, x)):
        made = PredictionMoments(features.shape[1], dtype=dtype)
        made.update(features, ids[:, None], torch.zeros(N, dtype=torch.int64))
        result = made.compute()
        assert result.rank == independent.shape[1]
        assert result.pr[0] == pytest.approx(residual(independent, ids), rel=1e-6)


@pytest.mark.parametrize("condition", [1, 1e4])
def test_folds_equal_brute_force(condition):
    x, _, _ = conditioned(condition)
    _, ids, folds = data()
    result = statistic(x, ids, folds).compute()
    expected = [residual(x[folds != f], ids[folds != f]) for f in range(FOLDS)]
    assert result.deleted[:, 0] == pytest.approx(expected, rel=1e-9)
    predicted = cross_val_predict(
        LinearRegression(), x.numpy(), ids.numpy(), cv=PredefinedSplit(folds.numpy())
    )
    errors = np.square(predicted - ids.numpy()).sum()
    spread = np.square(ids.numpy() - ids.double().mean().item()).sum()
    assert result.cv[0] == pytest.approx(errors / spread, rel=1e-8)


def onehot_residual(x, ids):
    """Regress every column of the one-hot matrix, add up."""
    y = torch.nn.functional.one_hot(ids).double()
    y = (y - y.mean(dim=0)).numpy()
    x = x.double().numpy()
    rest = y - LinearRegression().fit(x, y).predict(x)
    return np.square(rest).sum() / np.square(y).sum()


def test_onehot_equals_the_regression_on_one_hot_targets():
    x, ids, folds = data()
    result = statistic(x, ids, folds).compute()
    assert result.onehot[0] == pytest.approx(onehot_residual(x, ids), rel=1e-10)
    assert result.onehot_error[0] == 0


def test_onehot_is_the_mean_over_random_codings():
    x, ids, _ = data()
    generator = torch.Generator().manual_seed(5)
    y = torch.randn(TOKENS, 4000, generator=generator, dtype=torch.float64)[ids].numpy()
    y = y - y.mean(axis=0)
    rest = y - LinearRegression().fit(x.double().numpy(), y).predict(x.double().numpy())
    mean = np.square(rest).sum() / np.square(y).sum()
    assert onehot_residual(x, ids) == pytest.approx(mean, rel=2e-3)


def test_beyond_its_budget_onehot_is_estimated_with_its_error():
    x, ids, folds = data()
    exact = onehot_residual(x, ids)
    folded = statistic(x, ids, folds, parts=5, token_bytes=8 * D * 20)  # twenty of thirty types
    at_once = statistic(x, ids, folds, token_bytes=1)
    merged = statistic(x[:700], ids[:700], folds[:700])
    other = statistic(x[700:], ids[700:], folds[700:], token_bytes=1)
    merged.merge(other)
    results = [made.compute() for made in (folded, at_once, merged)]
    assert not any(made.tokens[0].exact for made in (folded, at_once, merged))
    for result in results:
        assert result.onehot[0] == pytest.approx(results[0].onehot[0], rel=1e-10)
        assert 0 < result.onehot_error[0] < 0.1
        assert abs(result.onehot[0] - exact) < 4 * result.onehot_error[0]


def test_without_sums_per_token_there_is_no_onehot():
    x, ids, folds = data()
    assert np.isnan(statistic(x, ids, folds, token_bytes=0).compute().onehot).all()


def test_fast_products_are_float32():
    x, ids, folds = data()
    exact = statistic(x, ids, folds).compute()
    made = statistic(x[:1100], ids[:1100], folds[:1100], precision="fast")
    made.update(x[1100:], ids[1100:, None], folds[1100:])
    fast = made.compute()
    assert fast.pr == pytest.approx(exact.pr, rel=1e-4)
    assert fast.pr[0] != exact.pr[0]
    assert fast.cv == pytest.approx(exact.cv, rel=1e-4)
    assert fast.onehot == pytest.approx(exact.onehot, rel=1e-5)


@pytest.mark.parametrize("condition", [1, 100, 1e4])
def test_fast_products_do_not_take_rounding_for_a_direction(condition):
    x, _, noise = conditioned(condition, dim=64, rows=6000)
    y = (x[:, 0] / x[:, 0].std() + noise)[:, None]
    x = x.float()
    folds = torch.arange(6000) // 500 % FOLDS
    values = []
    for precision in ("float64", "fast"):
        made = PredictionMoments(
            64, folds=FOLDS, precision=precision, dtype=x.dtype, prepare=RowNorm("LayerNorm", 1e-5)
        )
        made.update(x[:1500], y[:1500], folds[:1500])
        made.update(x[1500:], y[1500:], folds[1500:])
        values.append(made.compute())
        assert values[-1].rank == 63
        assert (made.basis.matrix is not None) == (values[-1].condition > 300)
    exact, fast = values
    assert fast.pr == pytest.approx(exact.pr, rel=1e-4)
    assert fast.deleted == pytest.approx(exact.deleted, rel=1e-4)
    assert fast.condition == pytest.approx(exact.condition, rel=1e-2)


def test_features_that_never_change_but_for_rounding_predict_nothing():
    """Without positions the embedding of every hidden token of a masked model is the same."""
    for seed in range(5):
        row = torch.randn(D, generator=torch.Generator().manual_seed(seed))
        _, ids, folds = data()
        made = statistic(row.repeat(N, 1), ids, folds, parts=7, prepare=RowNorm("LayerNorm", 1e-5))
        found = made.compute()
        assert (found.rank, found.pr.tolist(), found.onehot.tolist()) == (0, [1.0], [1.0])
        np.testing.assert_allclose(found.deleted, 1.0, atol=1e-12)


@pytest.mark.parametrize("condition", [1, 1e3])
@pytest.mark.parametrize("begins", [0.0, 1e-2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_directions_may_appear_after_the_first_rows(condition, begins, dtype):
    x, left, noise = conditioned(condition, rows=6000)
    order = torch.randperm(D, generator=torch.Generator().manual_seed(1))
    late = order[:3]
    x[:3000, late] *= begins
    x = x.to(dtype)
    y = (left.sum(dim=1) * 100 + 20 * noise).round().long()
    made = PredictionMoments(D, 1, dtype=dtype)
    for part in torch.arange(6000).split(500):
        made.update(x[part], y[part][:, None], torch.zeros(len(part), dtype=torch.int64))
    result = made.compute()
    assert result.rank == D
    assert result.pr[0] == pytest.approx(residual(x, y), rel=max(1e-10, 100 * result.lost))
    if condition == 1 or not begins:  # otherwise coordinates were chosen for features that changed
        assert result.lost < 1e-10
