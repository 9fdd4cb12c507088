"""Weight decay on products is L1 or the nuclear norm, and what decayed can be left out."""

import copy

import numpy as np
import pytest
import torch
from tests import cases
from torch import nn

import lawscope as ls

DECAY = 0.1


def regression(outputs):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 10, generator=generator, dtype=torch.float64)
    truth = torch.randn(outputs, 10, generator=generator, dtype=torch.float64)
    truth[:, 3:] = 0
    noise = torch.randn(80, outputs, generator=generator, dtype=torch.float64)
    return x, x @ truth.T + 0.3 * noise


def train(net, x, y, steps=4000, rate=0.05):
    """Minimise half the mean squared error by plain gradient descent with weight decay."""
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, weight_decay=DECAY)
    for _ in range(steps):
        optimizer.zero_grad()
        (0.5 * (net(x) - y).square().sum() / len(x)).backward()
        optimizer.step()


def proximal(x, y, shrink, steps=20_000):
    """The minimum of the same loss plus a penalty, by proximal gradient steps in numpy."""
    x, y = x.numpy(), y.numpy()
    rate = len(x) / np.linalg.norm(x, 2) ** 2
    w = np.zeros((y.shape[1], x.shape[1]))
    for _ in range(steps):
        w = shrink(w - rate * (x @ w.T - y).T @ x / len(x), rate * DECAY)
    return w


def shrink_entries(w, by):
    return np.sign(w) * np.maximum(np.abs(w) - by, 0)


def shrink_values(w, by):
    left, values, right = np.linalg.svd(w, full_matrices=False)
    return left * np.maximum(values - by, 0) @ right


@pytest.mark.parametrize(
    ("kind", "outputs", "shrink"), [("sparse", 1, shrink_entries), ("low-rank", 6, shrink_values)]
)
def test_plain_weight_decay_finds_the_solution_of_the_penalty(kind, outputs, shrink):
    torch.manual_seed(1)
    x, y = regression(outputs)
    net = nn.Sequential(nn.Linear(10, outputs, bias=False)).double()
    imposed = ls.impose_symmetry(net, kind)
    train(net, x, y)
    exact = proximal(x, y, shrink)
    assert net[0].weight.detach().numpy() == pytest.approx(exact, abs=1e-3)
    ordinary = imposed.undo()
    if kind == "sparse":
        zeros = ordinary[0].weight.detach().numpy() == 0
        assert (zeros == (exact == 0)).all()
        assert zeros.sum() >= 5
    else:
        rank = int((np.linalg.svd(exact)[1] > 1e-9).sum())
        assert rank == 3
        thin, out = ordinary[0]
        assert thin.weight.shape == (rank, 10)
        product = (out.weight @ thin.weight).detach().numpy()
        assert product == pytest.approx(exact, abs=2e-3)


@pytest.mark.parametrize("kind", ["sparse", "low-rank"])
@pytest.mark.parametrize("case", cases.CASES[:4], ids=str)
def test_the_function_stays_and_undoing_at_once_restores_every_bit(kind, case):
    net = case.model().eval()
    before, (batch, *_) = copy.deepcopy(net.state_dict()), next(iter(case.batches()))
    with torch.no_grad():
        wanted = net(batch)
    imposed = ls.impose_symmetry(net, kind)
    with torch.no_grad():
        assert torch.allclose(net(batch), wanted, atol=1e-5)
    assert len(imposed.table()) == len(imposed.layers)
    assert imposed.undo() is net
    assert list(net.state_dict()) == list(before)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    with pytest.raises(ls.LawscopeError, match="undone before"):
        imposed.undo()


def test_a_convolution_of_low_rank_becomes_two_thin_ones():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
    net.append(nn.Linear(256, 4))
    imposed = ls.impose_symmetry(net, "low-rank", layers="0")
    with torch.no_grad():
        made = net[0].parametrizations.weight
        made.original0[:, 4:] = 0
    x = cases.images()
    wanted, before = net(x), 16 * 27
    assert imposed.table()["rank"].tolist() == [4]
    small = imposed.undo()
    assert torch.allclose(small(x), wanted, atol=1e-5)
    assert sum(m.weight.numel() for m in small[0]) == 4 * 27 + 16 * 4 < before


def test_weights_can_change_their_sign():
    net = nn.Linear(1, 1, bias=False)
    nn.init.constant_(net.weight, -1)
    ls.impose_symmetry(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        (net(torch.ones(1, 1)) - 2).square().sum().backward()
        optimizer.step()
    assert net.weight.item() == pytest.approx(2, abs=1e-3)


def test_a_network_that_is_one_layer_comes_back_as_two():
    net = nn.Linear(10, 8)
    imposed = ls.impose_symmetry(net, "low-rank", rank=2)
    x = torch.randn(5, 10)
    with torch.no_grad():
        net.parametrizations.weight.original0 *= 1.5
    wanted = net(x)
    small = imposed.undo()
    assert isinstance(small, nn.Sequential)
    assert torch.allclose(small(x), wanted, atol=1e-5)


def frozen():
    return nn.Sequential(nn.Linear(6, 4).requires_grad_(False))


def tied():
    net = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    net[1].weight = net[0].weight
    return net


MISTAKES = {
    "frozen": (frozen, {}, "'0' is frozen"),
    "tied": (tied, {}, "'0' shares its weight"),
    "nothing": (lambda: nn.Sequential(nn.ReLU()), {}, "no nn.Linear or conv"),
    "a name": (frozen, {"layers": "O"}, "no linear or convolutional layer 'O'"),
    "a frozen name": (frozen, {"layers": ["0"]}, "'0' is frozen"),
    "a rank": (tied, {"rank": 2}, "rank= is for"),
    "a kind": (tied, {"kind": "l1"}, "choose 'sparse' or 'low-rank'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_sentences(mistake):
    build, given, sentence = MISTAKES[mistake]
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.impose_symmetry(build(), **given)


def test_a_diverged_training_is_said_and_nothing_is_undone():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    imposed = ls.impose_symmetry(model, "low-rank")
    with torch.no_grad():
        model[2].parametrizations.weight.original0.fill_(torch.nan)
    for ask in (imposed.table, imposed.undo):
        with pytest.raises(ls.LawscopeError, match="layer '2' is NaN or infinite"):
            ask()
    assert len(imposed.layers) == 2
    assert torch.nn.utils.parametrize.is_parametrized(model[0])
