"""Samples are told from tokens, also where there are as many of one as of the other."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lawscope as ls


class TimeFirst(nn.Module):
    """Tokens come first within the encoder, as ``nn.Transformer`` likes them."""

    def __init__(self):
        super().__init__()
        layers = [nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0) for _ in range(3)]
        self.project, self.encoder = nn.Linear(6, 4), nn.ModuleList(layers)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        h = self.project(x).transpose(0, 1)
        for layer in self.encoder:
            h = layer(h)
        return self.head(h.mean(0))


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (8, 8), (11, 11), (40, 11), (12, 11)])
def test_as_many_tokens_as_samples(batch, tokens):
    found = ls.stations(TimeFirst(), torch.randn(batch, tokens, 6))
    axes = {s.name: s.batch_dim for s in found}
    assert axes["input"] == axes["project"] == 0
    assert [axes[f"encoder.{i}"] for i in range(3)] == [1, 1, 1]
    assert axes["encoder.0:in"] == 1


def test_separation_does_not_depend_on_the_batch_size():
    torch.manual_seed(0)
    y = torch.arange(64) % 4
    data = TensorDataset(torch.randn(64, 8, 6) + torch.randn(4, 1, 6)[y], y)
    net = TimeFirst()
    eight, twenty = (
        ls.separation(net, DataLoader(data, n), stations="blocks", uncertainty=None)
        for n in (8, 20)
    )
    np.testing.assert_allclose(eight.values, twenty.values, rtol=1e-4)


def test_a_table_with_a_row_per_token_is_no_station():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(9, 4), nn.Embedding(11, 4)
            self.mlp = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

        def forward(self, ids):
            return self.mlp(self.words(ids) + self.places(torch.arange(11))).mean(1)

    names = ls.stations(Positions(), torch.zeros(20, 11, dtype=torch.long)).names
    assert "words" in names
    assert "places" not in names


@pytest.mark.parametrize(("shape", "looks"), [((8, 6), 1), ((20, 3, 6), 1), ((6, 6), 2)])
def test_a_second_look_only_where_the_first_leaves_doubt(shape, looks):
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    ran = []
    net[1].register_forward_hook(lambda *_: ran.append(1))
    ls.stations(net, torch.randn(shape))
    assert len(ran) == looks


def test_a_network_for_one_batch_size_keeps_the_guess():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 2)

        def forward(self, x):
            return self.b(torch.relu(self.a(x.view(7, 7, 5)))).mean(1)

    found = ls.stations(Fixed(), torch.randn(7, 7, 5))
    assert {s.name: s.batch_dim for s in found}["relu()"] == 0
