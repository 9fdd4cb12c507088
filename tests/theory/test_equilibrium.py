"""Noise equilibria against per-sample gradients, the noise on the orbit, and each other."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.linalg import expm
from scipy.optimize import brentq
from tests.theory.minimise import minimise

import lawscope as ls

equilibrium = ls.theory.equilibrium


def covariance(size, seed, rank=None):
    """Draw a covariance that is neither isotropic nor diagonal."""
    factor = np.random.default_rng(seed).normal(size=(size, rank or size + 1))
    return factor @ factor.T


def points(sigma):
    """Return equally likely points ±√d·(column of a root of Σ), whose second moment is Σ."""
    values, vectors = np.linalg.eigh(sigma)
    root = vectors * np.sqrt(np.maximum(values, 0) * len(sigma))
    return torch.from_numpy(np.hstack([root, -root]).T.copy())


def gradients(layers, sigma_x, sigma_e):
    """Return per-sample gradients of |W_D⋯W₁x − y|² by layer, for every x with every residual."""
    weights = [torch.tensor(each, requires_grad=True) for each in layers]
    rows = []
    for x in points(sigma_x):
        for residual in points(sigma_e):
            out = x
            for W in weights:
                out = W @ out
            loss = ((out - (out - residual).detach()) ** 2).sum()
            rows.append(torch.autograd.grad(loss, weights))
    return [torch.stack(each).numpy() for each in zip(*rows, strict=True)]


def imbalances(grads):
    """Return E g_i g_iᵀ − E g_{i+1}ᵀ g_{i+1} over E|g_i|², by pair of layers."""
    for one, two in pairwise(grads):
        incoming = np.einsum("nij,nkj->ik", one, one)
        yield (incoming - np.einsum("nji,njk->ik", two, two)) / np.trace(incoming)


CASES = [
    ((2, 3), 2, None, 2),
    ((2, 3), 3, None, 2),
    ((3, 3), 4, None, 3),
    ((4, 2), 6, None, 2),
    ((1, 3), 3, None, 1),
    ((3, 4), 4, 2, 2),  # a covariance of rank two: of four inputs two combinations vary
]


@pytest.mark.parametrize(("shape", "depth", "input_rank", "rank"), CASES)
def test_noise_of_neighbouring_layers_is_balanced_and_the_map_kept(shape, depth, input_rank, rank):
    V = np.random.default_rng(0).normal(size=shape)
    sigma_x, sigma_e = covariance(shape[1], 1, input_rank), covariance(shape[0], 2)
    found = equilibrium.deep_linear(V, sigma_x, sigma_e, depth)
    for imbalance in imbalances(gradients(found.layers, sigma_x, sigma_e)):
        np.testing.assert_allclose(imbalance, 0, atol=1e-12)
    product = np.linalg.multi_dot([*found.layers[::-1], np.eye(shape[1])])
    np.testing.assert_allclose(product @ sigma_x, V @ sigma_x, rtol=1e-9, atol=1e-9)
    norms = [np.linalg.norm(each) for each in found.layers]
    np.testing.assert_allclose(found.norms, norms, rtol=1e-14)
    np.testing.assert_allclose(found.norms[1:-1], found.interior_scale * math.sqrt(rank))
    first, last = found.layers[0], found.layers[-1]
    scale = found.interior_scale**2
    assert np.trace(first @ sigma_x @ first.T) == pytest.approx(scale * np.trace(sigma_x))
    assert np.trace(last.T @ sigma_e @ last) == pytest.approx(scale * np.trace(sigma_e))


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_orbit_of_any_factors_has_its_least_noise_there(depth):
    """The equilibrium is unique: from random factors, by optimising the change of basis."""
    rng = np.random.default_rng(3)
    shapes = [(2, 3), *[(2, 2)] * (depth - 2), (2, 2)]
    start = [torch.from_numpy(rng.normal(size=shape)) for shape in shapes]
    sigma_x, sigma_e = covariance(3, 4), covariance(2, 5)
    X, E = torch.from_numpy(sigma_x), torch.from_numpy(sigma_e)

    def change(bases):
        """Return the factors in other bases, each basis exp(B) for a symmetric B."""
        turned = [torch.linalg.matrix_exp(B + B.T) for B in bases]
        factors = list(start)
        for i, A in enumerate(turned):
            factors[i] = A @ factors[i]
            factors[i + 1] = factors[i + 1] @ torch.linalg.inv(A)
        return factors

    def noise(*bases):
        factors, total = change(bases), 0.0
        for i in range(depth):
            below, above = torch.eye(3).double(), torch.eye(2).double()
            for W in factors[:i]:
                below = W @ below
            for W in factors[i + 1 :]:
                above = W @ above
            total += (below @ X @ below.T).trace() * (above.T @ E @ above).trace()
        return total

    _, bases = minimise(noise, [(2, 2)] * (depth - 1))
    moved = [each.numpy() for each in change([torch.from_numpy(each) for each in bases])]
    V = np.linalg.multi_dot([*[each.numpy() for each in start[::-1]], np.eye(3)])
    found = equilibrium.deep_linear(V, sigma_x, sigma_e, depth)
    np.testing.assert_allclose([np.linalg.norm(each) for each in moved], found.norms, rtol=1e-10)
    for W in moved[1:-1]:
        scales = np.linalg.svd(W, compute_uv=False)
        np.testing.assert_allclose(scales, found.interior_scale, rtol=1e-10)


@pytest.mark.parametrize("sizes", [(1.0, 1.0), (1.0, 1e-4), (1e3, 1e-5)])
def test_geometric_mean_balances_the_noise_of_a_pair(sizes):
    rng = np.random.default_rng(0)
    W, U = sizes[0] * rng.normal(size=(2, 3)), sizes[1] * rng.normal(size=(3, 2))
    sigma_x, sigma_e = covariance(3, 1), covariance(3, 2)
    g_W, g_U = gradients((W, U), sigma_x, sigma_e)
    P, Q = np.einsum("nij,nkj->ik", g_W, g_W), np.einsum("nji,njk->ik", g_U, g_U)
    M = equilibrium.geometric_mean(P, Q)
    np.testing.assert_allclose(M @ Q @ M, P, rtol=1e-10)
    np.testing.assert_allclose(M, M.T, rtol=1e-10)
    A = np.linalg.cholesky(M).T  # AᵀA = M
    moved = A @ W, U @ np.linalg.inv(A)
    for imbalance in imbalances(gradients(moved, sigma_x, sigma_e)):
        np.testing.assert_allclose(imbalance, 0, atol=1e-10)
    found = equilibrium.deep_linear(U @ W, sigma_x, sigma_e, 2)
    np.testing.assert_allclose([np.linalg.norm(each) for each in moved], found.norms, rtol=1e-9)


@pytest.mark.parametrize("condition", [1e4, 1e11])
def test_geometric_mean_of_ill_conditioned_matrices(condition):
    turns = [np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0] for seed in (0, 1)]
    P, Q = (turn * np.geomspace(1, 1 / condition, 4) @ turn.T for turn in turns)
    M = equilibrium.geometric_mean(P, Q)
    np.testing.assert_allclose(M @ Q @ M, P, atol=1e-11)


def test_geometric_mean_of_commuting_matrices_is_a_root_and_swaps_to_its_inverse():
    P, Q = np.diag([4.0, 9.0, 9.0]), np.diag([1.0, 4.0, 4.0])
    np.testing.assert_allclose(equilibrium.geometric_mean(P, Q), np.diag([2, 1.5, 1.5]))
    P, Q = covariance(4, 0), covariance(4, 1)
    swapped = equilibrium.geometric_mean(Q, P)
    np.testing.assert_allclose(equilibrium.geometric_mean(P, Q) @ swapped, np.eye(4), atol=1e-9)


SIGNS = np.diag([1.0, 1.0, -1.0, -1.0, 0.0])
TURNED = np.linalg.qr(np.random.default_rng(5).normal(size=(5, 5)))[0]


@pytest.mark.parametrize(
    "generator",
    [
        SIGNS,
        TURNED @ SIGNS @ TURNED.T,
        np.diag([2.0, 1.0, -1.0, -3.0, 0.5]),
        covariance(5, 7) - 4 * np.eye(5),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_charge_comes_to_rest_at_the_fixed_point_from_both_sides(generator, scale):
    stretch = np.diag([scale, 1, 1, 1, 1])
    noise = stretch @ covariance(5, 6) @ stretch

    def drift(shift):
        flow = expm(-shift * generator)
        return np.trace(generator @ flow @ noise @ flow)

    found = equilibrium.rescaling_fixed_point(generator, noise)
    assert drift(found - 0.01) > 0 > drift(found + 0.01)
    root = brentq(drift, found - 0.5, found + 0.5, xtol=1e-12)
    assert found == pytest.approx(root, abs=1e-8)
    if np.isin(generator, SIGNS).all():
        diagonal = equilibrium.rescaling_fixed_point(generator.diagonal(), noise.diagonal())
        up, down = noise.diagonal()[:2].sum(), noise.diagonal()[2:4].sum()
        assert diagonal == pytest.approx(found, abs=1e-12)
        assert found == pytest.approx(math.log(up / down) / 4, abs=1e-12)


def hessian_and_noise(u, w, sigma, residual=0.3):
    """Return the Hessian of E(u·wᵀx − y)² without residuals, and E|g_w|² − E|g_u|² with them."""
    weights, inputs = torch.tensor([u, *w], dtype=torch.float64), points(sigma)
    targets = inputs @ torch.from_numpy(u * w)

    def loss(theta, x, y):
        return (theta[0] * theta[1:] @ x - y) ** 2

    mean = torch.func.hessian(lambda theta: loss(theta, inputs.T, targets).mean())(weights)
    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    g = per_sample(weights, inputs, targets + residual).numpy()
    return mean.numpy(), (g[:, 1:] ** 2).sum() - (g[:, 0] ** 2).sum()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_rank_one_balances_the_noise_and_has_the_least_trace(size):
    beta, sigma = np.random.default_rng(size).normal(size=size), covariance(size, size)
    found = equilibrium.rank_one(beta, sigma)
    u, w = found.outgoing, found.incoming
    np.testing.assert_allclose(u * w, beta, rtol=1e-13)
    assert found.charge == pytest.approx(w @ w - u**2, abs=1e-12)
    hessian, excess = hessian_and_noise(u, w, sigma)
    assert excess == pytest.approx(0, abs=1e-10)
    assert found.trace == pytest.approx(np.trace(hessian), rel=1e-12)
    assert found.sharpness == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-12)
    for factor in (0.99, 1.01):
        assert np.trace(hessian_and_noise(u * factor, w / factor, sigma)[0]) > found.trace
    pair = equilibrium.deep_linear(beta[None], sigma, [[0.7]], 2)
    np.testing.assert_allclose(pair.norms, [np.linalg.norm(w), u], rtol=1e-12)


@pytest.mark.parametrize(("share", "stable"), [(1 - 1e-6, True), (1 + 1e-6, False)])
def test_single_samples_are_stable_up_to_two_over_the_trace(share, stable):
    """|∇f|² is the same for all inputs (±1, ±1); the exact map of second moments decides."""
    found = equilibrium.rank_one([1.5, 0.0], np.eye(2))
    step, moments = share * 2 / found.trace, np.zeros((9, 9))
    for x in [(1, 1), (1, -1), (-1, 1), (-1, -1)]:
        slope = np.concatenate([[found.incoming @ x], found.outgoing * np.array(x)])
        move = np.eye(3) - step * 2 * np.outer(slope, slope)
        moments += np.kron(move, move) / 4
    radius = np.abs(np.linalg.eigvals(moments)).max()
    # The symmetry leaves a direction in which nothing moves: an eigenvalue of exactly one.
    assert (radius < 1 + 1e-12) == stable
