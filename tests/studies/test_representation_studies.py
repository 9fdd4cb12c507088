"""What the studies of representations compute by themselves, against autograd and by hand."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from lawscope.studies.representation import _layers as layers
from lawscope.studies.representation import _networks as networks
from lawscope.studies.representation import (
    fluctuation_dissipation,
    neural_collapse_nfa,
    phases,
    weight_decay,
)
from lawscope.studies.representation import transformer as power_laws
from lawscope.studies.representation._descent import Batches, begin


@pytest.fixture
def data():
    torch.manual_seed(0)
    return torch.randn(40, 100).double(), torch.arange(40) % 10


@pytest.mark.parametrize("activation", ["ReLU", "tanh"])
def test_gradients_written_out_are_those_of_autograd(activation, data):
    seeds = [3, 4]
    stack = begin(seeds, activation)
    x, y = data
    found = stack.look(x.expand(2, -1, -1), y.expand(2, -1))
    for at, seed in enumerate(seeds):
        torch.manual_seed(seed)
        network = networks.bias_free(activation).double()
        assert cross_entropy(network(x), y).item() == pytest.approx(found.loss[at].item())
        for index, name in enumerate(("layer1.linear", *networks.HIDDEN, "head")):
            before, after = layers.split_network(network, name)
            h = before(x)
            torch.testing.assert_close(after(h), network(x))
            torch.testing.assert_close(before[:-1](x).T, found.inputs[index][at])
            expected = layers.gradients_at(after, h, y)
            torch.testing.assert_close(expected.T, found.gradients[index][at])


def test_a_step_is_that_of_sgd_with_decay(data):
    x, y = data
    stack = begin([5], "ReLU")
    torch.manual_seed(5)
    network = networks.bias_free("ReLU").double()
    optimizer = torch.optim.SGD(network.parameters(), 0.1, weight_decay=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        cross_entropy(network(x), y).backward()
        optimizer.step()
        stack.step(stack.look(x[None], y[None]), 0.1, 0.01)
    for ours, theirs in zip(stack.weights, network.parameters(), strict=True):
        torch.testing.assert_close(ours[0], theirs.detach())


def test_batches_of_a_seed_do_not_depend_on_the_others(data):
    x, y = data
    one, two = Batches(x, y, [7], 4), Batches(x, y, [8, 7], 4)
    for _ in range(3):
        torch.testing.assert_close(one.draw()[0][0], two.draw()[0][1])


def test_epochs_kept_have_those_of_pictures():
    for epochs in (1, 3, 30, 240):
        kept = networks.every(epochs)
        assert kept[0] == 0
        assert len(kept) <= 45
        assert networks.along(epochs)[-1] == epochs
    (training,) = networks.mlps({**networks.PAPER, "seeds": 1}, "ReLU", 0.01)
    assert set(networks.along(training.recipe.epochs)) <= training.kept
    # 9400 steps, whatever the batch.
    steps = [
        t.recipe.epochs * math.ceil(5000 / t.recipe.batch_size)
        for batch in (4, 16, 128)
        for t in networks.mlps({**networks.PAPER, "seeds": 1}, "ReLU", 0.0, batch)
    ]
    assert steps == pytest.approx([9400] * 3, rel=0.07)


def test_gain_is_one_for_what_is_unrelated_and_d_for_one_direction():
    direction = torch.tensor([[1.0, 2.0, -1.0, 0.5]], dtype=torch.float64)
    H = direction.T @ direction
    assert neural_collapse_nfa.gain(direction, H) == pytest.approx(4)
    assert neural_collapse_nfa.gain(torch.eye(4, dtype=torch.float64), H) == pytest.approx(1)


def test_use_of_a_layer_whose_outputs_matter_in_one_direction():
    # The loss reads the first coordinate alone, which also varies most.
    torch.manual_seed(0)
    d = 16
    network = nn.Sequential()
    network.add_module("first", nn.Linear(d, d, bias=False))
    network.add_module("head", nn.Linear(d, 2, bias=False))
    scales = torch.tensor([3.0, *[0.1] * (d - 1)], dtype=torch.float64)
    with torch.no_grad():
        network.first.weight.copy_(torch.eye(d))
        network.head.weight.zero_()
        network.head.weight[0, 0] = 1.0
    x = torch.randn(400, d, dtype=torch.float64) * scales
    found = neural_collapse_nfa.use_of(network, "first", x, (x[:, 0] < 0).long())
    assert found["fewest_H"] == 1
    assert found["fewest_random"] == d - 1 or found["fewest_random"] == d
    assert abs(found["unimportant"]) < 0.01 * found["important"]
    # The identity is given back by its transpose.
    assert found["invertible"] > 0.99


def test_a_weight_is_inverted_where_inputs_lie_along_it():
    torch.manual_seed(0)
    W = torch.randn(8, 8, dtype=torch.float64)
    white = torch.randn(20_000, 8, dtype=torch.float64)
    U, _, Vt = torch.linalg.svd(W)
    W = (U * torch.logspace(0, -2, 8)) @ Vt
    first = white[:, :1] @ Vt[:1]
    assert neural_collapse_nfa.invert(W, first, first @ W.T)["invertible"] > 0.99
    along = white @ torch.diag(torch.logspace(0, -2, 8).double()) @ Vt
    assert neural_collapse_nfa.invert(W, along, along @ W.T)["invertible"] > 0.5
    assert abs(neural_collapse_nfa.invert(W, white, white @ W.T)["invertible"]) < 0.05


def test_comparisons_are_of_the_ends_seed_by_seed():
    rows = [
        {"group": "g", "comparison": "equal loss", "decay": decay, "batch": 16, "seed": seed}
        | {"rank99": 10 * seed + 100 * decay}
        for decay in (0.0, 0.001, 0.01)
        for seed in (1, 2)
    ]
    read = weight_decay.compare("rank99", "decay", "equal loss")
    assert read({"rows": rows}) == {"g": pytest.approx([1, 1])}


def test_the_printed_table_is_what_the_relations_imply():
    for name in phases.PRINTED:
        assert phases.synthesise(name, 1)["error"] < 1e-9
        assert phases.synthesise(name, 1)["label"] == name


@pytest.mark.parametrize(("step", "expected"), [(0.1, 1.9), (1.0, 1.0)])
def test_the_talks_form_of_einsteins_relation_is_off_by_two_minus_the_step(step, expected):
    found = fluctuation_dissipation.simulate(1.0, step, 0, {"particles": 20_000, "times": 60.0})
    assert found["talk"] == pytest.approx(expected, rel=0.01)
    assert found["exact"] == pytest.approx(1, rel=0.01)


def test_numbers_of_the_transformer_by_module():
    measured = {"q, layer 1": [1.0, 2.0, 3.0], "q, layer 2": [1.0], "v, layer 1": [0.5]}
    assert power_laws.write_ranges(measured) == "1.0 to 2.0 in queries; 0.5 in values"
    measured["attention out, layer 1"] = [-3.25, 4.0]
    expected = "0.5 to 2.0 in queries, keys and values; 0.4 elsewhere"
    assert power_laws.write_ranges(measured) == expected


def test_phases_are_counted_in_words():
    none = {"no phase": 3}
    assert power_laws.write_tally({"q": none, "k": none}) == "none of 6"
    several = power_laws.write_tally({"q": {"forward CRH": 2, "phase 9": 1}, "k": none})
    assert several == "q: forward CRH in 2 of 3, phase 9 in 1 of 3; k: no phase in all 3"
    assert phases.write_counts({"phase 8": 2, "no phase": 58}) == "no phase: 58 layers; phase 8: 2"
