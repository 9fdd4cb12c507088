"""Statistics keep their precision and device whatever autocast or default device is on."""

import pytest
import torch
from tests import cases, oracles
from torch import nn

import lawscope as ls
from lawscope.precision import without_autocast
from lawscope.statistics.memory import STRATEGIES


def bfloat16():
    return torch.autocast("cpu", dtype=torch.bfloat16)


class Casting(nn.Module):
    """A network that runs in half precision on its own account."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        with bfloat16():
            return self.inner(*args, **kwargs)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, inputs, attention_mask):
        return self.c(torch.relu(self.b(torch.relu(self.a(inputs)))).mean(1))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_intervals_are_the_same_with_and_without(strategy):
    x, y = cases.vectors() + 20, cases.labels()
    # Layers that autocast leaves in float32, so that nothing but a statistic can be rounded.
    network = nn.Sequential(nn.Softplus(), nn.LeakyReLU(), nn.ELU())
    plain = ls.separation(network, (x, y), stations="*", strategy=strategy)
    inside = ls.separation(Casting(network), (x, y), stations="*", strategy=strategy)
    with bfloat16():
        outside = ls.separation(network, (x, y), stations="*", strategy=strategy)
    for result in (inside, outside):
        assert result.values[-3:] == pytest.approx(plain.values[-3:], rel=1e-12)
        ends, expected = result.population.interval, plain.population.interval
        assert ends[-3:] == pytest.approx(expected[-3:], rel=1e-9)


def test_a_masked_mean_is_not_rounded():
    y = cases.labels()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(len(y), 6, 8, generator=generator) + 50
    mask = torch.ones(len(y), 6, dtype=torch.long)
    mask[::3, 4:] = 0
    model = Casting(Tokens())
    with torch.no_grad(), bfloat16():
        hidden = torch.relu(model.inner.a(x))
    shares = (mask / mask.sum(1, keepdim=True)).double()
    batches = [{"inputs": x, "attention_mask": mask, "labels": y}]
    result = ls.separation(model, batches, uncertainty=None)
    with bfloat16():
        outside = ls.separation(Tokens(), batches, uncertainty=None)
    for measured in (result, outside):
        for value, tokens in zip(measured.values, (x, hidden), strict=False):
            pooled = torch.einsum("btc,bt->bc", tokens.double(), shares)
            assert value == pytest.approx(oracles.fuzziness(pooled, y), rel=1e-3)


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
    ends = result.population.interval
    assert ends == pytest.approx(expected.population.interval, rel=1e-9)


def test_collapse_is_the_same_whatever_the_default():
    model, data = cases.sequential(), batches()
    expected = ls.collapse(model, data)
    with torch.device("meta"):
        result = ls.collapse(model, data)
    assert result.nc1 == pytest.approx(expected.nc1, rel=1e-12)


def test_numbers_of_arrays_are_the_same_whatever_the_default():
    x, y = cases.vectors(), cases.labels()
    fuzziness = ls.fuzziness(x, y)
    line = torch.cat([x] * 4)[:, :1], torch.cat([x] * 4)[:, 3]
    residual = ls.prediction_residual(*line)
    with torch.device("meta"):
        assert ls.fuzziness(x, y) == pytest.approx(fuzziness, rel=1e-12)
        assert ls.fuzziness(x.numpy(), y.tolist()) == pytest.approx(fuzziness, rel=1e-12)
        assert ls.prediction_residual(*line) == pytest.approx(residual, rel=1e-12)


@pytest.mark.parametrize(
    "layer", [nn.Linear(6, 6), nn.GRU(6, 6), nn.LayerNorm(6), nn.Conv1d(6, 6, 1)]
)
def test_data_of_another_precision_than_the_network_gets_a_sentence(layer):
    def run(net, x):
        return net.head(net.layer(x[..., None] if isinstance(layer, nn.Conv1d) else x)[0])

    model = cases.Net(run, layer=layer, head=nn.Linear(6, 4))
    x, y = cases.vectors(), cases.labels()
    said = r"data is torch.float64 and the network torch.float32.*x\.float\(\) or model\.double\(\)"
    with pytest.raises(ls.LawscopeError, match=said):
        ls.separation(model, (x.double(), y))


def test_autocast_can_be_switched_off():
    one = torch.ones(1, 1)
    with bfloat16(), without_autocast():
        assert (one @ one).dtype == torch.float32
