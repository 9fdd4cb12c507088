"""The rows measured are those that the next weight or the head reads: nodes, steps, samples."""

import pytest
import torch
import torch.nn.functional as F
from tests import cases, oracles
from torch import nn

import lawscope as ls
from lawscope.errors import LawscopeError

NODES = 40
WIDTH = 8


def aggregate_by_product(net, h):
    return net.edges @ h


def aggregate_scaled(net, h):
    return (net.edges @ h) / net.edges.sum(1, keepdim=True)


def aggregate_sparse(net, h):
    return torch.sparse.mm(net.edges.to_sparse(), h)


def aggregate_by_index(net, h):
    sent, received = net.edges.nonzero().T
    return torch.zeros_like(h).index_add(0, received, h[sent])


def graph_network(aggregate):
    def run(net, h):
        for layer in net.layers:
            h = F.relu(aggregate(net, layer(h)))
        return net.head(h)

    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
    net = cases.Net(run, layers=layers, head=nn.Linear(WIDTH, 4))
    edges = (torch.rand(NODES, NODES) < 0.1).float() + torch.eye(NODES)
    net.register_buffer("edges", edges)
    return net


@pytest.mark.parametrize(
    "aggregate", [aggregate_by_product, aggregate_scaled, aggregate_sparse, aggregate_by_index]
)
def test_nodes_of_a_graph_are_measured_after_aggregation_and_activation(aggregate):
    net, x, y = graph_network(aggregate), cases.vectors(NODES, WIDTH), cases.labels(NODES)
    result = ls.separation(net, [(x, y)], uncertainty=None)
    assert result.stations == ("input", "relu()", "relu()#2", "relu()#3")
    assert result.layers[1:] == ("layers.0", "layers.1", "layers.2")
    read = {}
    net.head.register_forward_pre_hook(lambda module, args: read.update(rows=args[0]))
    with torch.no_grad():
        net(x)
    assert result.values[-1] == pytest.approx(oracles.fuzziness(read["rows"], y), rel=1e-6)


def test_edges_may_come_with_the_data_and_two_weighted_sides_end_a_layer():
    def run(net, h, edges):
        h = F.relu(edges @ net.a(h))
        return net.head(F.relu(net.b(h) @ net.c(h).T @ h))

    parts = {name: nn.Linear(WIDTH, WIDTH) for name in ("a", "b", "c")}
    net = cases.Net(run, **parts, head=nn.Linear(WIDTH, 4))
    found = ls.stations(net, (torch.randn(9, WIDTH), torch.rand(9, 9), torch.zeros(9)))
    # A product of two features is attention: neither side is complete after it.
    assert [s.name for s in found.granularity("layers")] == ["input", "relu()"]


def reads(how):
    """Return a head's way to read (steps, final states) of a recurrent layer."""
    return {
        "last": lambda steps, state: steps[:, -1],
        "first": lambda steps, state: steps[:, 0],
        "mean": lambda steps, state: steps.sum(1) / steps.shape[1],
        "max": lambda steps, state: steps.max(1).values,
        "last after a norm": lambda steps, state: F.layer_norm(steps[:, -1], steps.shape[2:]),
        "last state": lambda steps, state: state[-1],
        "both states": lambda steps, state: torch.cat([state[-2], state[-1]], 1),
        "third": lambda steps, state: steps[:, 2],
        "last and mean": lambda steps, state: torch.cat([steps[:, -1], steps.mean(1)], 1),
    }[how]


def recurrent_network(how, module=nn.LSTM, **options):
    def run(net, x):
        steps, state = net.rnn(x)
        return net.head(reads(how)(steps, state[0] if isinstance(state, tuple) else state))

    torch.manual_seed(0)
    both = how in ("both states", "last and mean")
    rnn = module(8, 5, batch_first=True, bidirectional=how == "both states", **options)
    return cases.Net(run, rnn=rnn, head=nn.Linear(10 if both else 5, 4))


def measure(net):
    """Return the measurement, and D of what the head reads."""
    x, y, read = cases.sequences(), cases.labels(), {}
    result = ls.separation(net, (x, y), uncertainty=None)
    net.head.register_forward_pre_hook(lambda module, args: read.update(rows=args[0]))
    with torch.no_grad():
        net(x)
    return result, oracles.fuzziness(read["rows"], y)


@pytest.mark.parametrize("module", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("last", "last"),
        ("first", "first"),
        ("mean", "mean"),
        ("max", "max"),
        ("last state", "last"),
        ("both states", "ends"),
    ],
)
def test_the_steps_of_a_recurrent_layer_are_pooled_as_the_head_reads_them(module, how, said):
    result, at_head = measure(recurrent_network(how, module))
    assert result.stations == ("input", "rnn")
    assert result.settings["pooling"] == ["mean", said]
    assert result.values[-1] == pytest.approx(at_head, rel=1e-5)
    assert not [w for w in result.warnings if "recurrent" in w]


def test_a_norm_of_the_last_step_is_still_the_last_step():
    assert measure(recurrent_network("last after a norm"))[0].settings["pooling"][1] == "last"


@pytest.mark.parametrize("how", ["third", "last and mean"])
def test_steps_that_are_read_in_another_way_are_said(how):
    with pytest.warns(ls.LawscopeWarning, match="reads of the steps of its recurrent layers"):
        result, _ = measure(recurrent_network(how))
    assert result.settings["pooling"] == ["mean", "mean"]


def test_all_recurrent_layers_of_a_chain_are_read_alike():
    def run(net, x):
        h = net.project(net.second(net.first(x)[0])[0])
        return net.head(torch.relu(h)[:, -1])

    rnn = {name: nn.GRU(8, 8, batch_first=True) for name in ("first", "second")}
    net = cases.Net(run, **rnn, project=nn.Linear(8, 8), head=nn.Linear(8, 4))
    result, at_head = measure(net)
    assert result.stations == ("input", "first", "second", "relu()")
    assert result.settings["pooling"] == ["mean", "last", "last", "last"]
    assert result.values[-1] == pytest.approx(at_head, rel=1e-5)


def test_layers_inside_a_recurrent_module_are_said_to_be_unseen():
    with pytest.warns(ls.LawscopeWarning, match="'rnn' runs its 3 layers in one call"):
        result, at_head = measure(recurrent_network("last", num_layers=3))
    assert result.values[-1] == pytest.approx(at_head, rel=1e-5)
    found = ls.stations(recurrent_network("last", num_layers=3), cases.sequences())
    assert "only the last can be seen" in repr(found)


def steps_first(net, x):
    return net.head(F.relu(net.b(F.relu(net.a(x))))[-1])


@pytest.mark.parametrize(("steps", "samples"), [(8, 8), (16, 16), (40, 40), (7, 16), (300, 300)])
@pytest.mark.parametrize("form", [lambda x, y: [(x, y)], lambda x, y: (x, y)])
def test_data_with_steps_first_is_refused_also_with_as_many_steps_as_samples(steps, samples, form):
    torch.manual_seed(0)
    net = cases.Net(steps_first, a=nn.Linear(6, 8), b=nn.Linear(8, 8), head=nn.Linear(8, 4))
    y = torch.arange(samples) % 4
    x = torch.randn(steps, samples, 6) + 3 * torch.eye(6)[y]
    with pytest.raises(LawscopeError, match=r"second axis counts samples|labels"):
        ls.separation(net, form(x, y), uncertainty=None)
    turned = cases.Net(lambda net, x: net.inner(x.transpose(0, 1)), inner=net)
    result = ls.separation(turned, form(x.transpose(0, 1), y), uncertainty=None)
    with torch.no_grad():
        h = net.a(x.transpose(0, 1)).relu().mean(1)
    assert result.values[1] == pytest.approx(oracles.fuzziness(h, y), rel=1e-4)
