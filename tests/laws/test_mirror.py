"""c₀ and c₁ across a mirror, against a landscape that can be solved and a Hessian."""

import copy

import pytest
import torch
from tests import cases
from torch import nn

import lawscope as ls


def quadratic(output, target):
    return (output - target).square().mean()


@pytest.mark.parametrize("decay", [0.5, 3.0])
def test_a_flip_in_the_product_of_two_weights_has_the_closed_form(decay):
    """(uwx − y)² + (λ/2)(u² + w²) along u = w: c₀ = λ/2 − xy and c₁ = x²/4."""
    x, y = 1.5, 0.8
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)).double()
    for layer in net:
        nn.init.constant_(layer.weight, 0.9)
    pair = torch.tensor([[x]], dtype=torch.float64), torch.tensor([[y]], dtype=torch.float64)
    found = ls.mirror(net, [pair], quadratic, "0", 0, decay=decay)
    assert found.c0 == pytest.approx(decay / 2 - x * y, rel=1e-9)
    assert found.c1 == pytest.approx(x**2 / 4, rel=1e-9)
    assert found.oddness < 1e-12
    assert found.place == pytest.approx(0.9 * 2**0.5)
    assert ("is stable" in str(found)) == (decay > 2 * x * y)


def net(activation, norm=False):
    torch.manual_seed(0)
    layers = [nn.Linear(6, 5), *([nn.BatchNorm1d(5)] if norm else []), activation]
    return nn.Sequential(*layers, nn.Linear(5, 4)).double().eval()


def data():
    x, y = cases.vectors().double(), cases.labels()
    return [(x[:20], y[:20]), (x[20:], y[20:])]


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh()])
def test_exchange_is_exact_for_every_activation_and_the_network_is_left_as_found(activation, norm):
    model = net(activation, norm)
    if norm:
        model[1].running_mean.copy_(torch.arange(5.0))
    before = copy.deepcopy(model.state_dict())
    found = ls.mirror(model, data(), nn.functional.cross_entropy, "0", (1, 3), decay=0.1)
    assert found.oddness < 1e-9
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    x, y = cases.vectors().double(), cases.labels()
    middle = copy.deepcopy(model)
    with torch.no_grad():
        for part in model[:-1]:
            for name, tensor in part.state_dict().items():
                if tensor.dim():
                    middle_tensor = middle[list(model).index(part)].state_dict()[name]
                    middle_tensor[[1, 3]] = tensor[[1, 3]].mean(dim=0, keepdim=True)
        middle[-1].weight[:, [1, 3]] = model[-1].weight[:, [1, 3]].mean(dim=1, keepdim=True)
        full = [
            nn.functional.cross_entropy(m(x), y)
            + 0.05 * sum(p.square().sum() for p in m.parameters())
            for m in (model, middle)
        ]
    assert found.losses[-1] == pytest.approx(float(full[0] - full[1]), rel=1e-9)


def test_a_flip_is_exact_for_tanh_and_not_for_relu():
    tanh, relu = [
        ls.mirror(net(a), data(), nn.functional.cross_entropy, "0", 2)
        for a in (nn.Tanh(), nn.ReLU())
    ]
    assert tanh.oddness < 1e-9
    assert "the symmetric point is" in str(tanh)
    assert relu.oddness > 0.01
    assert str(relu).endswith("so this is not a mirror")


def test_merged_units_part_or_stay_by_the_sign_of_the_curvature():
    """At merged units c₀ is half the second derivative, which decay raises by λ/2."""
    model = net(nn.Tanh())
    with torch.no_grad():
        for tensor in (model[0].weight, model[0].bias, model[2].weight.T):
            tensor[3] = tensor[1]
    free, decayed = (
        ls.mirror(model, data(), nn.functional.cross_entropy, "0", (1, 3), decay=d)
        for d in (0.0, 2.0)
    )
    assert free.place == 0
    assert decayed.c0 - free.c0 == pytest.approx(1, rel=1e-9)
    assert decayed.c1 == pytest.approx(free.c1, rel=1e-6)


MISTAKES = {
    "a layer": ({"layer": "2"}, "no mirror that could be measured. There are '0'"),
    "a unit": ({"units": (1, 9)}, "'0', which has 5"),
    "the same": ({"units": (1, 1)}, "are not different units"),
    "three": ({"units": (1, 2, 3)}, "nor a pair"),
    "a loss": ({"loss": 3}, "cannot be called"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_sentences(mistake):
    wrong, sentence = MISTAKES[mistake]
    given = {"loss": nn.functional.cross_entropy, "layer": "0", "units": (0, 1), **wrong}
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.mirror(net(nn.Tanh()), data(), **given)


def test_it_comes_back_and_is_drawn(tmp_path):
    found = ls.mirror(net(nn.Tanh()), data(), nn.functional.cross_entropy, "0", (0, 1))
    assert ls.load(found.save(tmp_path / "m.html")) == found
