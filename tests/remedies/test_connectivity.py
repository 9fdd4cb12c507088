"""The loss between two networks, against the line written out, and where a barrier must stand."""

import copy

import numpy as np
import pytest
import torch
from tests import cases
from torch import nn

import lawscope as ls

LOSS = nn.functional.cross_entropy


def net(seed=0, norm=False):
    torch.manual_seed(seed)
    norms = [nn.BatchNorm1d(16)] if norm else []
    made = nn.Sequential(nn.Linear(6, 16), *norms, nn.ReLU(), nn.Linear(16, 4)).double()
    return made.eval()


def data():
    x, y = cases.vectors().double(), cases.labels()
    return [(x[:20], y[:20]), (x[20:], y[20:])]


def train(model, steps=200):
    x, y = cases.vectors().double(), cases.labels()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        LOSS(model(x), y).backward()
        optimizer.step()
    return model


def test_losses_are_those_of_weights_in_between_and_the_networks_stay():
    one, other = net(0), net(1)
    kept = [copy.deepcopy(each.state_dict()) for each in (one, other)]
    found = ls.mode_connectivity(one, other, data(), LOSS, points=5)
    x, y = cases.vectors().double(), cases.labels()
    for alpha, loss in zip(np.linspace(0, 1, 5), found.losses, strict=True):
        state = {n: (1 - alpha) * kept[0][n] + alpha * kept[1][n] for n in kept[0]}
        expected = LOSS(torch.func.functional_call(one, state, x), y).detach()
        assert loss == pytest.approx(float(expected), rel=1e-12)
    for each, before in zip((one, other), kept, strict=True):
        assert all(torch.equal(before[n], v) for n, v in each.state_dict().items())


def test_a_permuted_image_has_a_barrier_and_the_network_itself_none(tmp_path):
    one = train(net())
    image = copy.deepcopy(one)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in (image[0].weight, image[0].bias, image[2].weight.T):
            parameter.copy_(parameter[order].clone())
    apart = ls.mode_connectivity(one, image, data(), LOSS)
    assert apart.losses[0] == pytest.approx(apart.losses[-1], rel=1e-9)
    assert apart.losses[5] - apart.losses[0] > 0.1
    highest = apart.losses.max() - apart.losses[0]
    assert apart.barrier == pytest.approx(highest, rel=1e-9)
    assert ls.mode_connectivity(one, one, data(), LOSS).barrier == pytest.approx(0, abs=1e-12)
    assert apart.table()["excess"].max() == apart.barrier
    assert ls.load(apart.save(tmp_path / "c.html")) == apart


def test_a_convex_loss_has_no_barrier():
    one, other = (nn.Linear(6, 4).double() for _ in range(2))
    assert ls.mode_connectivity(one, other, data(), LOSS).barrier == 0


def test_statistics_of_norms_are_measured_anew_at_every_point():
    """Against batch statistics, which one batch of all data has for its running ones too."""
    one, other = net(0, norm=True), net(1, norm=True)
    x, y = cases.vectors().double(), cases.labels()
    found = ls.mode_connectivity(one, other, [(x, y)], LOSS, points=3)
    assert found.renewed == 1
    middle = copy.deepcopy(one)
    with torch.no_grad():
        for parameter, a, b in zip(
            middle.parameters(), one.parameters(), other.parameters(), strict=True
        ):
            parameter.copy_((a + b) / 2)
        hidden = middle[0](x)
        centred = hidden - hidden.mean(0)
        scaled = centred / (hidden.var(0, unbiased=True) + middle[1].eps).sqrt()
        bent = (scaled * middle[1].weight + middle[1].bias).relu()
        expected = float(LOSS(middle[3](bent), y))
    assert found.losses[1] == pytest.approx(expected, rel=1e-10)
    assert one[1].momentum == 0.1
    assert int(one[1].num_batches_tracked) == 0


def test_mistakes_are_sentences():
    with pytest.raises(ls.LawscopeError, match=r"differ in 0.weight: \(16, 6\) and \(8, 6\)"):
        ls.mode_connectivity(net(), nn.Sequential(nn.Linear(6, 8)), data(), LOSS)
    with pytest.raises(ls.LawscopeError, match="instead of a generator"):
        ls.mode_connectivity(net(), net(), iter(data()), LOSS)
    with pytest.raises(ls.LawscopeError, match="cannot be called"):
        ls.mode_connectivity(net(), net(), data(), 3)
    with pytest.raises(ls.LawscopeError, match="nothing between"):
        ls.mode_connectivity(net(), net(), data(), LOSS, points=2)
    one, other = net(), net()
    one.register_buffer("table", torch.zeros(2))
    other.register_buffer("table", torch.ones(2))
    with pytest.raises(ls.LawscopeError, match="buffer table differs"):
        ls.mode_connectivity(one, other, data(), LOSS)
