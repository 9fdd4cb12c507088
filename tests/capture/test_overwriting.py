"""Networks that write into their inputs, or into what their layers gave."""

import numpy as np
import pytest
import torch
from tests import cases, oracles
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


class Erasing(nn.Module):
    """A layer whose output is partly erased, in one of several ways."""

    def __init__(self, erase):
        super().__init__()
        self.linear, self.erase = nn.Linear(6, 6), erase

    def forward(self, x):
        h = self.linear(x)
        self.erase(h)
        return h


def by_item(h):
    h[:, :2] = 0


def by_view(h):
    h[:, :2].zero_()


def by_out(h):
    torch.mul(h, torch.tensor([0.0, 1, 0, 1, 0, 1]), out=h)


class Inside(nn.Module):
    def forward(self, h):
        h[:, :2] = 0
        return h.sum()


@pytest.mark.parametrize("erase", [by_item, by_view, by_out, Inside()])
def test_a_block_that_writes_into_its_layer_is_another_tensor(data, erase):
    x, y = data
    net = nn.Sequential(Erasing(erase), Erasing(erase), nn.Linear(6, 4))
    names = ["0.linear", "0", "1.linear", "1"]
    result = ls.separation(net, (x, y), stations=names, uncertainty=None)
    with torch.no_grad():
        features = [net[0].linear(x), net[0](x), net[1].linear(net[0](x)), net[1](net[0](x))]
    assert result.stations == tuple(names)
    np.testing.assert_allclose(result.values, [oracles.fuzziness(h, y) for h in features], 1e-4)


def test_the_layer_goes_on_through_what_is_erased():
    net = nn.Sequential(Erasing(by_item), nn.ReLU(), nn.Linear(6, 4))
    found = ls.stations(net, torch.randn(3, 6))
    assert [s.name for s in found.granularity("layers")] == ["input", "1"]


def test_two_outputs_of_one_module_are_two_tensors():
    torch.manual_seed(0)
    y = torch.arange(40) % 4
    x = torch.randn(40, 7, 6) + torch.randn(4, 1, 6)[y]
    last = cases.Net(lambda net, x: net.gru(x)[1], gru=nn.GRU(6, 5, batch_first=True))
    net = cases.Net(lambda net, x: net.head(net.last(x)[0]), last=last, head=nn.Linear(5, 4))
    names = ["last.gru", "last"]
    result = ls.separation(net, (x, y), stations=names, pooling="mean", uncertainty=None)
    with torch.no_grad():
        every, last = net.last.gru(x)
    expected = [oracles.fuzziness(h, y) for h in (every.mean(1), last[0])]
    np.testing.assert_allclose(result.values, expected, rtol=1e-4)


def test_names_of_one_tensor_are_still_measured_once():
    net = nn.Sequential(
        *(nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True)) for _ in range(3)), nn.Linear(6, 4)
    )
    found = {s.name: s.operation for s in ls.stations(net, torch.randn(3, 6))}
    assert found["0"] == found["0.1"] != found["0.0"]
