"""What the studies of symmetry compute, against cases whose answer is known."""

import math

import numpy as np
import pytest
import torch
from tests.studies import stand_ins
from torch import nn

from lawscope.remedies.remove import remove_symmetry
from lawscope.studies.datasets import samples_of
from lawscope.studies.execute import execute
from lawscope.studies.symmetry import (
    _networks,
    compression,
    contrastive,
    landscape,
    posterior_collapse,
    removal,
    weight_decay,
)
from lawscope.training.optimizers import make_optimizer

TINY = {"training": _networks.SMOKE_TRAINING, "seeds": 2}


def test_merge_point_is_where_parting_two_neurons_costs_nothing():
    """By finite differences of the loss, whatever the derivation says."""
    gamma, loss = landscape.merge_point(2, 0), landscape.imitate(2, 0)
    w = landscape.descend(lambda v: loss(v.expand(2) / math.sqrt(2)), gamma, np.ones(1)).x
    merged = torch.tensor(w / math.sqrt(2)).expand(2)

    def full(s):
        theta = merged + s * torch.tensor([1.0, -1.0], dtype=torch.float64)
        return float(loss(theta) + gamma * (theta**2).sum())

    curvature = (full(1e-3) - 2 * full(0.0) + full(-1e-3)) / 1e-6
    assert abs(curvature) < 1e-5


def test_a_unit_is_in_a_block_if_it_is_like_another_up_to_sign():
    x = np.random.default_rng(0).standard_normal((500, 4))
    values = np.column_stack([x[:, 0], -2 * x[:, 0], x[:, 1], x[:, 2] + x[:, 3]])
    correlation = weight_decay.correlate(values)
    assert weight_decay.share_in_blocks(correlation) == 0.5
    order = weight_decay.put_side_by_side(correlation).tolist()
    assert abs(order.index(0) - order.index(1)) == 1
    assert sorted(order) == [0, 1, 2, 3]


def test_removal_measures_the_point_that_training_decayed_to():
    """With nothing but decay weights end at θ₀, which the study draws again."""
    torch.manual_seed(0)
    network = nn.Linear(5, 3)
    recipe = _networks.trainings_of(TINY, _networks.MLP, 0.5, "removed")[0].recipe
    optimizer = make_optimizer(network.parameters(), recipe)
    for _ in range(3000):
        optimizer.zero_grad()
        (0 * network.weight.sum() + 0 * network.bias.sum()).backward()
        optimizer.step()
    again = remove_symmetry(network, sigma=_networks.SIGMAS["removed"], decay=0.5, seed=0)
    assert all(float(away.abs().max()) < 1e-5 for away in again.deviations().values())


def test_barrier_is_the_height_above_the_line_between_the_ends():
    assert removal.height([1.0, 2.5, 2.0]) == pytest.approx(1.0)
    assert removal.height([1.0, 1.0, 3.0]) == 0
    training = _networks.trainings_of(TINY, _networks.MLP, 0.01)[0]
    (run,) = execute([training], {})
    curve = removal.loss_between(run.network(), run.network(), run.samples.x, run.samples.y)
    assert curve == pytest.approx([run.loss] * removal.PLACES, rel=1e-5)


@pytest.mark.parametrize("similarity", contrastive.SIMILARITIES)
def test_simclr_loss_by_hand(similarity):
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loss, _ = contrastive.contrast(z, similarity)

    def sim(a, b):
        if similarity == "cosine":
            return float(a @ b / a.norm() / b.norm()) / contrastive.TEMPERATURE
        return -float((a - b).square().sum()) / 2

    terms = []
    for i in range(6):
        others = sum(math.exp(sim(z[i], z[k])) for k in range(6) if k != i)
        terms.append(-math.log(math.exp(sim(z[i], z[(i + 3) % 6])) / others))
    assert float(loss) == pytest.approx(sum(terms) / 6, rel=1e-9)


def test_views_are_the_image_moved_by_at_most_a_pixel():
    x = -torch.ones(200, 1, 10, 10)
    x[:, 0, 4, 4] = 1.0
    views = contrastive.augment(x, torch.Generator().manual_seed(0))
    assert views.shape == x.shape
    brightest = views.flatten(1).argmax(dim=1)
    rows, columns = brightest // 10, brightest % 10
    assert set(rows.tolist()) == {3, 4, 5}
    assert set(columns.tolist()) == {3, 4, 5, 6}  # mirrored, 4 becomes 5


@pytest.mark.parametrize("left", [0, 1, 4])
def test_beta_leaves_as_many_modes_as_said(left, monkeypatch):
    stand_ins.stand_in(monkeypatch)
    data = posterior_collapse.data_of({"per_class": 20})
    x = posterior_collapse.pixels_of(data).double()
    values = torch.linalg.eigvalsh(torch.cov(x.T, correction=0))
    beta = posterior_collapse.choose_beta(data, left)
    assert int((values > beta * posterior_collapse.NOISE).sum()) == left
    samples_of.cache_clear()
    posterior_collapse.eigenvalues_of.cache_clear()


def test_penalised_regression_meets_the_conditions_of_a_minimum():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 6, generator=generator, dtype=torch.float64)
    Y = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    W = compression.solve(X, Y, 0.1, "sparse")
    slope = (X @ W.T - Y).T @ X / 40
    kept = W != 0
    torch.testing.assert_close(slope[kept], -0.1 * W[kept].sign(), rtol=0, atol=1e-9)
    assert float(slope.abs().max()) <= 0.1 + 1e-9
    W = compression.solve(X, Y, 0.1, "low-rank")
    slope = (X @ W.T - Y).T @ X / 40
    assert float(torch.linalg.matrix_norm(slope, 2)) <= 0.1 + 1e-9
    nuclear = float(torch.linalg.svdvals(W).sum())
    assert float((slope * W).sum()) == pytest.approx(-0.1 * nuclear, rel=1e-9)
