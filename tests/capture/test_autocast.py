"""Autocast is the network's affair: the statistics of what it gives stay exact."""

import pytest
import torch
from tests import cases, oracles
from torch import nn

import lawscope as ls
from lawscope.statistics.class_scatter import ClassScatter
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
        assert result.interval[-3:] == pytest.approx(plain.interval[-3:], rel=1e-9)


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


def test_a_statistic_on_its_own_is_not_rounded():
    x, y = cases.vectors() + 20, cases.labels()
    stat = ClassScatter("held", folds=8)
    stat.update(x, y)
    expected = stat.compute().deleted
    with bfloat16():
        assert stat.compute().deleted == pytest.approx(expected, rel=1e-9)
