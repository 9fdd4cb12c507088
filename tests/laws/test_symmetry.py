"""Dead units, copies and ranks against numpy on stored features, and where symmetry is silent."""

import warnings

import numpy as np
import pytest
import torch
from tests import cases
from torch import nn

import lawscope as ls
from lawscope.capture.session import Session
from lawscope.data.source import Source
from lawscope.laws.symmetry.metrics import group_alike, order_in_blocks, ranks_of
from lawscope.laws.symmetry.observer import find_hidden_layers, fit_units
from lawscope.statistics.unit_moments import UnitMoments

BY_NAME = {case.name: case for case in cases.CASES}


def spoilt_mlp():
    """Units 0 and 3 are the same up to scale, 1 and 4 up to sign before ReLU, 2 and 5 dead."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 4))
    with torch.no_grad():
        for parameter in (net[0].weight, net[0].bias):
            parameter[3], parameter[4] = 2 * parameter[0], -parameter[1]
        net[0].bias[2] = -100  # always zero
        net[0].weight[5], net[0].bias[5] = 0, 3  # always three
        net[2].weight[6], net[2].bias[6] = -net[2].weight[1], -net[2].bias[1]
    return net


def spoilt_conv():
    """Channels 1 and 2 are the same, 0 is dead."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4)
    )
    with torch.no_grad():
        net[0].weight[2], net[0].bias[2] = net[0].weight[1], net[0].bias[1]
        net[1].bias[0] = -50
    return net.eval()


def features_of(net, x, upto):
    with torch.no_grad():
        h = net[:upto](x).double()
    return (h.flatten(2).transpose(1, 2).reshape(-1, h.shape[1]) if h.dim() > 2 else h).numpy()


def slow_ranks(matrix, least=1e-3):
    """The three ranks straight from their definitions; singular values below are rounding."""
    s = np.linalg.svd(matrix, compute_uv=False)
    s = s[s > least * s[0]]
    p = s / s.sum()
    return [np.prod(p**-p), (s**2).sum() / s[0] ** 2, (s**2).sum() ** 2 / (s**4).sum()]


NETS = {
    "mlp": (spoilt_mlp, cases.vectors, {0: (0, 2), 1: (2, 4)}),
    "conv": (spoilt_conv, cases.images, {0: (0, 3)}),
}


@pytest.mark.parametrize("kind", NETS)
def test_ranks_are_those_of_stored_weights_and_features(kind):
    build, data, places = NETS[kind]
    net, x = build(), data()
    found = ls.symmetry(net, list(x.split(7)))
    assert len(found.layers) == len(places)
    for i, (weight, upto) in places.items():
        layer, stored = found.layers[i], features_of(net, x, upto)
        assert (layer.rows, layer.units) == stored.shape
        matrix = net[weight].weight.detach().double().flatten(1).numpy()
        assert layer.weights == pytest.approx(slow_ranks(matrix, 1e-6), rel=1e-5)
        centred = stored - stored.mean(axis=0)
        assert layer.activations == pytest.approx(slow_ranks(centred), rel=1e-5)
        assert (
            layer.dead.tolist()
            == np.flatnonzero(stored.std(axis=0) <= 1e-3 * stored.std(axis=0).max()).tolist()
        )


def test_dead_units_and_copies_are_named():
    first, second = ls.symmetry(spoilt_mlp(), [cases.vectors()]).layers
    assert first.dead.tolist() == [2, 5]
    assert first.silent == 1
    assert [group.tolist() for group in first.groups] == [[0, 3]]
    # Before the activation a unit and its mirror image are the same; one that dies in it is not.
    assert [group.tolist() for group in first.groups_before] == [[0, 3], [1, 4]]
    assert [group.tolist() for group in second.groups] == [[1, 6]]
    (conv,) = ls.symmetry(spoilt_conv(), [cases.images()]).layers
    assert conv.dead.tolist() == [0]
    assert [group.tolist() for group in conv.groups] == [[1, 2]]


@pytest.mark.parametrize("after", [True, False])
def test_the_picture_shows_correlations_with_copies_side_by_side(after):
    net, x = spoilt_mlp(), cases.vectors()
    picture = ls.symmetry(net, [x], layers="1").picture
    assert picture.units.tolist() == [0, 3, 1, 4, 6, 7]
    stored = features_of(net, x, 2 if after else 1)[:, picture.units]
    shown = picture.after if after else picture.before
    assert shown == pytest.approx(np.corrcoef(stored.T), abs=1e-4)


def test_verdict_and_advice():
    torch.manual_seed(1)
    untrained = nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 4)
    )
    lost = ls.symmetry(spoilt_mlp(), [cases.vectors()], control=untrained)
    assert lost.verdict == "does not hold"
    assert "2 are dead and 2 are copies of another; most in '0 → 1', 3 of 8" in lost.reason
    assert "4 of 15 hidden units (26.7 %)" in lost.advice[0]
    assert "weight decay" in lost.advice[0]
    same = ls.symmetry(spoilt_mlp(), [cases.vectors()], control=spoilt_mlp())
    assert not same.advice
    # Without an untrained network nobody knows that it has learned anything.
    assert not ls.symmetry(spoilt_mlp(), [cases.vectors()]).advice
    assert "untrained has 2 dead units and 2 copies" in same.section().findings[-1]
    torch.manual_seed(1)
    healthy = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    found = ls.symmetry(healthy, [cases.vectors()])
    assert (found.verdict, found.advice, found.picture) == ("holds", (), None)
    section = found.section()
    assert (len(section.numbers), len(section.charts), section.findings) == (0, 1, [])
    few = ls.symmetry(spoilt_mlp(), [cases.vectors()[:20]])
    assert few.verdict == "cannot be told"
    assert not few.advice


def test_a_scan_of_unlabelled_data_serves_it_and_text_is_left_out():
    report = ls.scan(spoilt_mlp(), [cases.vectors()])
    assert list(report.results) == ["symmetry"]
    ids = [torch.arange(300).reshape(30, 10) % 23]
    from tests import odd_networks

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = ls.scan(odd_networks.language(), ids)
        alone = ls.symmetry(odd_networks.language(), ids)
    assert "laws=['symmetry']" in text.skipped["symmetry"]
    assert [layer.units for layer in alone.layers] == [4, 4, 4]


def test_padding_is_not_measured():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 2))
    x = torch.randn(20, 5, 8)
    mask = torch.ones(20, 5, dtype=torch.long)
    mask[:, 3:] = 0

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x, attention_mask):
            return self.net(x)[:, 0]

    batch = {"x": x, "attention_mask": mask}
    (layer,) = ls.symmetry(Masked(), [batch]).layers
    stored = features_of(net, x[:, :3].reshape(-1, 8), 2)
    assert layer.rows == 60
    assert layer.activations == pytest.approx(slow_ranks(stored - stored.mean(axis=0)), rel=1e-5)


def test_layers_end_in_activations_and_a_linear_network_shows_all():
    def names(model, x):
        return [s.name for s in find_hidden_layers(Session(model, Source([x])))]

    assert names(BY_NAME["residual"].model(), cases.images())[:2] == ["stem.2", "stage1.0.relu"]
    linear = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 4))
    assert names(linear, cases.vectors()) == ["0", "1"]
    with pytest.raises(ls.LawscopeError, match="no hidden layer"):
        ls.symmetry(nn.Linear(6, 4), [cases.vectors()])


def test_wide_layers_are_measured_on_evenly_spaced_units_within_the_budget():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 4))
    stations = find_hidden_layers(Session(net, Source([cases.vectors()])))
    assert fit_units(stations, 512, 10**6) == 40
    assert fit_units(stations, 8, 10**6) == 8
    assert fit_units(stations, 512, 16 * (20**2 + 20**2)) == 20
    with pytest.raises(ls.LawscopeError, match="raise it"):
        fit_units(stations, 512, 100)
    found = ls.symmetry(net, [cases.vectors()], units=9)
    stored = features_of(net, cases.vectors(), 2)[:, np.linspace(0, 39, 9).round().astype(int)]
    centred = stored - stored.mean(axis=0)
    assert found.layers[0].activations == pytest.approx(slow_ranks(centred), rel=1e-5)
    assert "9 units, evenly spaced" in found.section().findings[-1]


def test_moments_keep_their_digits_far_from_zero():
    x = torch.randn(500, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[:, 4] = x[:, 0] + 1e-3 * x[:, 4]
    moments = UnitMoments(5, 5)
    for part in (x + 1e6).split(33):
        moments.update(part)
    found = moments.compute()
    assert found.covariance.numpy() == pytest.approx(np.cov(x.T.numpy(), bias=True), rel=1e-6)


def test_groups_and_order_of_made_up_correlations():
    c = np.eye(6)
    c[1, 4] = c[4, 1] = -0.995
    for i, j in ((0, 2), (0, 5), (2, 5)):
        c[i, j] = c[j, i] = 0.999
    alive = np.array([True] * 6)
    groups = group_alike(c, alive, 0.99)
    assert [g.tolist() for g in groups] == [[0, 2, 5], [1, 4]]
    assert order_in_blocks(groups, alive).tolist() == [0, 2, 5, 1, 4, 3]
    alive[2] = False
    assert [g.tolist() for g in group_alike(c, alive, 0.998)] == [[0, 5]]


def test_a_zero_matrix_has_rank_zero():
    assert ranks_of(np.zeros(3)) == (0, 0, 0)


def test_weight_decay_costs_units():
    """The trend of the paper, on one seed: strong decay kills or merges units, none does not."""
    x, y = cases.vectors(), cases.labels()
    lost = {}
    for decay in (0.0, 0.05):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 4))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.3, weight_decay=decay)
        for _ in range(800):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        lost[decay] = ls.symmetry(net, [x])
    assert lost[0.05].lost > lost[0.0].lost + 8
    effective = [lost[d].layers[0].weights.effective for d in (0.05, 0.0)]
    assert effective[0] < effective[1]


def test_with_a_loss_every_layer_has_the_mirror_of_its_two_most_alike_units(tmp_path):
    net, x, y = spoilt_mlp().double(), cases.vectors().double(), cases.labels()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    batches = [(x[:15], y[:15]), (x[15:], y[15:])]
    loss = nn.functional.cross_entropy
    found = ls.symmetry(net, batches, loss=loss, decay=0.1, mirror_samples=20)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    few = [(x[:15], y[:15]), (x[15:20], y[15:20])]
    for layer, path, upto in zip(found.layers, ("0", "2"), (2, 4), strict=True):
        features = features_of(net, x, upto)
        alive = [u for u in range(features.shape[1]) if u not in layer.dead]
        alike = np.abs(np.corrcoef(features[:, alive].T)) - 2 * np.eye(len(alive))
        first, second = layer.mirror.units
        chosen = alike[alive.index(first), alive.index(second)]
        assert chosen == pytest.approx(alike.max(), rel=1e-9)
        expected = ls.mirror(net, few, loss, path, layer.mirror.units, decay=0.1)
        for name in ("c0", "c1", "oddness"):
            assert getattr(layer.mirror, name) == pytest.approx(getattr(expected, name), rel=1e-9)
    assert found.table()["c0"].tolist() == [layer.mirror.c0 for layer in found.layers]
    assert "Mirrors: the two most alike units" in [t.caption for t in found.section().tables]
    assert ls.load(found.save(tmp_path / "s.json")) == found
    scanned = ls.scan(net, batches, loss=loss, laws=["symmetry"]).symmetry
    assert scanned.layers[0].mirror.units == found.layers[0].mirror.units
    without = ls.symmetry(net, batches)
    assert without.layers[0].mirror is None
    assert "c0" not in without.table()


def test_no_mirror_where_a_skip_connection_reads_too_and_a_loss_that_fails_is_said():
    class Skips(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 4)

        def forward(self, x):
            x = torch.relu(self.a(x))
            return self.c(x + torch.relu(self.b(x)))

    torch.manual_seed(0)
    x, y = cases.vectors(), cases.labels()
    found = ls.symmetry(Skips(), [(x, y)], loss=nn.functional.cross_entropy)
    assert [layer.mirror for layer in found.layers] == [None, None]
    found = ls.symmetry(spoilt_mlp(), [x], loss=nn.functional.cross_entropy)
    assert found.layers[0].mirror is None
    assert "was not measured. The loss raised" in found.section().findings[-1]
