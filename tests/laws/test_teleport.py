"""A teleported network computes the same; where it arrives is measured again from scratch."""

import itertools

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
        assert found.noise[1] < found.noise[0]
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


def chain(*widths, bias=False):
    torch.manual_seed(0)
    layers = [nn.Linear(a, b, bias=bias) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*layers).double()


def norm_of(model):
    return sum(float(p.detach().square().sum()) for p in model.parameters())


def nuclear(matrix, power=1.0):
    return float((torch.linalg.svdvals(matrix.detach()) ** power).sum())


@pytest.mark.parametrize("bias", [False, True])
def test_two_linear_maps_are_balanced_at_twice_the_nuclear_norm(bias):
    """Σθ² = 2‖UW‖_*; a bias is one more column of W."""
    model = chain(6, 3, 5, bias=bias)
    before, first, second = model(X).detach(), *model
    into = torch.cat([first.weight, first.bias[:, None]], 1) if bias else first.weight
    least = 2 * nuclear(second.weight @ into)
    least += float(second.bias.detach().square().sum()) if bias else 0.0
    found = ls.teleport(model, X)
    assert found.norm[1] == pytest.approx(least, rel=1e-10)
    assert found.norm[1] == pytest.approx(norm_of(model), rel=1e-12)
    assert torch.allclose(model(X), before, rtol=1e-11, atol=1e-13)
    charge = next(c for c in ls.charges(model, X).charges if c.kind == "double rotation")
    assert np.abs(charge.values).max() < 1e-11


def test_three_linear_maps_are_balanced_at_the_schatten_norm():
    """Σθ² = 3 Σ s^{2/3}, s the singular values of the product."""
    model = chain(4, 3, 3, 5)
    product = model[2].weight @ model[1].weight @ model[0].weight
    found = ls.teleport(model, X[:, :4])
    assert found.norm[1] == pytest.approx(3 * nuclear(product, 2 / 3), rel=1e-9)
    assert not found.singular


def test_a_wide_middle_has_no_balanced_point_and_is_left_alone():
    model = chain(6, 7, 3)
    kept = model[0].weight.detach().clone()
    found = ls.teleport(model, X)
    assert found.singular == ("0 → 1",)
    assert "less than full rank" in found.section().findings[0]
    assert torch.equal(model[0].weight, kept)


def moments(model, first, second):
    """E g gᵀ over samples, of rows that write units and of columns that read them."""
    sums = [0.0, 0.0]
    for x, y in zip(X, Y, strict=True):
        loss = LOSS(model(x[None]), y[None])
        g, h = torch.autograd.grad(loss, [first, second])
        sums = [sums[0] + g @ g.T, sums[1] + h.T @ h]
    return sums


def test_noise_of_a_chain_of_linear_maps_is_balanced_by_gradients_of_single_samples():
    model = chain(6, 2, 2, 3)
    before = model(X).detach()
    found = ls.teleport(model, (X, Y), "noise-equilibrium", loss=LOSS)
    assert torch.allclose(model(X), before, rtol=1e-10, atol=1e-12)
    assert found.noise[1] < found.noise[0]
    for first, second in ((0, 1), (1, 2)):
        into, out = moments(model, model[first].weight, model[second].weight)
        assert torch.allclose(into, out, rtol=1e-8, atol=1e-10 * float(into.trace()))


class Attends(nn.Module):
    """One of torch's own layers on vectors that span its width."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


@pytest.mark.parametrize("target", ["balanced", "noise-equilibrium"])
def test_heads_of_attention_are_turned(target):
    model, labels = nets.shaken(Attends()).double(), torch.arange(12) % 3
    x = torch.randn(12, 7, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = model(x).detach()
    found = ls.teleport(model, (x, labels), target, loss=LOSS)
    assert torch.allclose(model(x), before, rtol=1e-8, atol=1e-10)
    assert not found.singular
    after = [c for c in ls.charges(model, x).charges if c.kind == "double rotation"]
    assert len(after) >= 4  # queries with keys and values with the output, two heads
    if target == "balanced":
        assert max(np.abs(c.values).max() for c in after) < 1e-9
        assert found.norm[1] < found.norm[0]
    else:
        assert found.noise[1] < found.noise[0]
        again = ls.teleport(model, (x, labels), target, loss=LOSS)
        assert again.moved < 1e-6


def test_the_steepest_point_is_that_of_a_search_over_the_boundary():
    """Two units, so that the points of one norm are a curve; the search walks along it."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 2), nn.ReLU(), nn.Linear(2, 3)).double()
    before, budget = model(X).detach(), 1.4
    weights = [p.detach().clone() for p in model.parameters()]
    slopes = torch.autograd.grad(LOSS(model(X), Y), list(model.parameters()))
    sides = [  # of θ² and g²: of what each unit writes, of what it reads, and the rest
        (
            (w.square().sum(1) + b.square()).numpy(),
            u.square().sum(0).numpy(),
            float(c.square().sum()),
        )
        for w, b, u, c in (weights, slopes)
    ]

    def total(side, a, b, sign):
        into, out, rest = sides[side]
        scale = np.exp(2 * sign * np.stack([a, b]))
        return (into[:, None] * scale + out[:, None] / scale).sum(0) + rest

    grid = np.linspace(-1.5, 1.5, 2001)
    a, b = (each.ravel() for each in np.meshgrid(grid, grid))
    allowed = total(0, a, b, +1) <= budget * norm_of(model)
    most = np.sqrt(total(1, a, b, -1)[allowed].max())
    found = ls.teleport(model, (X, Y), "steepest", loss=LOSS, budget=budget)
    assert torch.allclose(model(X), before, rtol=1e-11, atol=1e-13)
    assert found.norm[1] == pytest.approx(budget * found.norm[0], rel=1e-9)
    assert found.gradient[1] == pytest.approx(most, rel=3e-3)
    assert found.gradient[1] >= most * (1 - 1e-9)  # the grid only comes near the boundary
    again = torch.autograd.grad(LOSS(model(X), Y), list(model.parameters()))
    assert found.gradient[1] == pytest.approx(float(sum(g.square().sum() for g in again)) ** 0.5)


def test_sharpness_and_the_stable_step_are_those_of_the_whole_hessian():
    model = network()
    halves = [(X[:20], Y[:20]), (X[20:], Y[20:])]
    names, shapes = zip(*[(n, p.shape) for n, p in model.named_parameters()], strict=True)
    flat = torch.nn.utils.parameters_to_vector(model.parameters()).detach()

    def loss(vector):
        parts = vector.split([shape.numel() for shape in shapes])
        state = {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        return LOSS(torch.func.functional_call(model, state, X), Y)

    slope = torch.func.grad(loss)(flat)
    sharpness = float(torch.linalg.eigvalsh(torch.func.hessian(loss)(flat))[-1])
    found = ls.teleport(model, halves, loss=LOSS)
    assert found.loss == pytest.approx(float(loss(flat)), rel=1e-12)
    assert found.gradient[0] == pytest.approx(float(slope.norm()), rel=1e-12)
    assert found.sharpness[0] == pytest.approx(sharpness, rel=1e-6)
    assert found.stepped[0] == pytest.approx(float(loss(flat - slope / sharpness)), rel=1e-6)


def test_a_steeper_place_says_that_progress_got_worse():
    model = network()
    found = ls.teleport(model, (X, Y), "steepest", loss=LOSS, budget=100)
    assert found.gradient[1] > found.gradient[0]
    assert found.slower == (found.stepped[1] > found.stepped[0])
    assert ("got worse" in str(found)) == found.slower
    assert found.slower, "a hundredfold norm is far too sharp for a stable step"
    assert "Progress got worse" in found.section().findings[0]


class Asks(nn.Module):
    """Looks at its data, which vmap does not allow, and takes named inputs."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, pixels):
        return self.net(pixels) if float(pixels.abs().max()) < 100 else pixels[:, :3]


def test_what_vmap_cannot_run_goes_sample_by_sample():
    plain = ls.noise_equilibrium(network(), (X, Y), LOSS)
    batches = [{"pixels": X, "labels": Y}]
    found = ls.noise_equilibrium(Asks(), batches, LOSS)
    assert [one.scale.tolist() for one in found.places] == [
        pytest.approx(one.scale.tolist(), rel=1e-10, nan_ok=True) for one in plain.places
    ]


def test_data_without_labels_is_enough_for_a_loss_of_the_output():
    def energy(output, labels):
        assert labels is None
        return output.square().mean()

    found = ls.noise_equilibrium(network(), [X[:20], X[20:]], energy)
    assert found.samples == len(X)
    labelled = ls.noise_equilibrium(network(), (X, Y), lambda output, _: output.square().mean())
    assert found.places[0].scale == pytest.approx(labelled.places[0].scale, rel=1e-10)
    moved = ls.teleport(network(), [X[:20], X[20:]], "noise-equilibrium", loss=energy)
    assert moved.noise[1] < moved.noise[0]
    assert moved.plot() is not None


def test_what_is_missing_ends_in_a_sentence():
    with pytest.raises(ls.LawscopeError, match="loss="):
        ls.teleport(network(), (X, Y), "noise-equilibrium")
    with pytest.raises(ls.LawscopeError, match="'balanced'"):
        ls.teleport(network(), (X, Y), "flattest")
    with pytest.raises(ls.LawscopeError, match="from 1"):
        ls.teleport(network(), (X, Y), "steepest", loss=LOSS, budget=0.5)
    with pytest.raises(ls.LawscopeError, match="leave it out of 'balanced'"):
        ls.teleport(network(), (X, Y), budget=2.0)
    with pytest.raises(ls.LawscopeError, match="several times"):
        ls.teleport(network(), iter([(X, Y)]), loss=LOSS)
    with pytest.raises(ls.LawscopeError, match="no labels"):
        ls.noise_equilibrium(network(), [X], LOSS)
    with pytest.raises(ls.LawscopeError, match="no rescaling"):
        ls.teleport(nets.LowRank().double(), (X, Y), "steepest", loss=LOSS)
    bent = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3)).double()
    with pytest.raises(ls.LawscopeError, match="nowhere to move"):
        ls.teleport(bent, (X, Y))


def test_a_network_with_powers_alone_says_that_they_are_left_alone():
    with pytest.raises(ls.LawscopeError, match="or only behind powers"):
        ls.teleport(nets.Powers(), nets.inputs())
