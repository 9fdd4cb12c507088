"""A teleported network computes the same; where it arrives is measured again from scratch."""

import numpy as np
import pytest
import torch
from tests.laws import networks_with_symmetry as nets
from torch import nn

import lawscope as ls

X = torch.randn(48, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
Y = torch.arange(48) % 3
LOSS = nn.functional.cross_entropy


def network():
    torch.manual_seed(0)
    layers = nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)
    return nn.Sequential(*layers).double()


def test_equilibrium_is_that_of_a_loop_over_samples():
    model, n = network(), 1200
    x_all = torch.randn(n, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    y_all = torch.arange(n) % 3
    halves = [(x_all[:250], y_all[:250]), (x_all[250:], y_all[250:])]
    found = ls.noise_equilibrium(model, halves, LOSS)
    sides = []
    for x, y in zip(x_all, y_all, strict=True):
        loss = LOSS(model(x[None]), y[None])
        w, b, u = torch.autograd.grad(loss, [model[0].weight, model[0].bias, model[2].weight])
        sides.append([w.square().sum(1) + b.square(), u.square().sum(0)])
    into, out = (torch.stack([s[i] for s in sides]).numpy() for i in (0, 1))
    first = found.places[0]
    assert first.where == "0 → 2"
    expected = np.log(into.mean(0) / out.mean(0)) / 4
    assert first.scale == pytest.approx(expected, rel=1e-10)
    rng = np.random.default_rng(0)
    draws = [rng.integers(0, n, n) for _ in range(2000)]
    resampled = np.array([np.log(into[d].mean(0) / out[d].mean(0)) / 4 for d in draws])
    width = (first.interval[:, 1] - first.interval[:, 0]) / (2 * 1.96)
    assert width == pytest.approx(resampled.std(0), rel=0.1)
    assert found.samples == n
    few = ls.noise_equilibrium(model, (X, Y), LOSS)
    assert np.isnan(few.places[0].interval).all()
    # Of nine, one is dead.
    assert "8 units without an interval" in few.section().findings[0]


@pytest.mark.parametrize("target", ["balanced", "noise-equilibrium"])
def test_teleport_keeps_the_function_and_arrives(target, tmp_path):
    model = network()
    with torch.no_grad():  # far from both targets
        model[0].weight *= 3
        model[4].weight *= 0.2
    before = model(X).detach()
    found = ls.teleport(model, (X, Y), target, loss=LOSS)
    assert torch.allclose(model(X), before, rtol=1e-12, atol=1e-13)
    charges = [c.values for c in ls.charges(model, X).charges if c.kind == "rescaling"]
    noise = ls.noise_equilibrium(model, (X, Y), LOSS)
    distances = noise.table()["distance"].to_numpy()
    if target == "balanced":
        assert np.abs(np.concatenate(charges)).max() < 1e-10
        assert found.norm[1] < found.norm[0]
        assert distances.max() > 0.01
    else:
        assert distances.max() < 1e-10
        assert found.gradient[1] < found.gradient[0]
        assert np.abs(np.concatenate(charges)).max() > 0.01
    assert ls.load(found.save(tmp_path / "t.json")) == found
    assert ls.load(noise.save(tmp_path / "n.json")) == noise
    assert noise.plot() is not None


def test_dead_units_stay_where_they_are():
    model = network()
    with torch.no_grad():
        model[2].weight[:, 1] = 0
    row = model[0].weight[1].detach().clone()
    found = ls.teleport(model, X)
    assert found.dead == 1
    assert torch.equal(model[0].weight[1], row)


def test_what_is_missing_ends_in_a_sentence():
    with pytest.raises(ls.LawscopeError, match="loss="):
        ls.teleport(network(), (X, Y), "noise-equilibrium")
    with pytest.raises(ls.LawscopeError, match="'balanced'"):
        ls.teleport(network(), (X, Y), "steepest")
    with pytest.raises(ls.LawscopeError, match="no labels"):
        ls.noise_equilibrium(network(), [X], LOSS)
    with pytest.raises(ls.LawscopeError, match="no rescaling"):
        ls.teleport(nets.LowRank().double(), (X, Y))
