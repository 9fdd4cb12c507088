"""A smaller network gives the outputs of the larger one, and says where it cannot be made."""

import copy

import pytest
import torch
from tests import cases
from tests.laws.test_symmetry import spoilt_mlp
from torch import nn

import lawscope as ls


def lively_norm(norm):
    """Statistics and scales that differ from unit to unit."""
    generator = torch.Generator().manual_seed(5)
    for tensor in (norm.weight.data, norm.running_var):
        tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    for tensor in (norm.bias.data, norm.running_mean):
        tensor.copy_(0.3 * torch.randn(tensor.shape, generator=generator))
    return norm


def spoil(layer, norm, dead, copied):
    """Kill a unit behind its norm; make another a copy up to scale and shift before it."""
    source, copy_ = copied
    with torch.no_grad():
        norm.weight[dead], norm.bias[dead] = 0, -1  # below zero, so that ReLU gives 0
        layer.weight[copy_], layer.bias[copy_] = 2 * layer.weight[source], 2 * layer.bias[source]
        norm.running_mean[copy_] = 2 * norm.running_mean[source]
        norm.running_var[copy_] = 4 * norm.running_var[source]
        norm.weight[copy_], norm.bias[copy_] = 3 * norm.weight[source], 3 * norm.bias[source]


def conv_chain(padding=1):
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), lively_norm(nn.BatchNorm2d(8)), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Conv2d(8, 6, 3, padding=padding), lively_norm(nn.BatchNorm2d(6))),
        *(nn.ReLU(), nn.Dropout(0.3), nn.Flatten()),
        nn.Linear(6 * (2 + 2 * padding) ** 2, 10, bias=False),
        *(nn.PReLU(10), nn.Linear(10, 4, bias=False)),
    )
    spoil(net[0], net[1], 3, (1, 6))
    spoil(net[4], net[5], 0, (2, 5))
    return net


def constant_tanh():
    """A unit that is always tanh(2), read by a layer without a bias, and a mirror image."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 5, bias=False), nn.Tanh())
    net.append(nn.Linear(5, 4))
    with torch.no_grad():
        net[0].weight[2], net[0].bias[2] = 0, 2
        net[0].weight[5], net[0].bias[5] = -net[0].weight[4], -net[0].bias[4]
    return net


NETS = {
    "mlp": (spoilt_mlp, cases.vectors, {"0": (2, 1), "2": (0, 1)}),
    "convolutions, norms, pooling, flattening": (
        conv_chain, cases.images, {"0": (1, 1), "4": (1, 1), "9": (0, 0)},
    ),
    "constants and mirror images": (constant_tanh, cases.vectors, {"0": (1, 1), "2": (0, 0)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", NETS)
def test_outputs_stay_and_parameters_go(kind):
    build, data, removed = NETS[kind]
    net, x = build().train(), data()
    before = copy.deepcopy(net.state_dict())
    found = ls.compress(net, list(x.split(7)))
    assert {one.name: (one.dead, one.merged) for one in found.layers} == removed
    with torch.no_grad():
        wanted, given = net.eval()(x), found.model.eval()(x)
    assert (given - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    error = float((given - wanted).abs().max() / wanted.abs().max())
    assert found.error == pytest.approx(error, abs=5e-7)  # rounding differs with the batch
    assert found.before == sum(p.numel() for p in net.parameters())
    assert found.after == sum(p.numel() for p in found.model.parameters()) < found.before
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    for old, new in zip(net.modules(), found.model.modules(), strict=True):
        assert type(old) is type(new)
    # It learns: every parameter has a gradient, and its widths are those of its weights.
    found.model.train()(x).sum().backward()
    assert all(p.grad is not None for p in found.model.parameters())
    first = found.model[0]
    width = first.out_features if isinstance(first, nn.Linear) else first.out_channels
    assert width == len(first.weight) == found.layers[0].left


def test_a_constant_cannot_go_where_zeros_are_padded():
    torch.manual_seed(0)

    def net(mode):
        torch.manual_seed(0)
        made = nn.Sequential(
            *(nn.Conv2d(3, 5, 1), nn.Tanh(), nn.Conv2d(5, 4, 3, padding=1, padding_mode=mode)),
            *(nn.Flatten(), nn.Linear(256, 4)),
        )
        with torch.no_grad():
            made[0].weight[1], made[0].bias[1] = 0, 1
        return made

    assert ls.compress(net("zeros"), [cases.images()]).layers[0].left == 5
    assert ls.compress(net("circular"), [cases.images()]).layers[0].left == 4


def test_a_looser_tolerance_removes_more():
    net = spoilt_mlp()
    with torch.no_grad():
        net[0].weight[7] = net[0].weight[6] + 1e-4 * torch.randn(6)
        net[0].bias[7] = net[0].bias[6]
    strict, loose = (ls.compress(net, [cases.vectors()], tolerance=t) for t in (1e-6, 1e-2))
    assert loose.layers[0].left < strict.layers[0].left
    assert strict.error <= 1e-6 < loose.error <= 1e-2


def test_a_layer_that_is_all_dead_keeps_a_unit():
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
    nn.init.constant_(net[0].bias, -100)
    found = ls.compress(net, [cases.vectors()])
    assert found.layers[0].left == 1
    x = cases.vectors()
    assert torch.allclose(found.model(x), net(x), atol=1e-6)


class Viewed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 4)
        nn.init.constant_(self.a.bias[:4].data, -100)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)).view(-1, 8))


def tied():
    net = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 4))
    net[2].weight = net[0].weight
    return net


def normed():
    net = nn.Sequential(nn.Linear(6, 6), nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)))
    return nn.Sequential(*net, nn.LayerNorm(6), nn.Linear(6, 4))


REFUSED = {
    "one layer": (lambda: nn.Linear(6, 4), "There is none before the last"),
    "tied weights": (tied, "'0': it shares its weights with another module"),
    "computed weights": (normed, "computes its weight"),
    "a size in the code": (Viewed, "A size may be written into its forward"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_made_smaller_is_said(kind):
    build, sentence = REFUSED[kind]
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.compress(build(), [cases.vectors()])


def test_residual_sums_are_left_alone_and_what_lies_inside_a_branch_is_not():
    net = next(case for case in cases.CASES if case.name == "residual").model().eval()
    with torch.no_grad():
        net.stage1[0].bn1.weight[1], net.stage1[0].bn1.bias[1] = 0, -1
    found = ls.compress(net, [cases.images()])
    by_name = {one.name: one for one in found.layers}
    assert by_name["stage1.0.conv1"].dead == 1
    assert "skip connection" in found.refused["stage1.0.conv2"]
    assert found.saved == 36 + 36 + 2


def test_a_generator_and_the_saved_result(tmp_path):
    with pytest.raises(ls.LawscopeError, match="read several times"):
        ls.compress(spoilt_mlp(), iter([cases.vectors()]))
    found = ls.compress(spoilt_mlp(), [cases.vectors()])
    again = ls.load(found.save(tmp_path / "c.lawscope.json"))
    assert again == found
    assert again.model is None
    assert "saved): 2 dead units and 2 copies left out" in str(found)
    assert found.table()["left"].tolist() == [5, 6]
    assert "Compression" in found.save(tmp_path / "c.html").read_text()
