"""Networks that write into their inputs, or into what their layers gave."""

import numpy as np
import pytest
import torch
from tests import oracles
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lawscope as ls


class Normalising(nn.Module):
    """Shifts its own input in place."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x.mul_(2).sub_(1)
        return self.head(self.layers(x))


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(40) % 4
    x = torch.randn(40, 6, generator=generator)
    return x + torch.randn(4, 6, generator=generator)[y], y


def expected(net, x, y):
    with torch.no_grad():
        first = torch.relu(net.layers[0](2 * x - 1))
        second = torch.relu(net.layers[2](first))
    return [oracles.fuzziness(h, y) for h in (x, first, second)]


@pytest.mark.parametrize("batch", [8, 20])
def test_a_small_batch_is_not_run_through_twice(data, batch):
    net, loader = Normalising(), DataLoader(TensorDataset(*data), batch)
    values = ls.separation(net, loader, uncertainty=None).values
    np.testing.assert_allclose(values, expected(net, *data), rtol=1e-4)


@pytest.mark.parametrize("strategy", ["held", "two-pass"])
@pytest.mark.parametrize("form", ["pair", "list", "dict"])
def test_the_data_handed_over_stays_as_it_was(data, strategy, form):
    x, y = data
    mine, net = x.clone(), Normalising()
    given = {"pair": (mine, y), "list": [(mine, y)], "dict": {"x": mine, "labels": y}}[form]
    values = ls.separation(net, given, uncertainty=None, strategy=strategy).values
    assert torch.equal(mine, x)
    np.testing.assert_allclose(values, expected(net, x, y), rtol=1e-4)


@pytest.mark.parametrize("samples", [3, 40])
def test_listing_stations_leaves_the_example_alone(data, samples):
    x = data[0][:samples].clone()
    ls.stations(Normalising(), x)
    assert torch.equal(x, data[0][:samples])


def test_a_network_that_only_reads_gets_the_data_itself(data):
    x, y = data
    net, seen = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)), []
    net.register_forward_pre_hook(lambda module, args: seen.append(args[0].data_ptr()))
    ls.separation(net, [(x, y)], uncertainty=None)
    assert seen[-1] == x.data_ptr(), "no copy where none is needed"
