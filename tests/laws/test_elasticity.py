"""Local elasticity against optimizers, Jacobians and closed forms; along training; bad input."""

import copy
import math

import numpy as np
import pytest
import torch
from tests import cases
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import lawscope as ls
from lawscope.capture.functional import WeightFunction
from lawscope.capture.sample_gradients import compute_energies
from lawscope.data.batches import Batch
from lawscope.laws.elasticity import observer
from lawscope.laws.elasticity.effects import measure_limit, measure_steps
from lawscope.laws.elasticity.kernel import multiply_gradients, normalise
from lawscope.laws.elasticity.recorder import ElasticityRecorder
from lawscope.laws.elasticity.verdict import judge_elasticity
from lawscope.laws.probes import Probes
from lawscope.statistics.class_pairs import PairGap
from lawscope.studies.datasets import ImageData, samples_of
from lawscope.training.recorders import LogitMeans, Records, stack_means

Net = cases.Net
CLASSES = cases.CLASSES


def batch_norm():
    return nn.Sequential(
        nn.Linear(6, 9), nn.BatchNorm1d(9), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(9, CLASSES),
    )  # fmt: skip


def frozen():
    net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, CLASSES))
    net[0].weight.requires_grad_(False)
    return net


def reused():
    inner = nn.Linear(6, 6)
    return nn.Sequential(inner, nn.Tanh(), inner, nn.Tanh(), nn.Linear(6, CLASSES))


def borrowed():
    """The weight of a linear layer used again outside it."""
    return Net(
        lambda net, x: net.head(torch.tanh(net.a(x)) + F.linear(x, net.a.weight)),
        a=nn.Linear(6, 5), head=nn.Linear(5, CLASSES),
    )  # fmt: skip


def conditional():
    """Control flow that depends on the data, which vmap cannot run."""
    return Net(
        lambda net, x: net.head(net.a(x).relu() if bool(x.abs().sum() > 0) else x),
        a=nn.Linear(6, 5), head=nn.Linear(5, CLASSES),
    )  # fmt: skip


def parameter():
    """A weight that is in no layer."""
    net = Net(
        lambda net, x: net.head(net.a(x) * net.scale), a=nn.Linear(6, 5), head=nn.Linear(5, CLASSES)
    )
    net.scale = nn.Parameter(torch.randn(5))
    return net


def conditional_parameter():
    net = parameter()
    return Net(lambda self, x: net(x) if bool(x.abs().sum() > 0) else x, net=net)


def images():
    """Convolutions of maps and of sequences, in groups, strided, padded; and norms of channels."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 4, (1, 2), padding="same", padding_mode="circular"),
        nn.BatchNorm2d(4), nn.Tanh(),
        nn.Conv2d(4, 6, 2, groups=2, padding=1, stride=(1, 2), bias=False), nn.GroupNorm(3, 6),
        nn.ReLU(), nn.Flatten(2), nn.Conv1d(6, 3, 3, dilation=2, stride=2), nn.Tanh(), nn.Flatten(),
        nn.LazyLinear(CLASSES),
    )  # fmt: skip


def tokens():
    """Embeddings, norms of the last axis, and a mean over positions."""

    def run(net, x):
        ids = (x.abs() * 3).long().clamp(max=9)
        words = net.words(ids) + net.places(torch.arange(6))
        return net.head(net.norm(net.a(net.rms(words)).tanh()).mean(dim=1))

    return Net(
        run, words=nn.Embedding(10, 5, padding_idx=0), places=nn.Embedding(6, 5),
        rms=nn.RMSNorm(5), a=nn.Linear(5, 5), norm=nn.LayerNorm(5), head=nn.Linear(5, CLASSES),
    )  # fmt: skip


NETWORKS = [batch_norm, frozen, reused, borrowed, conditional]


def aside():
    """A layer whose output nothing reads, and one that does not run."""

    def run(net, x):
        hidden = net.a(x).tanh()
        net.aside(hidden)
        return net.head(hidden)

    return Net(
        run, a=nn.Linear(6, 5), aside=nn.Linear(5, 2), spare=nn.Linear(5, 2),
        head=nn.Linear(5, CLASSES),
    )  # fmt: skip


LAYERS = [parameter, images, tokens, aside]
NOT_BY_LAYER = {
    frozen: ["0.weight"], reused: ["0.weight", "0.bias"], borrowed: ["a.weight"],
    parameter: ["scale"], tokens: ["places.weight"], aside: ["spare.weight", "spare.bias"],
}  # fmt: skip


def make(build):
    torch.manual_seed(5)
    net = build()
    with torch.no_grad():  # running statistics that are not the first ones
        net.train()(cases.vectors(40))
    return net


def probes(samples=12, x=None):
    x, y = cases.vectors(samples) if x is None else x, cases.labels(samples)
    return [Batch((x[i : i + 1],), {}, y[i : i + 1]) for i in range(samples)]


def steps(function, rate=None, memory=10**9):
    with function.running():
        return measure_steps(function, rate, memory, [0], lambda done: None)


@pytest.mark.parametrize("build", NETWORKS)
def test_a_step_is_that_of_the_optimizer(build):
    net, rate = make(build), 0.02
    found = steps(WeightFunction(net, probes(), F.cross_entropy), rate, memory=1)
    x, y = cases.vectors(12).double(), cases.labels(12)
    before = copy.deepcopy(net).double().eval()
    for row in range(12):
        after = copy.deepcopy(before)
        optimizer = torch.optim.SGD([p for p in after.parameters() if p.requires_grad], lr=rate)
        F.cross_entropy(after(x[row : row + 1]), y[row : row + 1]).backward()
        optimizer.step()
        with torch.no_grad():
            change = (after(x) - before(x)).numpy()
        own = np.linalg.norm(change[row])
        assert found.relative[row] == pytest.approx(np.linalg.norm(change, axis=1) / own, rel=1e-9)
        assert found.signed[row] == pytest.approx(change @ change[row] / own**2, abs=1e-9)


def jacobians(net):
    """∂f/∂θ of every sample by brute force, shape (n, K, P)."""
    net = copy.deepcopy(net).double().eval()
    weights = [p for p in net.parameters() if p.requires_grad]
    rows = []
    for x in cases.vectors(12).double().split(1):
        how = {"retain_graph": True, "materialize_grads": True}
        parts = [torch.autograd.grad(logit, weights, **how) for logit in net(x)[0]]
        rows.append(torch.stack([torch.cat([g.flatten() for g in part]) for part in parts]))
    return torch.stack(rows)


@pytest.mark.parametrize("memory", [10**9, 1])  # all at once, and sample by sample
@pytest.mark.parametrize("build", [*NETWORKS, *LAYERS])
def test_energies_of_the_gradients_of_single_samples_come_from_jacobians(build, memory):
    net, y = make(build), cases.labels(12)
    function = WeightFunction(net, probes(), F.cross_entropy)
    with function.running():
        batch = function.as_double(Batch((cases.vectors(12),), {}, y))
        found = compute_energies(function, batch, list(function.weights), memory)
    with torch.no_grad():
        logits = copy.deepcopy(net).double().eval()(cases.vectors(12).double())
    residual = logits.softmax(dim=1) - F.one_hot(y, CLASSES)
    gradient = torch.einsum("ikp,ik->ip", jacobians(net), residual)
    rows = gradient.split([weight.numel() for weight in function.weights.values()], dim=1)
    assert found.keys() == function.weights.keys()
    for (name, weight), row in zip(function.weights.items(), rows, strict=True):
        squares = row.view(12, *weight.shape).square()
        for axis, energy in enumerate(found[name], 1):
            expected = squares.movedim(axis, 1).reshape(12, squares.shape[axis], -1).sum(dim=2)
            assert energy.numpy() == pytest.approx(expected.numpy(), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("build", [*NETWORKS, *LAYERS])
def test_short_steps_and_the_kernel_come_from_jacobians(build):
    net = make(build)
    function = WeightFunction(net, probes(), F.cross_entropy)
    found = steps(function)
    jacobian, y = jacobians(net), cases.labels(12)
    with torch.no_grad():
        logits = copy.deepcopy(net).double().eval()(cases.vectors(12).double())
    residual = logits.softmax(dim=1) - F.one_hot(y, CLASSES)
    # Δf(x′) = −η J(x′) J(x)ᵀ ∂ℓ/∂f(x)
    change = torch.einsum("jkp,ilp,il->ijk", jacobian, jacobian, residual)
    own = torch.stack([change[i, i] for i in range(12)])
    size = own.norm(dim=1)[:, None]
    relative = (change.norm(dim=2) / size).numpy()
    signed = (torch.einsum("ijk,ik->ij", change, own) / size**2).numpy()
    assert found.relative == pytest.approx(relative, rel=1e-4)
    assert found.signed == pytest.approx(signed, abs=1e-4)
    assert found.nonlinearity < 1e-4
    expected = torch.einsum("icp,jcp->ij", jacobian, jacobian).numpy()
    for memory in (10**9, 1):  # all at once, and sample by sample and unit by unit
        with function.running(), torch.no_grad():
            plain = multiply_gradients(function, range(CLASSES), memory)
            both = multiply_gradients(function, range(CLASSES), memory, CLASSES)
            limit = measure_limit(function, both.changes, [0, 5])
        assert plain.kernel.numpy() == pytest.approx(expected, rel=1e-9)
        assert both.kernel.numpy() == pytest.approx(expected, rel=1e-9)
        assert limit.relative == pytest.approx(relative, rel=1e-9)
        assert limit.signed == pytest.approx(signed, rel=1e-9, abs=1e-12)
        assert 0 < limit.nonlinearity < 1e-4
    norm = np.sqrt(np.diag(expected))
    assert normalise(plain.kernel) == pytest.approx(expected / norm / norm[:, None], abs=1e-9)
    # What layers do not give goes through vmap, which cannot run what depends on the data.
    assert function.by_layer == {*dict(net.named_parameters())} - {*NOT_BY_LAYER.get(build, ())}
    assert bool(function.one_by_one) == (build is conditional)


class Largest(TorchDispatchMode):
    """Notes the bytes of the largest tensor that is made."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        sizes = [t.nbytes for t in tree_leaves(made) if isinstance(t, torch.Tensor)]
        self.bytes = max(self.bytes, *sizes, 0)
        return made


def large_table():
    return Net(
        lambda net, x: net.head(net.words((x.abs() * 300).long().clamp(max=999)).mean(dim=1)),
        words=nn.Embedding(1000, 5), head=nn.Linear(5, CLASSES),
    )  # fmt: skip


def many_patches():
    return nn.Sequential(
        nn.Linear(6, 256), nn.Unflatten(1, (4, 8, 8)), nn.Conv2d(4, 2, 3, padding=1), nn.Tanh(),
        nn.Flatten(), nn.Linear(128, CLASSES),
    )  # fmt: skip


# A table is 40 KB, and tokens as rows would be 576; patches of one sample are 18 KB, of all 221.
@pytest.mark.parametrize(("build", "memory"), [(large_table, 10**9), (many_patches, 1)])
def test_what_layers_read_is_not_unfolded_beyond_the_memory(build, memory):
    function = WeightFunction(make(build), probes())
    with function.running(), Largest() as largest:
        found = multiply_gradients(function, range(CLASSES), memory).kernel
    assert function.by_layer == set(function.weights)
    assert 0 < largest.bytes < 50_000
    function.by_layer = set()
    with function.running():
        expected = multiply_gradients(function, range(CLASSES)).kernel
    assert found.numpy() == pytest.approx(expected.numpy(), rel=1e-9)


def test_energies_do_not_unfold_images_beyond_the_memory():
    function = WeightFunction(make(many_patches), probes(), F.cross_entropy)
    with function.running(), Largest() as largest:
        batch = function.as_double(Batch((cases.vectors(12),), {}, cases.labels(12)))
        compute_energies(function, batch, ["2.weight"], 1)
    assert 0 < largest.bytes < 50_000


def test_logits_may_lie_in_memory_in_any_order():
    plain = make(lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, CLASSES)))
    # Columns as (n, 2, K/2), turned and turned back.
    turned = nn.Sequential(*plain, nn.Unflatten(1, (2, -1)), Net(lambda net, x: x.mT))
    order = torch.arange(CLASSES).view(2, -1).T.flatten().tolist()
    found = WeightFunction(turned, probes())
    expected = WeightFunction(plain, probes())
    with found.running(), expected.running():
        ours = multiply_gradients(found, [0, 1]).kernel
        theirs = multiply_gradients(expected, order[:2]).kernel
    assert ours.numpy() == pytest.approx(theirs.numpy(), rel=1e-9)


def test_a_network_that_vmap_cannot_run_has_its_other_weights_one_by_one():
    found = measured(make(conditional_parameter))
    assert "vmap" in found.one_by_one
    alone = measured(make(parameter))
    assert alone.one_by_one == ""
    for kind in ("relative", "signed", "kernel"):
        assert getattr(found, kind).gap == pytest.approx(getattr(alone, kind).gap, rel=1e-9)


def measured(net, x=None, y=None, loss=F.cross_entropy, **settings):
    x = cases.vectors() if x is None else x
    return ls.elasticity(net, (x, cases.labels() if y is None else y), loss, **settings)


def test_a_linear_classifier_is_as_elastic_as_its_inputs_are_alike():
    x, y = cases.vectors().double(), cases.labels()
    found = measured(nn.Linear(6, CLASSES))
    order = Probes(8, 10)
    order.update(Batch((x,), {}, y), y)
    rows = torch.cat([torch.cat([s.main for s in those]) for those in order.found().values()])
    gram = rows @ rows.T + 1
    similar = (gram / gram.diagonal()[:, None]).abs().numpy().reshape(4, 8, 4, 8)
    same = np.mean([s[~np.eye(8, dtype=bool)].mean() for s in (similar[k, :, k] for k in range(4))])
    other = np.mean([similar[k, :, j].mean() for k in range(4) for j in range(4) if j != k])
    assert found.relative.same == pytest.approx(same, rel=1e-6)
    assert found.relative.gap == pytest.approx(same - other, rel=1e-6)
    assert found.excess.gap == pytest.approx(0, abs=1e-8)
    assert found.verdict == "does not hold"
    assert "linear classifier" in found.reason


def learn(net, x, y, epochs=10):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    return net


def test_learning_makes_a_network_elastic():
    torch.manual_seed(0)
    data = samples_of(ImageData(per_class=200))
    net = nn.Sequential(nn.Linear(100, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                        nn.Linear(64, 10))  # fmt: skip
    untrained = copy.deepcopy(net)
    found = ls.elasticity(learn(net, data.x, data.y), (data.x, data.y), F.cross_entropy,
                          control=untrained, class_names=data.class_names)  # fmt: skip
    assert found.verdict == "holds"
    assert found.control.verdict == "does not hold"
    assert found.relative.interval["gap"][0] > found.control.relative.interval["gap"][1]
    assert found.kernel.interval["gap"][0] > found.control.kernel.interval["gap"][1]
    assert found.learned
    section = found.section()
    assert section.verdict == "locally elastic"
    assert not found.warnings
    assert any("the most of all pairs of classes" in said for said in section.findings)


@pytest.mark.parametrize("loss", [
    nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0])),
    nn.CrossEntropyLoss(reduction="none"),
    lambda out, y: F.cross_entropy(out, y, reduction="sum", label_smoothing=0.1),
])  # fmt: skip
def test_any_loss_of_one_sample_will_do(loss):
    assert measured(make(batch_norm), loss=loss).relative.interval


def test_where_logits_are_many_steps_are_taken():
    torch.manual_seed(0)
    found = []
    for width in (CLASSES, 40):  # 32 probes of four classes
        net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 40))
        net.load_state_dict({k: torch.randn_like(v) for k, v in net.state_dict().items()})
        with torch.no_grad():
            net[2].weight[CLASSES:], net[2].bias[CLASSES:] = 0, -1e3  # which do not move
        torch.manual_seed(0)
        few = Net(lambda self, x, w=width: self.net(x)[:, :w], net=net)
        found.append(measured(few))
    limit, steps = found
    assert 0 < limit.nonlinearity != steps.nonlinearity
    assert steps.kernel.gap == pytest.approx(limit.kernel.gap, rel=1e-9)
    assert steps.relative.gap == pytest.approx(limit.relative.gap, rel=1e-2)
    assert steps.relative.gap != limit.relative.gap


def test_one_logit_of_two_classes():
    y = cases.labels() % 2
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))
    loss = lambda out, y: F.binary_cross_entropy_with_logits(out[:, 0], y)  # noqa: E731
    found = measured(net, y=y.float(), loss=loss)
    assert found.relative.same == pytest.approx(found.signed.same, abs=1)
    assert len(found.probes) == 2


@pytest.mark.parametrize(("share", "probes"), [(8.5, 8), (5.5, 5), (0.5, 4)])
def test_a_large_network_has_fewer_probes(share, probes, monkeypatch):
    net = make(batch_norm)
    weights = sum(p.numel() for p in net.parameters())
    monkeypatch.setattr(observer, "GRADIENTS", int(share * CLASSES**2 * weights))
    found = measured(net)
    assert found.probes.tolist() == [probes] * CLASSES
    assert found.settings["probes"] == probes
    assert found.relative.gap == measured(net, probes=probes).relative.gap
    assert measured(net, probes=7).probes.tolist() == [7] * CLASSES


def test_order_and_doubles_do_not_matter():
    net, x, y = make(batch_norm), cases.vectors(), cases.labels()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1)).repeat(2)
    twice = measured(net, x[order], y[order])
    once = measured(net)
    for kind in ("relative", "signed", "kernel"):
        a, b = getattr(once, kind), getattr(twice, kind)
        assert a.gap == pytest.approx(b.gap, rel=1e-9)
        assert a.interval["gap"] == pytest.approx(b.interval["gap"], rel=1e-6)


def test_processes_choose_the_probes_that_one_would():
    x, y = torch.randn(400, 3), torch.arange(400) % 20
    whole, parts = Probes(3, 6), [Probes(3, 6) for _ in range(2)]
    whole.update(Batch((x,), {}, y), y)
    for part, rows in zip(parts, torch.randperm(400).chunk(2), strict=True):
        for some in rows.split(30):
            part.update(Batch((x[some],), {}, y[some]), y[some])
    parts[1].merge(parts[0])
    found, expected = parts[1].found(), whole.found()
    assert list(found) == list(expected)
    assert len(found) == 6
    for label, those in expected.items():
        assert [s.main.tolist() for s in found[label]] == [s.main.tolist() for s in those]
    assert parts[1].counts == whole.counts


def test_samples_of_several_lengths_are_probed_together():
    def pooled(net, x):
        return net.head(torch.tanh(net.a(x)).mean(dim=1))

    net = Net(pooled, a=nn.Linear(6, 5), head=nn.Linear(5, CLASSES))
    y = cases.labels(24)
    long, short = torch.randn(12, 7, 6), torch.randn(12, 4, 6)
    batches = [(long, y[:12]), (short, y[12:])]
    found = ls.elasticity(net, batches, F.cross_entropy)
    assert found.linear is None
    assert found.relative.interval
    one_by_one = [
        (x[None], label[None]) for part in batches for x, label in zip(*part, strict=True)
    ]
    again = ls.elasticity(net, one_by_one, F.cross_entropy)
    assert again.kernel.gap == pytest.approx(found.kernel.gap, rel=1e-9)


def still():
    """A network whose last layer is zero and reads nothing."""
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, CLASSES))
    return Net(lambda self, x: self.net(x) * 0, net=net)


def all_frozen():
    return nn.Linear(6, CLASSES).requires_grad_(False)


def noisy():
    return Net(lambda net, x: F.dropout(net.a(x), 0.5, training=True), a=nn.Linear(6, CLASSES))


def mixing():
    return Net(lambda net, x: net.a(x) - net.a(x).mean(dim=0), a=nn.Linear(6, CLASSES))


def single_precision():
    return Net(lambda net, x: net.a(x.float()), a=nn.Linear(6, CLASSES))


def graph():
    edges = torch.eye(len(X))
    return Net(lambda net, x: edges.to(x) @ net.a(x), a=nn.Linear(6, CLASSES))


LINEAR = lambda: nn.Linear(6, CLASSES)  # noqa: E731
X, Y = cases.vectors(), cases.labels()
BAD = {
    "one class": (LINEAR, X, Y * 0, F.cross_entropy, "1 class.*pairs of the same and of other"),
    "one sample each": (LINEAR, X[:4], Y[:4], F.cross_entropy, "0 of them with two different"),
    "nan": (LINEAR, X * math.nan, Y, F.cross_entropy, "NaN"),
    "two samples": (LINEAR, X, Y, lambda o, y: o[1].sum(), "loss raised IndexError"),
    "no number": (LINEAR, X, Y, lambda o, y: o, r"tensor of shape \(1, 4\)"),
    "nan gradient": (LINEAR, X, Y, lambda o, y: (o * 0).sqrt().sum(), "gradient of NaN"),
    "narrow": (lambda: nn.Linear(6, 3), X, Y, F.cross_entropy, "3 numbers per sample .* 4 classes"),
    "still": (still, X, Y, F.cross_entropy, "no gradient at 32 of 32 probes"),
    "frozen": (all_frozen, X, Y, F.cross_entropy, "All parameters are frozen"),
    "noisy": (noisy, X, Y, F.cross_entropy, "other logits each time"),
    "mixing": (mixing, X, Y, F.cross_entropy, "depend on the other samples"),
    "single": (single_precision, X, Y, F.cross_entropy, "network in double precision raised"),
    "all at once": (graph, X, Y, F.cross_entropy, "must run on a few of the samples"),
    "no loss": (LINEAR, X, Y, None, "needs a loss; pass loss="),
    "no labels": (LINEAR, X, None, F.cross_entropy, "without labels"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_measured_is_a_sentence(name):
    build, x, y, loss, sentence = BAD[name]
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.elasticity(build(), x if y is None else (x, y), loss)


@pytest.mark.parametrize(("setting", "sentence"), [
    ({"rate": 0}, "rate=0 is not a learning rate"), ({"rate": "x"}, "rate='x'"),
    ({"rate": 10**400}, "is not a learning rate"),
    ({"probes": 1}, "too few for a pair"), ({"classes": 1}, "too few to compare"),
])  # fmt: skip
def test_settings_are_checked(setting, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        measured(nn.Linear(6, CLASSES), **setting)


def test_what_is_left_out_is_said():
    y = cases.labels().clone()
    y[(y == 3).nonzero()[1:]] = 2
    with pytest.warns(ls.LawscopeWarning, match="want of two different samples: class '3'"):
        found = measured(make(batch_norm), y=y)
    assert found.probed.tolist() == [0, 1, 2]
    two = measured(make(batch_norm), probes=2)
    assert two.verdict == "cannot be told"
    assert not two.relative.interval


def test_a_scan_with_a_loss_has_it_and_one_without_says_why():
    case = cases.CASES[0]
    report = ls.scan(case.model(), list(case.batches()), loss=F.cross_entropy, mode="train")
    assert report.elasticity.settings["mode"] == "eval"
    alone = ls.elasticity(case.model(), list(case.batches()), F.cross_entropy)
    assert report.elasticity.relative.gap == alone.relative.gap
    binary = F.binary_cross_entropy_with_logits
    wrong = ls.scan(case.model(), list(case.batches()), loss=binary, mode="train")
    for law in ("elasticity", "conservation"):
        assert wrong.skipped[law].startswith("The loss raised ValueError: Target size")
    assert wrong.separation.values.tolist() == report.separation.values.tolist()
    quiet = ls.scan(case.model(), list(case.batches()))
    assert quiet.skipped["elasticity"].startswith("elasticity needs a loss; pass loss=")


def test_recorders_follow_a_training_and_leave_it_as_it_is():
    x, y = cases.vectors(), cases.labels()
    weights, kept = [], None
    for recorders in (
        (),
        (ElasticityRecorder(every=4, probes=4), LogitMeans(every=2, per_class=9)),
    ):
        torch.manual_seed(0)
        net = make(batch_norm)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        records = Records(recorders, x, y)
        for step in range(10):
            rows = torch.randint(len(x), (20,), generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            if step == 4:
                kept = copy.deepcopy(net)
            records.note(net, (x[rows], y[rows]), loss.detach())
            optimizer.step()
        weights.append(net.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    elastic, means = records.tensors().values()
    assert elastic["step"].tolist() == [0, 4, 8]
    alone = ls.elasticity(kept, (x, y), F.cross_entropy, probes=4)
    assert float(elastic["relative_gap"][1]) == pytest.approx(alone.relative.gap, rel=1e-6)
    assert float(elastic["kernel_gap_low"][1]) == pytest.approx(
        alone.kernel.interval["gap"][0], rel=1e-6
    )
    stacked = stack_means([means, means])
    trajectory = stacked["means"]
    assert stacked["steps"].tolist() == [0, 2, 4, 6, 8]
    assert ls.ElasticTrajectory(**stacked).rounding == torch.finfo(torch.float32).eps
    assert trajectory.shape == (2, 5, CLASSES, CLASSES)
    with torch.no_grad():
        logits = kept.eval()(x)
    expected = torch.stack([logits[y == k][:9].mean(dim=0) for k in range(CLASSES)])
    assert trajectory[1, 2].numpy() == pytest.approx(expected.numpy(), rel=1e-5)


def test_means_are_those_of_the_logits_among_the_outputs():
    x, y, net = cases.vectors(), cases.labels(), nn.Linear(6, CLASSES)
    found = []
    for model in (net, Net(lambda outer, x: {"logits": outer.a(x), "hidden": x}, a=net)):
        records = Records([LogitMeans()], x, y)
        records.note(model, (x, y), torch.tensor(0.0))
        found += [record["means"] for record in records.tensors().values()]
    assert torch.equal(*found)


@pytest.mark.parametrize(("y", "sentence"), [
    (cases.labels()[:5], "5 labels; one label per sample"),
    (cases.labels().double(), r"pass y.long\(\)"),
    (cases.labels() * 0, "two samples of two classes"),
])  # fmt: skip
def test_recorders_refuse_labels_they_cannot_use(y, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        Records([ElasticityRecorder()], cases.vectors(), y)


@pytest.mark.parametrize(("y", "sentence"), [
    (F.one_hot(cases.labels()), r"int64 of shape .*y.argmax\(1\) of one-hot"),
    (cases.labels().double(), r"pass y.long\(\)"),
    (cases.labels() * 0, "of two classes at least"),
])  # fmt: skip
def test_mean_logits_refuse_labels_they_cannot_use(y, sentence):
    with pytest.raises(ls.LawscopeError, match=sentence):
        Records([LogitMeans()], cases.vectors(), y)


def test_a_loss_with_tensors_of_its_own_is_told_their_precision():
    x, y, weight = cases.vectors(), cases.labels(), torch.ones(CLASSES)
    net = nn.Linear(6, CLASSES)
    with pytest.raises(ls.LawscopeError, match=r"as class weights, .* \(weight.to\(output\)\)"):
        ls.elasticity(net, (x, y), lambda out, y: F.cross_entropy(out, y, weight))
    followed = ls.elasticity(net, (x, y), lambda out, y: F.cross_entropy(out, y, weight.to(out)))
    plain = ls.elasticity(net, (x, y), F.cross_entropy)
    assert followed.relative.gap == pytest.approx(plain.relative.gap, rel=1e-12)


def test_a_network_that_cannot_be_trained_is_refused():
    def forward(outer, x):
        h = outer.a(x).sigmoid()
        h += h.detach()  # which the backward pass of the sigmoid still needed
        return outer.b(h)

    x, y = cases.vectors(), cases.labels()
    net = Net(forward, a=nn.Linear(6, 8), b=nn.Linear(8, CLASSES))
    with pytest.raises(ls.LawscopeError, match="The backward pass through the network fails"):
        ls.elasticity(net, (x, y), F.cross_entropy)


def test_no_records_are_no_trajectory():
    with pytest.raises(ls.LawscopeError, match="There are no records"):
        stack_means([])


def test_what_can_never_be_recorded_is_said_before_the_first_step():
    x, y, net = cases.vectors(), cases.labels(), nn.Linear(6, CLASSES)
    records = Records([ElasticityRecorder()], x, y)
    with pytest.raises(ls.LawscopeError, match="out of bounds"):
        records.note(nn.Linear(6, CLASSES - 1), (x, y), torch.tensor(0.0))
    records.note(net, (x, y), torch.tensor(0.0))
    with torch.no_grad():
        net.weight.fill_(math.nan)
    records.note(net, (x, y), torch.tensor(0.0))
    (record,) = records.tensors().values()
    assert record["relative_gap"].isnan().tolist() == [False, True]


def test_networks_in_lock_step_are_trials():
    class Stack(nn.Module):
        def forward(self, x):
            return torch.stack([x, 2 * x, 3 * x])

    x, y = cases.vectors(20), cases.labels(20)
    records = Records([LogitMeans()], x, y)
    for _ in range(2):
        records.note(Stack(), (x, y), torch.tensor(0.0))
    stacked = stack_means(list(records.tensors().values()))
    means = stacked["means"]
    assert stacked["steps"].tolist() == [0, 1]
    assert means.shape == (3, 2, CLASSES, 6)
    assert torch.allclose(means[2], 3 * means[0])
    assert means[0, 0, 1].numpy() == pytest.approx(x[y == 1].double().mean(dim=0).numpy())


@pytest.mark.parametrize(
    ("gap", "excess", "verdict"),
    [
        ((0.1, 0.2), (0.02, 0.2), "holds"),
        ((0.1, 0.2), None, "holds"),
        ((0.1, 0.2), (-0.1, 0.2), "cannot be told"),
        ((0.0, 0.2), (0.02, 0.2), "cannot be told"),
        ((0.1, 0.2), (-0.2, 0.005), "does not hold"),
        ((-0.1, 0.005), (0.02, 0.2), "does not hold"),
        (None, (0.02, 0.2), "cannot be told"),
    ],
)
def test_the_verdict_is_by_both_intervals(gap, excess, verdict):
    def found(ends):
        return PairGap(0.5, 0.4, 0.1, {} if ends is None else {"gap": ends})

    assert judge_elasticity(found(gap), excess and found(excess))[0] == verdict
