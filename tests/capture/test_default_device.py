"""The default device is for the user's tensors: statistics stay where the features are."""

import pytest
import torch
from tests import cases

import lawscope as ls
from lawscope.statistics.memory import STRATEGIES


def batches():
    x, y = cases.vectors(), cases.labels()
    return [(x[:40], y[:40]), (x[40:], y[40:])]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_separation_is_the_same_whatever_the_default(strategy):
    model, data = cases.sequential(), batches()
    expected = ls.separation(model, data, strategy=strategy)
    with torch.device("meta"):
        result = ls.separation(model, data, strategy=strategy)
    assert result.values == pytest.approx(expected.values, rel=1e-12)
    assert result.interval == pytest.approx(expected.interval, rel=1e-9)


def test_bootstrap_and_collapse_are_the_same_whatever_the_default():
    model, data = cases.sequential(), batches()
    expected = ls.separation(model, data, uncertainty="bootstrap"), ls.collapse(model, data)
    with torch.device("meta"):
        result = ls.separation(model, data, uncertainty="bootstrap"), ls.collapse(model, data)
    assert result[0].interval == pytest.approx(expected[0].interval, rel=1e-12)
    assert result[1].nc1 == pytest.approx(expected[1].nc1, rel=1e-12)


def test_numbers_of_arrays_are_the_same_whatever_the_default():
    x, y = cases.vectors(), cases.labels()
    fuzziness = ls.fuzziness(x, y)
    line = torch.cat([x] * 4)[:, :1], torch.cat([x] * 4)[:, 3]
    residual = ls.prediction_residual(*line)
    with torch.device("meta"):
        assert ls.fuzziness(x, y) == pytest.approx(fuzziness, rel=1e-12)
        assert ls.fuzziness(x.numpy(), y.tolist()) == pytest.approx(fuzziness, rel=1e-12)
        assert ls.prediction_residual(*line) == pytest.approx(residual, rel=1e-12)
