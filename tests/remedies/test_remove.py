"""Weight decay to a fixed random point, against the penalty written out, and what it changes."""

import copy

import numpy as np
import pytest
import torch
from tests import cases
from torch import nn

import lawscope as ls


def net(copies=False):
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)).double()
    if copies:
        with torch.no_grad():
            for parameter in (made[0].weight, made[0].bias, made[2].weight.T):
                parameter[1:4] = parameter[0].clone()
    return made


def train(model, optimizer, penalty=None, steps=30):
    x, y = cases.vectors().double(), cases.labels()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        (loss if penalty is None else loss + penalty()).backward()
        optimizer.step()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_the_optimizer_steps_along_the_gradient_of_the_penalty(kind):
    hooked, explicit = net(), net()
    optimizer = kind(hooked.parameters(), lr=0.01, weight_decay=0.02)
    ls.remove_symmetry(optimizer, sigma=0.3, diagonal=0.5, seed=4)
    beside = ls.remove_symmetry(explicit, sigma=0.3, diagonal=0.5, decay=0.02, seed=4)
    train(hooked, optimizer)
    train(explicit, kind(explicit.parameters(), lr=0.01), beside.penalty)
    for a, b in zip(hooked.parameters(), explicit.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_undone_the_optimizer_decays_to_zero_again():
    model, plain = net(), net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=0.02)
    removed = ls.remove_symmetry(optimizer)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0]
    removed.undo()
    removed.undo()  # nothing is left to do
    train(model, optimizer)
    train(plain, torch.optim.SGD(plain.parameters(), lr=0.01, weight_decay=0.02))
    assert all(torch.equal(v, plain.state_dict()[k]) for k, v in model.state_dict().items())


def test_the_penalty_is_the_sum_written_out():
    model = net()
    removed = ls.remove_symmetry(model, sigma=0.2, diagonal=0.3, decay=0.7)
    generator, total = torch.Generator().manual_seed(0), 0.0
    for parameter in model.parameters():
        shape = tuple(parameter.shape)
        point = 0.2 * torch.randn(shape, generator=generator, dtype=torch.float64).numpy()
        d = 0.7 + 0.6 * torch.rand(shape, generator=generator, dtype=torch.float64).numpy()
        total += 0.35 * (d * (parameter.detach().numpy() - point) ** 2).sum()
    assert removed.penalty().item() == pytest.approx(total, rel=1e-12)


def test_copies_part_and_only_without_the_symmetry():
    """Equal units stay equal under gradient descent with weight decay; with θ₀ they do not."""
    apart = {}
    for removes in (False, True):
        model = net(copies=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2, weight_decay=0.01)
        removed = ls.remove_symmetry(optimizer, sigma=0.1) if removes else None
        train(model, optimizer, steps=2000)
        learned = model[0].weight.detach()
        if removed is not None:
            learned = removed.deviations()["0.0"]
        apart[removes] = float((learned[:4] - learned[0]).norm() / learned[0].norm())
    assert apart[False] < 1e-9
    assert apart[True] > 0.1


def test_ranks_are_shown_of_what_was_learned_and_ablation_puts_everything_back():
    model = net()
    removed = ls.remove_symmetry(model, sigma=0.5, decay=0.1)
    table = removed.table()
    assert list(table["parameter"]) == ["0.weight", "2.weight"]
    weight = model[0].weight.detach().clone()
    point = weight - removed.deviations()["0.weight"]
    for column, matrix in zip(("θ", "θ − θ₀", "θ₀"), (weight, weight - point, point), strict=True):
        s = np.linalg.svd(matrix.numpy(), compute_uv=False)
        p = s / s.sum()
        assert table[column][0] == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-6)
    before = copy.deepcopy(model.state_dict())
    with removed.ablated():
        assert torch.allclose(model[0].weight, weight - point)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def sgd(decay=0.0, kind=torch.optim.SGD, **more):
    return kind(net().parameters(), lr=0.1, **({"weight_decay": decay} if decay else {}), **more)


MISTAKES = {
    "no decay": (lambda: sgd(), {}, "weight_decay is 0"),
    "AdamW": (lambda: sgd(0.1, torch.optim.AdamW), {}, "apart from the loss"),
    "LBFGS": (lambda: sgd(kind=torch.optim.LBFGS), {"decay": 1.0}, "inside of its steps"),
    "Rprop": (lambda: sgd(kind=torch.optim.Rprop), {"decay": 1.0}, "no weight_decay to replace"),
    "frozen": (lambda: net().requires_grad_(False), {}, "no parameter to decay"),
    "sigma": (net, {"sigma": 0}, "sigma=0 is not a number above 0"),
    "diagonal": (net, {"diagonal": 1}, "diagonal=1 is not a number from 0 to below 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_sentences(mistake):
    build, given, sentence = MISTAKES[mistake]
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.remove_symmetry(build(), **given)


def test_the_penalty_is_not_added_twice():
    removed = ls.remove_symmetry(sgd(0.1))
    with pytest.raises(ls.LawscopeError, match="do not add it"):
        removed.penalty()
