"""What the studies of local elasticity compute, against cases whose answer is known."""

import numpy as np
import pytest
import torch
from torch import nn

from lawscope.studies.datasets import samples_of
from lawscope.studies.elasticity import _networks as networks
from lawscope.studies.elasticity import label_noise, ode_collapse, separation_theorem
from lawscope.studies.elasticity.estimation import estimate
from lawscope.studies.elasticity.imitation import imitate
from lawscope.studies.elasticity.linearization import approximate
from lawscope.studies.execute import execute
from lawscope.studies.study import FAILS, OPEN, Claim
from lawscope.theory.elastic_sde.model import ElasticSDE, directions

TINY = {**networks.TINY_SHAPES, "steps": 12, "every": 4}
TWO = {"seeds": 2}


@pytest.mark.parametrize("share", [0.0, 0.25, 2 / 3])
def test_a_share_of_every_class_gets_each_of_the_other_labels(share):
    y = torch.arange(3).repeat(1200)
    labels = networks.corrupt(y, share, seed=1)
    for k in range(3):
        found = torch.bincount(labels[y == k], minlength=3)
        assert int(found[k]) == 1200 - round(share * 1200)
        others = [int(found[j]) for j in range(3) if j != k]
        assert abs(others[0] - others[1]) <= 4 * np.sqrt(share * 1200)
    assert torch.equal(labels, networks.corrupt(y, share, seed=1))


def test_networks_of_all_noises_train_as_one_stack_and_each_as_if_alone():
    clean, noisy = (networks.trainings_of(TWO, TINY, share)[1] for share in (0.0, 0.5))
    assert clean.shape == noisy.shape
    assert clean.key != noisy.key
    assert samples_of(clean.data).x is samples_of(noisy.data).x
    together = execute([clean, noisy], {})
    for training, run in zip([clean, noisy], together, strict=True):
        (alone,) = execute([training], {})
        record, expected = (each.records[networks.TRAJECTORY] for each in (run, alone))
        assert record["step"].tolist() == [0, 4, 8, 12]
        torch.testing.assert_close(record["means"], expected["means"], rtol=0, atol=1e-6)
        x, y = networks.probe_of(run.samples, TINY["probe"])
        means = torch.stack([run.network()(x[y == k]).mean(dim=0) for k in range(3)])
        torch.testing.assert_close(record["means"][-1], means.detach(), rtol=0, atol=1e-5)
    first, second = (run.records[networks.TRAJECTORY]["means"][-1] for run in together)
    assert not torch.allclose(first, second, atol=1e-4)


def test_a_trajectory_of_the_l_model_is_estimated_and_imitated():
    steps = np.arange(0.0, 400.0)
    X0 = directions(3) + 0.3 * np.random.default_rng(0).standard_normal((3, 3))
    sde = ElasticSDE(0.02, -0.01, 3, model="L", X0=X0)
    record = {"step": steps, "means": sde.mean(steps), "accuracy": np.ones(400), "seed": 0}
    found = estimate(record)
    assert found["L"] == pytest.approx(
        {"t0": 0, "gap": 0.03 * 399, "A": 0.02 * 399, "B": -0.01 * 399, "larger": 1.0}, rel=1e-6
    )
    copied = imitate(record)
    assert copied["L"]["late"] < 1e-3
    assert copied["I"] is None or copied["I"]["late"] > 10 * copied["L"]["late"]


def test_approximations_of_a_linear_network_by_hand():
    """Of f(x) = Wx Jacobians are the inputs: Θ_kl = (x̄_k·x̄_l) I, and D_k = Σ_i (x̄_k·x_i)(…)/n."""
    rng = np.random.default_rng(2)
    x, y, W = rng.standard_normal((12, 4)), np.repeat(np.arange(3), 4), rng.normal(size=(3, 4))
    model = nn.Linear(4, 3, bias=False).double()
    model.weight.data = torch.from_numpy(W)
    found = approximate(model, torch.from_numpy(x), torch.from_numpy(y))
    softmax = lambda z: np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)  # noqa: E731
    X, centres = x @ W.T, np.stack([x[y == k].mean(axis=0) for k in range(3)])
    errors = np.eye(3)[y] - softmax(X)
    D = np.stack([(x @ centre) @ errors / 12 for centre in centres])
    phi = centres @ W.T
    q = softmax(phi)
    psi, J = np.eye(3) - q, [np.diag(each) - np.outer(each, each) for each in q]
    drift = centres @ centres.T @ psi / 3
    assert found["decoupled"] == pytest.approx(np.linalg.norm(drift - D) / np.linalg.norm(D))
    R = psi + np.stack([J[k] @ phi[k] for k in range(3)])
    assert found["residue"] == pytest.approx(np.linalg.norm(R) / np.sqrt(2))
    off = softmax(X) - np.stack([q[k] + J[k] @ (X[i] - phi[k]) for i, k in enumerate(y)])
    assert found["linear"] == pytest.approx(np.linalg.norm(off) / np.linalg.norm(errors))
    # With one image a class nothing is approximated; without weights the residue is the first one.
    one = approximate(model, torch.from_numpy(x[::4]), torch.from_numpy(y[::4]))
    assert max(one["decoupled"], one["linear"]) < 1e-12
    assert one["other_sign"] > 0.01
    model.weight.data.zero_()
    assert approximate(model, torch.from_numpy(x), torch.from_numpy(y))["constant"] < 1e-12


def test_logits_in_the_direction_of_an_etf_have_no_error_and_all_the_energy():
    grown = np.linspace(1, 9, 40)[:, None, None] * directions(3)
    found = ode_collapse.logits_of({"step": np.arange(40.0), "means": grown + 5.0})
    assert found["late"] == pytest.approx(0, abs=1e-12)
    assert found["late_energy"] == pytest.approx(1)
    x, y = np.array(found["paths"][0])
    assert np.hypot(x, y) == pytest.approx(np.linalg.norm(grown[:, 0], axis=1), rel=1e-4)


@pytest.mark.parametrize("factor", [0.0, 1.0, -1 / 3])
def test_means_by_matrix_exponentials_are_those_of_the_integrator(factor):
    rng = np.random.default_rng(3)
    H, X0 = separation_theorem.similarity("H of rank 9", rng), rng.standard_normal((3, 3))
    gamma, integral = separation_theorem.GAMMAS["1/√t"]
    draw = separation_theorem.proportional(factor, integral)
    samples = draw(H, X0, [3.0, 8.0], 40_000, np.random.default_rng(0))
    sde = ElasticSDE(
        lambda t: (1 + factor) * gamma(t), lambda t: factor * gamma(t), 3, model=H, X0=X0
    )
    means = sde.mean([3.0, 8.0])
    spread = np.sqrt(separation_theorem.NOISE * np.array([3.0, 8.0]))
    assert samples.std(axis=1).mean(axis=(1, 2)) == pytest.approx(spread, rel=0.01)
    assert samples.mean(axis=1) == pytest.approx(means, abs=5 * spread.max() / 200)


def test_where_the_sign_of_u_changes_is_said():
    say = label_noise.sign_change
    assert say({"p = 0": 9.0, "p = 0.6": 3.0, "p = 0.667": 0.4, "p = 0.75": -5.0}) == (
        "between p = 0.6 and 0.75"
    )
    assert "no change" in say({"p = 0": 9.0, "p = 0.8": -1.0})
    assert "do not sort" in say({"p = 0": -9.0, "p = 0.8": 3.0})


def test_a_claim_about_formulas_fails_at_any_preset():
    claims = [Claim("", "", lambda n: 1.0, lambda v: v < 0, exact=exact) for exact in (True, False)]
    assert [claim.judge({}, "cpu", "fewer steps").verdict for claim in claims] == [FAILS, OPEN]
