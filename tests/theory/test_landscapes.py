"""Solvable landscapes against optimisation of the losses as they are written."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize_scalar
from tests.theory.minimise import minimise

import lawscope as ls

landscapes = ls.theory.landscapes
# Shares of the critical decay: below, just below, at, just above, above.
SHARES = [0.0, 0.3, 1 - 1e-3, 1 - 1e-6, 1.0, 1 + 1e-6, 2.0]
DATA = [(2.0, 0.7), (-1.5, -2.0), ([1.0, 2.0, -1.0], [2.0, 1.0, 0.5])]


def square(x, y, gamma):
    return lambda w: ((w**2 * x - y) ** 2).mean() + gamma * (w**2).sum()


def product(x, y, gamma):
    return lambda u, w: ((u * w * x - y) ** 2).mean() + gamma * (u**2 + w**2).sum()


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(("x", "y"), DATA)
@pytest.mark.parametrize(("kind", "make"), [("square", square), ("product", product)])
def test_minimum_is_that_of_the_loss_on_both_sides_of_the_threshold(kind, make, x, y, share):
    gamma = share * landscapes.critical_decay(kind, x, y)
    x_, y_ = (torch.atleast_1d(torch.tensor(each, dtype=torch.float64)) for each in (x, y))
    loss, weights = minimise(make(x_, y_, gamma), [(1,)] * (1 if kind == "square" else 2))
    found = landscapes.find_minimum(kind, x, y, gamma)
    assert found.loss == pytest.approx(loss, rel=1e-12)
    size = weights[0] * weights[-1]
    assert found.strength == pytest.approx(abs(size.item()), rel=1e-8, abs=1e-10)
    assert (found.strength > 0) == (share < 1)


def test_a_product_fits_a_target_of_either_sign_and_a_square_only_its_own():
    assert landscapes.critical_decay("product", 2.0, -3.0) == 6.0
    assert landscapes.critical_decay("square", 2.0, -3.0) == 0.0
    assert landscapes.find_minimum("square", 2.0, -3.0, 0.1) == (0.0, 9.0)


def lowest(function, grid):
    """Return the minimum of a function of one number, refined from a grid."""
    best = int(np.argmin([function(each) for each in grid[1:-1]])) + 1
    bounds = (grid[best - 1], grid[best + 1])
    return minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": 1e-12})


@pytest.mark.parametrize("depth", [3, 4, 5, 6])
@pytest.mark.parametrize(("x", "y"), [(1.0, 1.0), (0.3, 2.0), (-4.0, 0.5)])
def test_a_deep_product_jumps_at_coexistence_and_ends_at_the_spinodal(depth, x, y):
    found = landscapes.depth_transition(depth, x, y)
    fit = abs(y / x) ** (1 / depth)  # the size of each weight at γ = 0
    grid = np.linspace(0.2, 1.1, 300) * fit

    def loss(w, gamma):
        return (abs(x) * w**depth - y) ** 2 + gamma * depth * w**2

    def slope_by_w(w, gamma):
        at = torch.tensor(w, dtype=torch.float64, requires_grad=True)
        return float(torch.autograd.grad(loss(at, gamma), at)[0]) / w

    span = (0.2 * found.spinodal, 2 * found.spinodal)
    coexistence = brentq(lambda g: lowest(lambda w: loss(w, g), grid).fun - y**2, *span, xtol=1e-13)
    spinodal = brentq(lambda g: lowest(lambda w: slope_by_w(w, g), grid).fun, *span, xtol=1e-13)
    assert found.coexistence == pytest.approx(coexistence, rel=1e-9)
    assert found.spinodal == pytest.approx(spinodal, rel=1e-9)
    left = lowest(lambda w: loss(w, found.coexistence), grid).x
    assert found.coexistence_share == pytest.approx((left / fit) ** depth, rel=1e-6)
    left = lowest(lambda w: slope_by_w(w, found.spinodal), grid).x
    assert found.spinodal_share == pytest.approx((left / fit) ** depth, rel=1e-6)


@pytest.mark.parametrize("depth", [3, 4])
@pytest.mark.parametrize(("share", "collapsed"), [(1 - 1e-4, False), (1 + 1e-4, True)])
def test_free_weights_prefer_equal_sizes_and_the_side_of_coexistence(depth, share, collapsed):
    x, y = np.array([1.0, -2.0, 0.5]), np.array([2.0, -1.0, 1.0])
    gamma = share * landscapes.depth_transition(depth, x, y).coexistence
    x_, y_ = torch.from_numpy(x), torch.from_numpy(y)

    def loss(w):
        return ((x_ * w.prod() - y_) ** 2).mean() + gamma * (w**2).sum()

    value, (w,) = minimise(loss, [(depth,)], starts=8)
    zero = float((y**2).mean())
    assert (value < zero - 1e-9) != collapsed
    assert np.ptp(np.abs(w)) < 1e-6


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1 - 1e-6, 1.0, 1 + 1e-6, 5.0])
@pytest.mark.parametrize("sigma", [(3.0, 1.0, 0.2), (2.0, 1.0, 1.0), (1.0, 1.0, 1.0)])
def test_soft_threshold_is_the_product_of_penalised_factors(sigma, gamma):
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (4, 3))
    M = (left * sigma) @ right.T
    target = torch.from_numpy(M)

    def loss(U, W):
        return ((U @ W - target) ** 2).sum() + gamma * ((U**2).sum() + (W**2).sum())

    _, (U, W) = minimise(loss, [(4, 3), (3, 3)], starts=1)
    np.testing.assert_allclose(landscapes.soft_threshold(M, gamma), U @ W, atol=1e-10)
