"""Images that an MLP flattens are not sequences; tokens are."""

import pytest
import torch
import torch.nn.functional as F
from tests import cases, oracles
from torch import nn

import lawscope as ls


def sequence(net, example):
    return {s.name: s.sequence for s in ls.stations(net, example)}


class Reshaping(nn.Module):
    """An MLP on images of 6×6 that flattens them in its own way."""

    def __init__(self, flatten):
        super().__init__()
        self.flatten, self.scale = flatten, nn.Identity()
        self.mlp = nn.Sequential(nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x):
        return self.mlp(self.flatten(F.dropout(self.scale(x) / 2, 0.1, self.training)))


FLATTENINGS = [
    nn.Flatten(),
    lambda x: x.flatten(1),
    lambda x: torch.flatten(x, 1),
    lambda x: x.view(-1, 36),
    lambda x: x.reshape(len(x), -1),
    lambda x: x.transpose(1, 2).reshape(len(x), -1),
]


@pytest.mark.parametrize("flatten", FLATTENINGS)
def test_an_image_that_is_flattened_is_no_sequence(flatten):
    found = sequence(Reshaping(flatten), torch.randn(5, 6, 6))
    assert not found["input"]
    assert not found["scale"]


def test_separation_of_raw_images_counts_every_pixel():
    torch.manual_seed(0)
    y = torch.arange(80) % 4
    x = torch.randn(80, 6, 6) + torch.randn(4, 6, 6)[y]
    value = ls.separation(Reshaping(nn.Flatten()), (x, y), uncertainty=None).values[0]
    assert value == pytest.approx(oracles.fuzziness(x.flatten(1), y), rel=1e-6)


def test_concatenated_embeddings_are_no_sequence():
    net = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 6), nn.ReLU())
    assert not sequence(net, torch.zeros(3, 5, dtype=torch.long))["0"]


def test_what_weights_take_token_by_token_is_a_sequence_up_to_its_flattening():
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Flatten(), nn.Linear(30, 2))
    found = sequence(net, torch.randn(3, 5, 4))
    assert found["input"]
    assert found["1"], "pooled like the other stations of the tokens"


def test_an_embedding_that_is_also_read_token_by_token_is_a_sequence():
    def residual(net, ids):
        h = net.embed(ids)
        return net.head((h + torch.relu(net.mix(h))).flatten(1))

    parts = {"embed": nn.Embedding(9, 4), "mix": nn.Linear(4, 4), "head": nn.Linear(20, 2)}
    assert sequence(cases.Net(residual, **parts), torch.zeros(3, 5, dtype=torch.long))["embed"]
