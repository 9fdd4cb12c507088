"""Charges are orthogonal to every gradient, and the ledger's recursion is exact along training."""

import copy

import pytest
import torch
from tests import odd_networks
from tests.laws import networks_with_symmetry as nets
from tests.laws.test_symmetries import CASES, made
from torch import nn

import lawscope as ls
from lawscope.capture.outputs import main_tensor

X = torch.randn(32, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
Y = torch.arange(32) % 3


@pytest.mark.parametrize("name", sorted(set(CASES) - {"llama"}))  # its norms round to float32
def test_gradients_of_charges_are_orthogonal_to_the_gradient_of_any_loss(name):
    model, example, _ = made(name)
    found = ls.find_symmetries(model, example)
    model, example = model.double(), example.double() if example.is_floating_point() else example
    parameters = dict(model.named_parameters())
    scores = main_tensor(model(example)).log_softmax(-1)
    torch.manual_seed(3)
    loss = (scores * torch.randn(scores.shape, dtype=torch.float64).softmax(-1)).sum()
    names = list(parameters)
    slopes = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    gradient = dict(zip(names, slopes, strict=True))
    for one in found.continuous:
        weights = torch.randn(one.charge(parameters).shape, dtype=torch.float64)
        charge = (one.charge(parameters) * weights).sum()
        moved = torch.autograd.grad(charge, [parameters[n] for n in one.parameters])
        pairs = [(m, gradient[n]) for m, n in zip(moved, one.parameters, strict=True)]
        inner = sum((m * g).sum() for m, g in pairs)
        size = sum(m.square().sum() for m, _ in pairs) * sum(g.square().sum() for _, g in pairs)
        assert abs(inner) <= 1e-12 * size.sqrt() + 1e-14, one


def test_charges_are_the_formulas():
    model = nets.mlp()
    found = {(c.kind, c.where): c.values for c in ls.charges(model, nets.inputs()).charges}
    w, b, u = (p.detach().double() for p in (model[0].weight, model[0].bias, model[2].weight))
    by_hand = w.square().sum(1) + b.square() - u.square().sum(0)
    assert found["rescaling", "0 → 2"] == pytest.approx(by_hand.numpy(), abs=1e-6)
    wide = torch.cat([model[4].weight, model[4].bias[:, None]], 1).detach().double()
    u = model[5].weight.detach().double()
    matrix = (wide @ wide.T - u.T @ u).numpy()
    assert found["double rotation", "4 → 5"] == pytest.approx(matrix, abs=1e-6)
    sums = u.sum(0).numpy()
    assert found["translation", "5.weight → softmax"] == pytest.approx(sums, abs=1e-6)


def test_the_recursion_is_exact_behind_powers():
    torch.manual_seed(0)
    model = nets.Powers().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1)
    history = train(model, optimizer, symmetries=ls.find_symmetries(model, X))
    assert sum("rescaling" in name for name in history.names) == 2
    assert history.exact
    assert history.drift[-1].max() > 1e-3


def train(model, optimizer, steps=60, every=7, symmetries=None, x=X):
    generator = torch.Generator().manual_seed(0)
    with ls.ChargeLedger(model, optimizer, every=every, symmetries=symmetries) as ledger:
        for _ in range(steps):
            rows = torch.randint(0, len(x), (4,), generator=generator)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), Y[rows]).backward()
            optimizer.step()
    return ledger.history()


SETTINGS = {
    "SGD": {},
    "decay": {"weight_decay": 0.05},
    "heavy ball": {"momentum": 0.9},
    "heavy ball with decay": {"momentum": 0.9, "weight_decay": 0.05},
    "dampening": {"momentum": 0.9, "weight_decay": 0.05, "dampening": 0.5},
    "Nesterov": {"momentum": 0.9, "nesterov": True},
    "Nesterov with decay": {"momentum": 0.8, "nesterov": True, "weight_decay": 0.05},
    "one tensor at a time": {"momentum": 0.9, "nesterov": True, "foreach": False},
    "upwards": {"maximize": True, "weight_decay": 0.05, "lr": 0.01},
}


def groups_of(model, split):
    """Return parameters as one group, or with settings of their own for biases or by layer."""
    if split == "one":
        return [{"params": list(model.parameters())}]
    if split == "no decay on biases":
        biases = [p for p in model.parameters() if p.dim() == 1]
        rest = [p for p in model.parameters() if p.dim() > 1]
        return [{"params": biases, "weight_decay": 0.0}, {"params": rest, "weight_decay": 0.1}]
    return [
        {"params": list(layer.parameters()), "lr": 0.05 / (1 + i)}
        for i, layer in enumerate(model)
        if list(layer.parameters())
    ]


@pytest.mark.parametrize("split", ["one", "no decay on biases", "rates by layer"])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_recursion_is_exact(name, split):
    torch.manual_seed(0)
    model = nets.mlp().double()
    settings = {"lr": 0.05, **SETTINGS[name]}
    history = train(model, torch.optim.SGD(groups_of(model, split), **settings))
    assert len(history.names) == 4  # rescaling, double rotation, two translations
    assert history.worst < 1e-12, history.table()
    assert history.exact
    # Without decay a translation stays where it is; all else moves far more than the error.
    assert (history.drift[-1, :2] > 1e-6).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_biases_that_are_added_keep_their_difference(name):
    torch.manual_seed(0)
    model = nets.Parallel().double()
    groups = [
        {"params": model.a.parameters(), "lr": 0.02, "weight_decay": 0.1},
        {"params": [*model.b.parameters(), *model.h.parameters()]},
    ]
    history = train(model, torch.optim.SGD(groups, **{"lr": 0.05, **SETTINGS[name]}))
    place = history.names.index("translation a.bias − b.bias")
    assert history.error[:, place].max() < 1e-13
    assert history.drift[-1, place] > 1e-3  # decay is on one of them


def test_two_optimizers_of_one_network_have_a_ledger_each():
    torch.manual_seed(0)
    model = nets.mlp().double()
    first = torch.optim.SGD(model[:3].parameters(), lr=0.05, momentum=0.9, weight_decay=0.1)
    second = torch.optim.SGD(model[3:].parameters(), lr=0.05)
    ledgers = [ls.ChargeLedger(model, each, every=1) for each in (first, second)]
    for _ in range(5):
        nn.functional.cross_entropy(model(X), Y).backward()
        for optimizer in (first, second):
            optimizer.step()
            optimizer.zero_grad()
    for ledger, kept in zip(ledgers, (1, 3), strict=True):
        ledger.close()
        history = ledger.history()
        assert len(history.names) == kept
        assert len(history.steps) == 5
        assert history.worst < 1e-12
    assert not model._forward_pre_hooks


def test_a_training_that_diverges_is_said():
    torch.manual_seed(0)
    model = nets.mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
    with ls.ChargeLedger(model, optimizer, every=1) as ledger:
        for _ in range(20):
            optimizer.zero_grad()
            model(X).square().sum().backward()
            optimizer.step()
    history = ledger.history()
    assert not history.exact
    assert "diverged" in str(history)


def test_a_wrong_gradient_is_seen():
    """The ledger is not a copy of the measurement: a penalty that it does not know breaks it."""
    torch.manual_seed(0)
    model = nets.mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with ls.ChargeLedger(model, optimizer, every=1) as ledger:
        loss = nn.functional.cross_entropy(model(X), Y) + 0.01 * model[0].weight.square().sum()
        loss.backward()
        optimizer.step()
    assert not ledger.history().exact
    assert "do not agree" in str(ledger.history())


def test_schedules_and_clipping_keep_it_exact():
    torch.manual_seed(0)
    model = nets.tied().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    with ls.ChargeLedger(model, optimizer, every=1) as ledger:
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X), Y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            schedule.step()
    assert len(ledger.history().names) == 3  # the layer that runs twice has a scale too
    assert ledger.history().worst < 1e-12


def test_rounding_of_a_schedule_does_not_measure_charges_again():
    torch.manual_seed(0)
    model = nets.mlp().double()
    optimizer = torch.optim.SGD(groups_of(model, "rates by layer"), lr=0.05)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    with ls.ChargeLedger(model, optimizer, every=1) as ledger:
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
            schedule.step()
    history = ledger.history()
    assert not history.notes
    assert history.worst < 1e-12


def test_the_head_is_not_kept_under_a_loss_that_sees_the_sum_of_the_logits():
    torch.manual_seed(0)
    model = nets.mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with ls.ChargeLedger(model, optimizer, every=1) as ledger:
        for _ in range(3):
            optimizer.zero_grad()
            model(X).square().sum(1).mean().backward()
            optimizer.step()
    history = ledger.history()
    assert len(history.notes) == 2
    assert all("softmax is not kept: this loss changes with it" in note for note in history.notes)
    assert history.exact
    assert torch.isnan(torch.as_tensor(history.error)).any(0).tolist() == [False, False, True, True]


def test_a_ledger_may_begin_in_the_middle_and_float32_is_close():
    torch.manual_seed(0)
    model = nets.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    found = ls.find_symmetries(model, X.float())
    train(model, optimizer, symmetries=found, x=X.float())
    history = train(model, optimizer, symmetries=found, x=X.float())
    assert 1e-12 < history.worst < 1e-6
    assert history.exact


@pytest.mark.parametrize("name", ["resnet", "gpt2"])
def test_networks_in_training_mode(name):
    network, example, _ = CASES[name]
    torch.manual_seed(0)
    model = nets.shaken(network()).double().train()
    batch = example()
    batch = batch.double() if batch.is_floating_point() else batch
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    with ls.ChargeLedger(model, optimizer, every=1) as ledger:
        for _ in range(5):
            optimizer.zero_grad()
            logits = main_tensor(model(batch)).flatten(0, -2)
            nn.functional.cross_entropy(logits, torch.arange(len(logits)) % 3).backward()
            optimizer.step()
    assert ledger.history().worst < 1e-11


def test_an_example_may_be_left_out_where_the_network_says_what_it_reads():
    torch.manual_seed(0)
    model = nets.mlp()
    assert ls.charges(model) == ls.charges(model, X.float())
    network, example, _ = CASES["gpt2"]
    model = network()
    assert ls.charges(model) == ls.charges(model, example())
    # What begins with a convolution reads images of any size; a layer may not be the first to run.
    late = nn.ModuleList([nn.Linear(7, 3), nn.Linear(4, 7)])
    late.forward = lambda x: late[0](late[1](x).relu())
    for other in (nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3)), late):
        with pytest.raises(ls.LawscopeError, match="needs a batch"):
            ls.charges(other)


def test_adam_drifts_and_adamw_is_said():
    torch.manual_seed(0)
    start = nets.mlp().double()
    for kind in (torch.optim.Adam, torch.optim.AdamW):
        model = copy.deepcopy(start)
        history = train(model, kind(model.parameters(), lr=0.01))
        assert "no exact recursion" in str(history)
        assert (history.drift[-1] > 1e-4).all()
    assert "not an L2 penalty" in " ".join(history.notes)
    if "decoupled_weight_decay" in torch.optim.Adam(start.parameters()).defaults:  # torch 2.7
        apart = torch.optim.Adam(start.parameters(), weight_decay=0.1, decoupled_weight_decay=True)
        history = train(start, apart)
        assert "Adam decays weights apart" in " ".join(history.notes)


def test_hooks_are_gone_and_results_come_back(tmp_path):
    torch.manual_seed(0)
    model = nets.mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    history = train(model, optimizer)
    assert not model._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert ls.load(history.save(tmp_path / "h.json")) == history
    assert history.plot() is not None
    charges = ls.charges(model, X)
    assert ls.load(charges.save(tmp_path / "c.json")) == charges
    assert charges.plot() is not None
    before = odd_networks.snapshot(model)
    ls.charges(model, X)
    assert odd_networks.snapshot(model) == before


def test_what_cannot_be_kept_is_said():
    model, other = nets.mlp().double(), nets.mlp().double()
    with pytest.raises(ls.LawscopeError, match="owns none"):
        ls.ChargeLedger(model, torch.optim.SGD(other.parameters(), lr=0.1))
    partial = torch.optim.SGD([model[0].weight, *model[4].parameters(), model[5].weight], lr=0.1)
    ledger = ls.ChargeLedger(model, partial, symmetries=ls.find_symmetries(model, X))
    assert "0.bias is not among the optimizer's parameters" in " ".join(ledger.notes)
    with pytest.raises(ls.LawscopeError, match="no step"):
        ledger.history()
    with pytest.raises(ls.LawscopeError, match="closure"):
        partial.step(lambda: torch.zeros(()))
    ledger.close()
    model[2].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = ls.find_symmetries(model, X)
    with ls.ChargeLedger(model, optimizer, symmetries=found) as ledger:
        assert "frozen" in " ".join(ledger.notes)
    frozen = ls.charges(model, symmetries=found)
    assert "1 of them not conserved" in str(frozen)
    assert "a part is frozen" in " ".join(frozen.section().findings)
    with pytest.raises(ls.LawscopeError, match="find the symmetries of this model again"):
        ls.charges(nets.Gated(), symmetries=found)
