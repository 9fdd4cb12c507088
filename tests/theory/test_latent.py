"""Modes of linear contrastive learning and of linear VAEs against optimisation of their losses."""

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize_scalar
from tests.theory.minimise import minimise

import lawscope as ls

latent = ls.theory.latent
NODES, WEIGHTS = hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def contrastive_loss(b, a, c, gamma, similarity):
    """Compute the loss of one mode as it is defined, by quadrature; b = w²."""
    z = np.sqrt((a + c) * b) * NODES  # features of views
    if similarity == "l2":
        alignment = 0.5 * b * 2 * c  # views of one sample differ by two augmentations
        rivals = np.exp(-((z[:, None] - z) ** 2) / 2) @ WEIGHTS
    else:
        alignment = -b * a
        rivals = np.exp(z[:, None] * z) @ WEIGHTS
    return alignment + WEIGHTS @ np.log(rivals) + gamma * b


@pytest.mark.parametrize("similarity", ["l2", "inner"])
@pytest.mark.parametrize(
    ("a", "c", "gamma"),
    [
        (1.0, 0.5, 0.0),
        (1.0, 0.5, 0.3),
        (1.0, 0.5, 0.99),
        (1.0, 0.5, 1.01),
        (3.0, 2.0, 1.0),
        (0.2, 1.5, 0.1),
        (1.0, 0.0, 0.5),
        (0.0, 1.0, 0.1),
    ],
)
def test_one_mode_minimises_the_contrastive_loss_as_defined(similarity, a, c, gamma):
    found = latent.contrastive_modes([a], [c], gamma, similarity)
    bounds = (0.0, 2 * found.strengths[0] + 0.1)
    best = minimize_scalar(
        lambda b: contrastive_loss(b, a, c, gamma, similarity),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-12},
    )
    assert bool(found.surviving[0]) == (a > gamma)
    # The place of a minimum is known to the root of the rounding of its value.
    assert found.strengths[0] == pytest.approx(best.x, abs=2e-7)


def similar_l2(S):
    """E_x log E_χ of Gaussian features of covariance S, exactly."""
    shifted = torch.eye(len(S), dtype=S.dtype) + S
    return -0.5 * torch.logdet(shifted) - 0.5 * torch.linalg.solve(shifted, S).trace()


@pytest.mark.parametrize("similarity", ["l2", "inner"])
@pytest.mark.parametrize(
    ("a", "gamma"),
    [
        ((2.0, 1.0, 0.3), 0.5),
        ((2.0, 1.0, 1.0), 0.5),  # degenerate
        ((2.0, 1.0, 0.3), 1.0),  # at the threshold of the second
        ((2.0, 1.0, 0.3), 1 - 1e-5),
        ((2.0, 1.0, 0.3), 1 + 1e-5),
        ((2.0, 1.0, 0.3), 3.0),  # complete collapse
    ],
)
def test_modes_of_a_matrix_are_lost_one_by_one(similarity, a, gamma):
    c = (0.5, 0.4, 0.4)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    A, C = (torch.from_numpy(turn * np.array(each) @ turn.T) for each in (a, c))

    def loss(W):
        S = W @ (A + C) @ W.T
        if similarity == "l2":
            value = (W @ C @ W.T).trace() + similar_l2(S)
        else:
            value = -(W @ A @ W.T).trace() + 0.5 * (S @ S).trace()
        return value + gamma * (W**2).sum()

    _, (W,) = minimise(loss, [(3, 3)], starts=2)
    found = latent.contrastive_modes(a, c, gamma, similarity)
    measured = turn.T @ W.T @ W @ turn
    np.testing.assert_allclose(measured, np.diag(found.strengths), atol=2e-8)
    np.testing.assert_array_equal(found.surviving, np.array(a) > gamma)


EIGENVALUES = (4.0, 1.5, 0.2)


@pytest.mark.parametrize("variance", [None, 1.0, 0.3])
@pytest.mark.parametrize(
    ("eigenvalues", "beta", "noise"),
    [
        (EIGENVALUES, 1.0, 0.4),
        (EIGENVALUES, 2.0, 1.0),
        ((3.0, 3.0, 0.5), 1.0, 1.0),  # degenerate
        (EIGENVALUES, 1.5, 1.0),  # at the threshold of the second, where variances are learned
        (EIGENVALUES, 1.5 * (1 - 1e-5), 1.0),
        (EIGENVALUES, 1.5 * (1 + 1e-5), 1.0),
        (EIGENVALUES, 20.0, 1.0),
    ],
)
def test_modes_of_a_linear_vae_minimise_its_loss(eigenvalues, beta, noise, variance):
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    A = torch.from_numpy(turn * np.array(eigenvalues) @ turn.T)

    def loss(U, W, log_variance):
        s = log_variance.exp() if variance is None else torch.full((3,), variance).double()
        missed = torch.eye(3, dtype=A.dtype) - U @ W.T
        error = (missed @ A @ missed.T).trace() + ((U**2) * s).sum()
        kl = 0.5 * (s.sum() + (W.T @ A @ W).trace() - 3 - s.log().sum())
        # The last term pins variances that the loss does not depend on.
        idle = 0.0 if variance is None else (log_variance**2).sum()
        return error / (2 * noise**2) + beta * kl + idle

    _, (U, W, log_variance) = minimise(loss, [(3, 3), (3, 3), (3,)], starts=2)
    found = latent.vae_modes(eigenvalues, beta, noise, variance)
    np.testing.assert_allclose(turn.T @ U @ U.T @ turn, np.diag(found.strengths), atol=2e-7)
    encoder = turn.T @ W @ W.T @ turn
    np.testing.assert_allclose(encoder, np.diag(found.encoder_strengths), atol=2e-7)
    b = beta * noise**2
    assert found.threshold == b * (variance or 1.0)
    np.testing.assert_array_equal(found.surviving, np.array(eigenvalues) > found.threshold)
    if variance is None:
        np.testing.assert_allclose(
            np.sort(np.exp(log_variance)), np.sort(found.variances), atol=2e-7
        )


def test_a_mode_at_the_threshold_of_a_fixed_variance_is_lost():
    """b·e² and √(λb)/e − b round differently."""
    for e2 in np.random.default_rng(0).uniform(0.1, 3, size=50):
        found = latent.vae_modes([0.7 * 1.3**2 * e2], 0.7, 1.3, e2)
        assert found.strengths[0] == 0
        assert not found.surviving[0]
