"""The LE-SDE against its definition, integrated class by class, and against laws known exactly."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import lawscope as ls
from lawscope.theory.elastic_sde.model import euler_step
from lawscope.theory.elastic_sde.separability import are_separable


def wavy(t):
    return 1 / np.sqrt(1 + t) + 0.1 * np.sin(t)


def falling(t):
    return -0.5 / (1 + t) + 0.05 * np.cos(3 * t)


def integrate(X0, times, strength, pull):
    """dXᵏ = Σ_l strength(t)[k, l]·pull(k, l, Xˡ), one class after the other, to about 1e-12."""
    K, p = X0.shape

    def slope(t, x):
        E, X = strength(t), x.reshape(K, p)
        rows = [sum(E[k, j] * pull(k, j, X[j]) for j in range(K)) for k in range(K)]
        return np.concatenate(rows)

    span = (times[0], times[-1])
    kind = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12}
    return solve_ivp(slope, span, X0.ravel(), t_eval=times, **kind).y.T.reshape(-1, K, p)


def isotropic(k, j, x):
    return x


def along_logits(k, j, x):
    d = np.full(len(x), -1 / len(x))
    d[j] += 1
    return d * (d @ x) / (d @ d)


def strengths(alpha, beta, P, q):
    """E with labels replaced with probability q, times P."""
    K = len(P)
    replaced = np.full((K, K), q / (K - 1))
    np.fill_diagonal(replaced, 1 - q)

    def at(t):
        E = np.full((K, K), float(beta(t)))
        np.fill_diagonal(E, float(alpha(t)))
        return (E @ replaced) * P

    return at


def relative(found, truth):
    return np.abs(found - truth).max() / np.abs(truth).max()


@pytest.mark.parametrize("K", [2, 3, 5, 10])
@pytest.mark.parametrize(("model", "pull"), [("I", isotropic), ("L", along_logits)])
@pytest.mark.parametrize(("q", "own"), [(0.0, None), (0.3, 0.5)])
def test_closed_forms_solve_the_equation(K, model, pull, q, own):
    P = np.full((K, K), 1 / K if own is None else (1 - own) / (K - 1))
    np.fill_diagonal(P, 1 / K if own is None else own)
    X0 = np.random.default_rng(K).standard_normal((K, K))
    times = np.linspace(0, 20, 7)
    sde = ls.ElasticSDE(wavy, falling, K, model=model, label_noise=q, sampling=P, X0=X0)
    assert sde.exact
    truth = integrate(X0, times, strengths(wavy, falling, P, q), pull)
    assert relative(sde.mean(times), truth) < 1e-10
    # The same H handed over as a matrix goes through the general integrator.
    general = ls.ElasticSDE(wavy, falling, K, K, sde.H, label_noise=q, sampling=P, X0=X0)
    assert not general.exact
    assert relative(general.mean(times), truth) < 1e-8
    # Times may come in any order and alone.
    np.testing.assert_array_equal(sde.mean(times[::-1]), sde.mean(times)[::-1])
    np.testing.assert_allclose(sde.mean(times[3]), sde.mean(times)[3], rtol=1e-12)


def test_a_thousand_classes_need_no_matrix():
    sde = ls.ElasticSDE(1.0, -1.0, 1000)
    assert sde.mean([1.0, 2.0]).shape == (2, 1000, 1000)


def test_general_elasticity_and_sampling():
    rng = np.random.default_rng(3)
    E, P = rng.standard_normal((2, 3, 3)), rng.dirichlet([1, 1, 1], 3)
    H, X0 = rng.standard_normal((12, 12)), rng.standard_normal((3, 4))
    times = np.linspace(1, 6, 5)

    def elasticity(t):
        return E[0] + E[1] * np.sin(t)

    sde = ls.ElasticSDE(
        K=3, p=4, model=H, elasticity=elasticity, sampling=P, label_noise=0.2, start=1.0, X0=X0
    )
    replaced = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    blocks = H.reshape(3, 4, 3, 4)
    truth = integrate(
        X0,
        times,
        lambda t: (elasticity(t) @ replaced) * P,
        lambda k, j, x: blocks[k, :, j] @ x,
    )
    assert relative(sde.mean(times), truth) < 1e-8


def test_a_stiff_model_is_integrated_in_few_steps():
    calls = []

    def elasticity(t):
        calls.append(t)
        return np.diag([-1e6, -1.0, 0.5])

    sde = ls.ElasticSDE(K=3, model="I", elasticity=elasticity)
    truth = (
        expm(np.kron(np.diag([-1e6, -1.0, 0.5]), np.eye(3)) / 3 * 10) @ sde.X0.ravel()
    ).reshape(3, 3)
    assert relative(sde.mean(10.0), truth) < 1e-8
    # An explicit method would need 10·1e6/3 of them.
    assert len(calls) < 20_000


def test_a_strength_that_acts_late_is_not_passed_over():
    times = np.linspace(0, 1e4, 1001)
    gust = np.interp(times, [0, 5000, 5010, 5020, 1e4], [0, 0, 1, 0, 0])
    I3 = np.eye(3)
    values = ls.ElasticSDE(gust, 0.0, 3, model=np.tile(I3, (3, 3)), times=times, X0=I3)
    function = ls.ElasticSDE(K=3, model="I", elasticity=lambda t: I3 * (100 < t < 300), X0=I3)
    # Means of one class each, which grow by the exponential of ∫α/3.
    assert relative(values.mean([4e3, 1e4, 6e3])[:, 0, 0], np.exp([0, 10 / 3, 10 / 3])) < 1e-8
    assert relative(function.mean(1e4)[0, 0], np.exp(200 / 3)) < 1e-8


def test_strengths_are_numbers_functions_or_values_at_times():
    times = np.array([0.0, 1.0, 4.0])
    numbers = ls.ElasticSDE(2.0, -1.0, 3).integrals([4.0])
    assert (numbers.A[0], numbers.B[0]) == pytest.approx((8.0, -4.0), rel=1e-14)
    # Straight lines between 1, 3 and 0; ∫ = 2 + 4.5.
    arrays = ls.ElasticSDE([1.0, 3.0, 0.0], [0, 0, 0], 3, times=times).integrals([4.0])
    assert arrays.A[0] == pytest.approx(6.5, rel=1e-14)
    # A function of one number, with a singular end; ∫ of 1/√t is 2√t.
    single = ls.ElasticSDE(lambda t: 1 / math.sqrt(t), 0.0, 3).integrals([0.0, 9.0])
    np.testing.assert_allclose(single.A, [0, 6], atol=1e-11)


def test_samples_of_the_mean_drift_have_the_exact_law():
    S = np.array([[2.0, 0.6], [0.6, 0.5]])
    sde = ls.ElasticSDE(wavy, falling, 3, 2, "I", noise=S, start=1.0)
    n, times = 40_000, np.array([3.0, 9.0])
    found = sde.sample(times, n, 5)
    off = found - sde.mean(times)[:, None]
    scale = S.max() * 8 / math.sqrt(n)
    for t, rows in zip(times, off, strict=True):
        flat = rows.reshape(n, 6)
        assert np.abs(flat.mean(axis=0)).max() < 5 * math.sqrt(S.max() * 8 / n)
        truth = np.kron(np.eye(3), S) * (t - 1)
        assert np.abs(flat.T @ flat / n - truth).max() < 8 * scale
    # What is added between two times is independent of what was there.
    added = (off[1] - off[0]).reshape(n, 6)
    assert np.abs(off[0].reshape(n, 6).T @ added / n).max() < 8 * scale
    np.testing.assert_array_equal(sde.sample(9.0, 3, 7), sde.sample(9.0, 3, 7))


MODELS = {
    "I": {"alpha": 1.0, "beta": -0.5, "K": 2, "p": 2, "model": "I"},
    "L": {"alpha": wavy, "beta": falling, "K": 3},
    "general": {
        "elasticity": lambda t: np.array([[1, t], [-1, 0.5]]),
        "K": 2,
        "p": 1,
        "model": "I",
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_euler_and_maruyama_converge_with_order_one(name):
    """Strong error at t = 2 over the same Brownian paths; the noise is additive, so not ½."""
    sde = ls.ElasticSDE(**MODELS[name])
    wide, finest, n = sde.K * sde.p, 2**12, 200
    rng = np.random.default_rng(0)
    increments = rng.standard_normal((finest, n, wide)) * math.sqrt(2 / finest)
    # Exact on paths: Y = X − W solves dY = M(Y + W)dt, by the midpoint rule on the finest grid.
    W = np.concatenate([np.zeros((1, n, wide)), np.cumsum(increments, axis=0)])
    h, Y = 2 / finest, np.tile(sde.X0.ravel(), (n, 1))
    for i in range(finest):
        M = sde.matrix((i + 0.5) * h)
        middle = (W[i] + W[i + 1]) / 2
        half = Y + h / 2 * ((Y + middle) @ M.T)
        Y = Y + h * ((half + middle) @ M.T)
    truth, steps, errors = Y + W[-1], [2**k for k in (4, 5, 6, 7)], []
    for count in steps:
        state, h = np.tile(sde.X0.ravel(), (n, 1)), 2 / count
        for i, shock in enumerate(increments.reshape(count, -1, n, wide).sum(axis=1)):
            state = euler_step(sde.matrix((i + 0.5) * h), state, h, shock)
        errors.append(np.sqrt(((state - truth) ** 2).mean()))
    order = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.08)


def test_samples_of_their_own_drift_have_the_moments_of_the_linear_equation():
    sde = ls.ElasticSDE(0.9, -0.3, 2, 1, "I", noise=0.5, drift="sample")
    n = 20_000
    found = sde.sample(2.0, n, 1, step=0.005)[:, :, 0]
    M = sde.matrix(0.0)
    grid = np.linspace(0, 2, 2001)
    spread = np.trapezoid([0.5 * expm(M * s) @ expm(M * s).T for s in grid], grid, axis=0)
    np.testing.assert_allclose(found.mean(axis=0), sde.mean(2.0)[:, 0], atol=0.04)
    np.testing.assert_allclose(np.cov(found.T), spread, atol=0.05)


def separable_by_brute_force(one, other):
    """In the plane the normal of a separating line may be turned until it touches two points."""
    rows = np.concatenate([one, other])
    gaps = (rows[:, None] - rows[None]).reshape(-1, 2)
    gaps = gaps[np.abs(gaps).sum(axis=1) > 0]
    angles = np.arctan2(gaps[:, 0], -gaps[:, 1])
    angles = np.concatenate([angles - 1e-7, angles + 1e-7])
    along = rows @ np.stack([np.cos(angles), np.sin(angles)])
    a, b = along[: len(one)], along[len(one) :]
    return bool((a.min(axis=0) > b.max(axis=0)).any())


def test_the_linear_program_agrees_with_brute_force():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        one, other = rng.standard_normal((2, 6, 2))
        other = other + rng.uniform(0, 3)
        found.append(are_separable(one, other))
        assert found[-1] == separable_by_brute_force(one, other)
    assert 40 < sum(found) < 160


def test_probability_of_separation_is_that_of_order_statistics():
    """On a line, n and n of one law are apart in 2 of (2n choose n) orders."""
    sde = ls.ElasticSDE(0.0, 0.0, 2, 1, "I", noise=1.0, X0=np.zeros((2, 1)))
    found = sde.separable(1.0, 2, repeats=3000)
    assert found.low < 1 / 3 < found.high
    assert found.high - found.low < 0.04
    assert found.probability == found.pairs


def slow(t):
    return 0.3 / ((t + math.e) * np.log(t + math.e))


@pytest.mark.parametrize(
    ("gamma", "drift", "low", "high"),
    [
        (lambda t: 1 / np.sqrt(1 + t), "mean", 1.0, 1.0),
        (slow, "mean", 0.0, 0.0),
        # The border is c/t with c = K/2.
        (lambda t: 3.0 / (1 + t), "mean", 0.95, 1.0),
        (lambda t: 0.75 / (1 + t), "mean", 0.0, 0.05),
        # Where samples move by their own features, noise grows with the means: no separation.
        (lambda t: 1 / np.sqrt(1 + t), "sample", 0.0, 0.0),
    ],
)
def test_what_separates_and_what_does_not(gamma, drift, low, high):
    sde = ls.ElasticSDE(gamma, 0.0, 3, 3, "I", noise=0.25, drift=drift)
    found = sde.separable(1e5 if drift == "mean" else 1e3, 50, repeats=20)
    assert low <= found.probability <= high


def root(t):
    return 1 / np.sqrt(1 + t)


def square(t):
    return 1 / (1 + t) ** 2


@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize(
    ("alpha", "beta", "signs", "directions", "norms"),
    [
        # B → −∞ and A − B → ∞: an ETF, whatever the signs of u_k.
        (root, lambda t: -root(t), 1, True, True),
        (root, lambda t: -root(t), -1, True, True),
        # β < 0 for ever but B > −1: each Xᵏ turns to ±d_k, its length remembers the start.
        (root, lambda t: -square(t), 1, True, False),
        (root, lambda t: -square(t), -1, False, False),
        # B → −∞, but A − B stays below 1: the start is never outgrown.
        (lambda t: square(t) - root(t), lambda t: -root(t), 1, False, False),
    ],
)
def test_when_logits_become_an_etf(alpha, beta, signs, directions, norms, K):
    """β < 0 and γ > 0, as the proposition asks, are not enough."""
    X0 = np.random.default_rng(K).standard_normal((K, K))
    u = np.arange(2.0, K + 2)
    u[0] *= signs
    X0[np.diag_indices(K)] += (u - (np.diag(X0) - X0.mean(axis=1))) * K / (K - 1)
    error, spread = ls.ElasticSDE(alpha, beta, K, X0=X0).collapse([1e4])
    assert (error[0] < 1e-4, spread[0] < 1e-4) == (directions, norms)
    assert directions or error[0] > 0.01
    assert norms or spread[0] > 0.01


BUILD = partial(ls.ElasticSDE, 1.0, 0.0)
GENERAL = ls.ElasticSDE(K=2, elasticity=np.eye(2), model="I")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: BUILD(1), "K=1 leaves nothing to tell apart"),
        (lambda: BUILD(3, 4), "p = 4 is not K = 3"),
        (lambda: BUILD(100, drift="sample").sample(1.0, 1), "K·p = 10000 is too large"),
        (lambda: BUILD(3, model="M"), "choose 'I', 'L' or give H"),
        (lambda: BUILD(3, model=np.eye(4)), "model has the shape 4 × 4; it must have 9 × 9"),
        (lambda: BUILD(2, sampling=[[0.5, 0.6], [0.5, 0.5]]), "row 0 sums to 1.1"),
        (lambda: BUILD(2, sampling=[[1.5, -0.5], [0.5, 0.5]]), "smallest entry is -0.5"),
        (lambda: BUILD(2, noise=-1), "noise=-1 is a variance"),
        (lambda: BUILD(2, noise=-np.eye(2)), "without negative eigenvalues"),
        (lambda: BUILD(2, label_noise=1.2), "is not a share"),
        (lambda: BUILD(2, drift="both"), "choose 'mean' or 'sample'"),
        (lambda: BUILD(2, X0=np.zeros((3, 2))), "X0 has the shape 3 × 2; it must have 2 × 2"),
        (lambda: ls.ElasticSDE(K=2), "Give alpha and beta, or elasticity"),
        (lambda: ls.ElasticSDE(1, elasticity=np.eye(2)), "but not both"),
        (lambda: ls.ElasticSDE([1, 2], 0, 2), "give the time of each value"),
        (lambda: ls.ElasticSDE("x", 0, 2), "alpha must be a number"),
        (lambda: ls.ElasticSDE(lambda t: 1j * t, 0, 2).mean(2.0), "its numbers are complex"),
        (lambda: BUILD(2, X0=np.eye(2) * 1j), "X0 is not an array of numbers .*complex"),
        (lambda: BUILD(2, X0=np.ma.masked_less(np.eye(2), 1)), "masked entries"),
        (lambda: ls.ElasticSDE(lambda t: 1 / (t - 1), 0, 2).mean(2.0), "alpha.t. is not finite"),
        (lambda: ls.ElasticSDE([1, 2], 0, 2, times=[0, 1]).mean(2.0), "from t = 0 to 1"),
        (lambda: BUILD(2).mean(-1.0), "before the start"),
        (lambda: BUILD(2).mean([1.0, 2e4]), "outgrow floating-point numbers by t = 20000"),
        (lambda: GENERAL.mean([1.0, 2e4]), "outgrow floating-point numbers by t = 20000"),
        (lambda: BUILD(2).mean(1e9), "too large, to be integrated up to t = 1e.09"),
        (lambda: BUILD(2).sample(1.0, 0), "n=0 is too few; give at least 1"),
        (lambda: BUILD(2, drift="sample").sample(1.0, 1, step=0), "step=0 must be a positive"),
    ],
)
def test_mistakes_are_sentences(call, said):
    with pytest.raises(ls.LawscopeError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)
