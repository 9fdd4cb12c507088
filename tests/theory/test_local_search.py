"""Other norms and more layers: local minima against closed forms, brute force and the optimum."""

import json
import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar

import lawscope as ls
from lawscope.theory.layer_peeled import layers, q_norm
from lawscope.theory.layer_peeled.layers import peel_layers
from lawscope.theory.layer_peeled.local_search import Stack
from lawscope.theory.layer_peeled.program import cross_entropy
from lawscope.theory.layer_peeled.q_norm import peel_q_norm

SIZES = np.array([5.0, 3.0, 1.0, 1.0])
COUNTS = [[1] * 4, [20, 20, 20, 1, 1, 1], [9, 5, 2, 1]]


def definition(found, counts, *, relu=False):
    """The loss of the returned features and layers, in plain softmax."""
    hidden = found.features
    for i, weights in enumerate(found.layers):
        hidden = hidden @ weights.T
        if relu and i < len(found.layers) - 1:
            hidden = np.maximum(hidden, 0)
    chance = np.exp(hidden - hidden.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    return float(-np.asarray(counts) @ np.log(chance.diagonal()) / np.sum(counts))


@pytest.mark.parametrize(
    "settings",
    [
        {"bounds": (20.0, 4.0)},
        {"bounds": (20.0, 4.0), "q": 3.0},
        {"bounds": (20.0, 4.0), "q": 1.3},
        {"bounds": (20.0, 4.0, 8.0)},
        {"bounds": (20.0, 4.0, 8.0, 2.0), "relu": True},
    ],
)
def test_gradient_is_the_difference_quotient(settings):
    stack = Stack(SIZES, 6, **settings)
    place = np.random.default_rng(0).standard_normal(sum(r * c for r, c in stack.shapes))
    _, gradient = stack.log_loss(place)
    expected = approx_fprime(place, lambda x: stack.log_loss(x)[0], 1e-7)
    np.testing.assert_allclose(gradient, expected, atol=2e-7)


def test_cross_entropy_keeps_the_digits_of_a_tiny_loss():
    away = 100 * np.eye(3) - 100
    losses, chances = cross_entropy(away, 1 - np.eye(3))
    assert losses == pytest.approx(2 * math.exp(-100), rel=1e-12)
    assert chances[0, 1] == pytest.approx(math.exp(-100), rel=1e-12)


@pytest.mark.parametrize("counts", COUNTS)
def test_two_norm_and_one_layer_give_the_certified_optimum(counts):
    exact = ls.peel(counts, 0.7, 3.0)
    for found in (
        peel_q_norm(counts, 2, 0.7, 3.0, starts=3),
        peel_layers(counts, (0.7, 3.0), starts=3),
    ):
        np.testing.assert_allclose(found.losses, exact.loss, rtol=1e-9)
        assert not found.certified
        np.testing.assert_allclose(found.cosines, exact.cosines, atol=1e-3)
        assert found.minority_cosine == pytest.approx(exact.minority_cosine, abs=1e-3, nan_ok=True)


@pytest.mark.parametrize("q", [1.2, 1.5, 2, 3, 4])
def test_bounds_hold_and_the_loss_is_attained(q):
    found = peel_q_norm([9, 9, 1, 1], q, 0.7, 3.0, dimension=5, starts=2)
    assert (found.weights**2).sum() / 4 == pytest.approx(0.7, rel=1e-12)
    assert (np.abs(found.features) ** q).sum() / 4 == pytest.approx(3.0, rel=1e-12)
    assert found.weights.shape == found.features.shape == (4, 5)
    assert definition(found, [9, 9, 1, 1]) == pytest.approx(found.loss, rel=1e-9)


@pytest.mark.parametrize("q", [1.5, 3, 4])
@pytest.mark.parametrize("K", [3, 10])
def test_no_neural_collapse_for_another_norm(q, K):
    found = peel_q_norm([1] * K, q)
    assert found.below_collapsed
    # From beside the best simplex, too: it is not a local minimum.
    assert found.losses[0] < found.collapsed_loss * (1 - 1e-4)


@pytest.mark.parametrize("q", [1.5, 3])
def test_two_classes_collapse_for_every_norm(q):
    found = peel_q_norm([1, 1], q)
    assert found.loss == pytest.approx(found.collapsed_loss, rel=1e-8)
    assert found.minority_cosines.size == 8


@pytest.mark.parametrize("q", [1.5, 3, 4])
def test_smallest_triangle_is_that_of_all_angles(q):
    simplex = q_norm.smallest_simplex(3, 2, q, 4, 0)
    np.testing.assert_allclose(simplex @ simplex.T, 1.5 * np.eye(3) - 0.5, atol=1e-12)
    angles = np.arange(3) * 2 * math.pi / 3 + np.linspace(0, math.pi, 20001)[:, None]
    sizes = (np.abs(np.cos(angles)) ** q + np.abs(np.sin(angles)) ** q).sum(axis=1)
    assert (np.abs(simplex) ** q).sum() == pytest.approx(sizes.min(), rel=1e-6)


@pytest.mark.parametrize("counts", [[1] * 5, [20, 20, 1, 1]])
@pytest.mark.parametrize("energies", [(1, 1, 5), (2, 0.5, 1, 5)])
def test_linear_layers_are_a_schatten_bound(counts, energies):
    """m linear layers reach Z iff Σσ^s ≤ K·(ΠE)^(1/(m+1)), s = 2/(m+1).

    At a minimum of f under that bound UᵀΓV = −μ·σ^(s−1) on the range of Z.
    """
    found, K, s = peel_layers(counts, energies), len(counts), 2 / len(energies)
    Z = found.features.copy()
    for weights in found.layers:
        Z = Z @ weights.T
    U, sigma, Vt = np.linalg.svd(Z)
    kept = sigma > 1e-4 * sigma[0]
    assert (sigma[kept] ** s).sum() == pytest.approx(K * math.prod(energies) ** (s / 2), rel=1e-4)
    chance = np.exp(Z - Z.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    slope = (np.array(counts) / np.sum(counts))[:, None] * (chance - np.eye(K))
    prices = -(U.T @ slope @ Vt.T)[np.ix_(kept, kept)] / sigma[kept] ** (s - 1)
    np.testing.assert_allclose(prices, prices[0, 0] * np.eye(kept.sum()), atol=1e-4 * prices[0, 0])


def test_two_classes_behind_two_linear_layers_are_one_angle():
    """K = 2: Z = s·uvᵀ with v = (1, −1)/√2 and s = K^(3/2)·√ΠE; the angle of u is left."""
    counts, energies = np.array([9.0, 1.0]), (0.5, 0.8, 2.0)
    length = 2**1.5 * math.sqrt(math.prod(energies))

    def loss(angle):
        margins = math.sqrt(2) * length * np.array([math.cos(angle), math.sin(angle)])
        return float(counts @ np.log1p(np.exp(-margins)) / 10)

    best = minimize_scalar(loss, bounds=(0, math.pi / 2), method="bounded").fun
    assert peel_layers(counts, energies).loss == pytest.approx(best, rel=1e-7)


def test_two_linear_layers_leave_the_simplex_for_fewer_dimensions():
    found = peel_layers([1] * 6, (1, 1, 5))
    assert found.below_collapsed
    sigma = np.linalg.svd(found.weights, compute_uv=False)
    assert (sigma > 1e-3 * sigma[0]).sum() < 5


@pytest.mark.parametrize(("activation", "relu"), [(None, False), ("relu", True)])
@pytest.mark.parametrize("energies", [(1.0, 5.0), (2.0, 1.5, 5.0), (1.0, 2.0, 0.5, 5.0)])
def test_collapsed_blocks_have_the_collapsed_loss(activation, relu, energies):
    K = 5
    stack = Stack(np.ones(K), 7, tuple(K * e for e in reversed(energies)), relu=relu)
    blocks = layers.collapsed_blocks(stack)
    value, _ = stack.log_loss(np.concatenate([block.ravel() for block in blocks]))
    expected = layers.collapsed_loss(K, energies, relu=relu)
    assert math.exp(value) == pytest.approx(expected, rel=1e-12)
    found = peel_layers([1] * K, energies, activation, dimension=7, starts=1)
    # Units that are off sit on the kink of ReLU, where L-BFGS loses the last digits.
    assert found.loss <= expected * (1 + (1e-7 if relu else 1e-9))
    assert definition(found, [1] * K, relu=relu) == pytest.approx(found.loss, rel=1e-9)


def test_table_plot_and_document():
    found = peel_layers([9, 9, 1], starts=3)
    np.testing.assert_array_equal(found.losses, peel_layers([9, 9, 1], starts=3).losses)
    assert list(found.table()["loss"]) == list(found.losses)
    assert len(found.plot().lines) == 2
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["certified"] is False
    assert document["minority_cosine"] == "NaN"  # one minority class has no angle
    assert type(found).from_dict(document) == found
    assert "not certified" in str(found)
