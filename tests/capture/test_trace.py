"""Layers whose weight is made of parameters on the way: transposed, masked, of low rank."""

import pytest
import torch
import torch.nn.functional as F
from tests import cases
from tests.capture.test_stations import layers
from torch import nn
from torch.nn.utils import parametrize


class Custom(nn.Module):
    """relu(product), relu(product), head, with weights of its own."""

    def __init__(self, product):
        super().__init__()
        self.product, self.head = product, nn.Linear(6, 4)
        self.w, self.u, self.v = (nn.Parameter(torch.randn(6, 6)) for _ in range(3))
        self.register_buffer("mask", (torch.rand(6, 6) > 0.3).float())

    def forward(self, x):
        x = torch.relu(self.product(self, x))
        return self.head(torch.relu(self.product(self, x)))


PRODUCTS = {
    "transposed": lambda s, x: x @ s.w.T,
    "masked": lambda s, x: F.linear(x, s.w * s.mask),
    "dropped": lambda s, x: F.linear(x, s.w * torch.rand(6, 6)),
    "low rank": lambda s, x: x @ (s.u @ s.v),
    "adapted": lambda s, x: F.linear(x, s.w + s.u @ s.v),
    "normed": lambda s, x: F.linear(x, F.normalize(s.w, dim=1)),
    "einsum": lambda s, x: torch.einsum("bi,io->bo", x, s.w.T),
    "einsum of a list": lambda s, x: torch.einsum("bi,io->bo", [x, s.w]),
    "batched": lambda s, x: torch.bmm(x[:, None], s.w.expand(len(x), 6, 6)).squeeze(1),
    "convolution": lambda s, x: F.conv1d(x[:, :, None], s.w[:, :, None] * 2).squeeze(2),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_weight_made_of_weights_is_a_layer(name):
    assert layers(Custom(PRODUCTS[name]), torch.randn(3, 6)) == ["input", "relu()", "relu()#2"]


def test_a_shared_transposed_weight_does_not_make_layers_parallel():
    def loop(net, x):
        turned = net.w.T
        for _ in range(3):
            x = F.layer_norm(x @ turned, (6,))
        return x

    net = nn.Sequential(cases.Net(loop, w=nn.Parameter(torch.randn(6, 6))), nn.Linear(6, 4))
    assert layers(net, torch.randn(3, 6)) == ["input", "0"]


def test_a_parametrised_weight_of_a_module_of_its_own_is_a_layer():
    net = Custom(lambda s, x: F.linear(x, s.w))
    parametrize.register_parametrization(net, "w", cases.Net(lambda net, w: w.tril()))
    assert layers(net, torch.randn(3, 6)) == ["input", "relu()", "relu()#2"]


def test_products_of_data_and_of_fixed_tables_are_no_layers():
    def attend(net, x):
        scores = torch.sigmoid(torch.relu(net.a(x)) @ torch.relu(net.b(x)).transpose(1, 2))
        return net.head(torch.tanh(scores @ x @ net.table))

    net = cases.Net(attend, a=nn.Linear(6, 6), b=nn.Linear(6, 6), head=nn.Linear(6, 4))
    net.register_buffer("table", torch.randn(6, 6))
    assert layers(net, torch.randn(3, 5, 6)) == ["input", "relu()", "relu()#2"]
