"""Every mistake in a call of the closed forms is one sentence."""

import math

import numpy as np
import pytest

import lawscope as ls

land, latent, rest = ls.theory.landscapes, ls.theory.latent, ls.theory.equilibrium
ONE, BENT, SKEW = np.eye(2), np.diag([1.0, -1.0]), np.array([[1.0, 0.5], [0.0, 1.0]])
FLAT = np.diag([1.0, 0.0])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: land.critical_decay("cube", 1, 1), "No landscape is named 'cube'"),
        (lambda: land.find_minimum("cube", 1, 1, 1), "No landscape is named 'cube'"),
        (lambda: land.critical_decay("square", "one", 1), "x must be a finite number like 0.5 or"),
        (lambda: land.critical_decay("square", 1, math.nan), "y must be a finite number"),
        (lambda: land.critical_decay("square", [1, 2], [1]), "x has 2 and y has 1 values"),
        (lambda: land.critical_decay("square", 1e150, 1), "x reaches 1e.150; rescale"),
        (lambda: land.find_minimum("square", 1, 1, -0.1), "gamma is -0.1; give at least 0"),
        (lambda: land.depth_transition(2), "depth=2 has no jump, see critical_decay"),
        (lambda: land.depth_transition(3.5), "depth=3.5 is not a whole number"),
        (lambda: land.soft_threshold([1, 2], 1), "M must be a matrix of finite numbers"),
        (lambda: land.soft_threshold([[1, 2], [3]], 1), "M must be a matrix"),
        (lambda: land.soft_threshold(np.zeros((0, 2)), 1), "M must be a matrix"),
        (lambda: land.soft_threshold(ONE, None), "gamma must be a finite number"),
        (lambda: land.soft_threshold(ONE, -1), "gamma is -1"),
        (lambda: latent.contrastive_modes([1, -1], [0, 0], 1), "signal has the value -1"),
        (lambda: latent.contrastive_modes([1], [1, 2], 1), "signal has 1 and augmentation 2"),
        (lambda: latent.contrastive_modes(1.0, 1.0, 1), "signal must be a row"),
        (lambda: latent.contrastive_modes([1], [1], 0, "cosine"), "No similarity is named 'cosine"),
        (lambda: latent.contrastive_modes([1], [0], 0), "grows for ever; give gamma > 0"),
        (lambda: latent.vae_modes([-1.0], 1, 1), "eigenvalues has the value -1"),
        (lambda: latent.vae_modes([1.0], 0, 1), "beta is 0; give more than 0"),
        (lambda: latent.vae_modes([1.0], 1, -1), "noise is -1; give more than 0"),
        (lambda: latent.vae_modes([1.0], 1, 1, 0), "encoder_variance is 0; give more than 0"),
        (lambda: rest.deep_linear(ONE, ONE, ONE, 1), "depth=1 leaves no layers"),
        (lambda: rest.deep_linear(ONE, np.eye(3), ONE, 2), "input_covariance is 3×3; .* 2×2"),
        (lambda: rest.deep_linear(ONE, ONE, BENT, 2), "noise_covariance has the eigenvalue -1"),
        (lambda: rest.deep_linear(ONE, SKEW, ONE, 2), "input_covariance is not symmetric"),
        (lambda: rest.deep_linear(ONE, 0 * ONE, ONE, 2), "input_covariance is zero"),
        (lambda: rest.deep_linear(0 * ONE, ONE, ONE, 2), "V is zero on these inputs"),
        (lambda: rest.deep_linear(np.diag([0, 1]), FLAT, ONE, 2), "V is zero on these inputs"),
        (lambda: rest.deep_linear(ONE, ONE, FLAT, 3), "A part of V has no noise"),
        (lambda: rest.geometric_mean(FLAT, ONE), "P is singular"),
        (lambda: rest.geometric_mean(ONE, FLAT), "Q is singular"),
        (lambda: rest.geometric_mean(ONE, BENT), "Q has the eigenvalue -1"),
        (lambda: rest.geometric_mean(SKEW, ONE), "P is not symmetric"),
        (lambda: rest.geometric_mean(ONE, np.eye(3)), "Q is 3×3; it must be 2×2"),
        (lambda: rest.geometric_mean(np.ones((2, 3)), ONE), "P is 2×3; it must be 2×2"),
        (lambda: rest.rescaling_fixed_point([1, 1], [1, 1]), "Only one sign of the generator"),
        (lambda: rest.rescaling_fixed_point([1, -1], [1, 0]), "Only one sign of the generator"),
        (lambda: rest.rescaling_fixed_point(BENT, FLAT), "Only one sign of the generator"),
        (lambda: rest.rescaling_fixed_point([1, -1], [1, 1, 1]), "3 values for 2 weights"),
        (lambda: rest.rescaling_fixed_point([1, -1], [1, -1]), "noise has the value -1"),
        (lambda: rest.rescaling_fixed_point([1, -1], BENT), "noise has the eigenvalue -1"),
        (lambda: rest.rescaling_fixed_point(SKEW, ONE), "generator is not symmetric"),
        (lambda: rest.rank_one([0, 1], FLAT), "beta is zero on these inputs"),
        (lambda: rest.rank_one([1, 1, 1], ONE), "input_covariance is 2×2; it must be 3×3"),
        (lambda: rest.rank_one([1, 1], BENT), "input_covariance has the eigenvalue -1"),
    ],
)
def test_mistakes_are_sentences(call, said):
    with pytest.raises(ls.LawscopeError, match=said):
        call()
