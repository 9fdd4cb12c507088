"""Estimates of α and β on trajectories whose strengths are known, written down mode by mode."""

import math

import numpy as np
import pytest

import lawscope as ls
from lawscope.theory.elastic_sde.estimate import estimate_tail

STEPS = np.arange(0.0, 400.0, 2.0)
A, B = 6 * np.sqrt(1 + STEPS / 40) - 6, -0.8 * np.log1p(STEPS / 25)


def logits(K, A, B, rng, trials=2):
    """Logits with U ∝ e^{(A−B)/K}, v ∝ e^{(A+B/(K−1))/K}; what is orthogonal to d_k is anything."""
    T = A.shape[-1]
    v = rng.standard_normal((trials, 1, K))
    v -= v.mean(axis=-1, keepdims=True)
    first = np.exp((A - B) / K)[..., None] * rng.uniform(1, 3, (trials, 1, 1))
    u = first / K + v * np.exp((A + B / (K - 1)) / K)[..., None]
    d = np.eye(K) - 1 / K
    other = rng.standard_normal((trials, T, K, K))
    along = np.einsum("rtkj,kj->rtk", other, d)
    return other + ((u - along) * K / (K - 1))[..., None] * d


def features(K, A, B, rng, trials=2, p=4):
    """Features of the I-model: the common mean and the deviations from it."""
    c = rng.standard_normal((trials, 1, K, p))
    c -= c.mean(axis=2, keepdims=True)
    centre = rng.standard_normal((trials, 1, 1, p))
    common = np.exp((A + (K - 1) * B) / K)[..., None, None]
    return common * centre + np.exp((A - B) / K)[..., None, None] * c


def trajectory(K, model, trials=2, seed=0):
    make = logits if model == "L" else features
    return ls.ElasticTrajectory(STEPS, make(K, A, B, np.random.default_rng(seed), trials))


@pytest.mark.parametrize("K", [2, 3, 5, 10])
@pytest.mark.parametrize(("model", "pooling"), [("L", "norm"), ("I", "norm"), ("I", "elements")])
def test_strengths_are_found_to_nine_digits(K, model, pooling):
    found = ls.fit_elastic(trajectory(K, model), model, pooling=pooling, window=5)
    assert found.voids == ()
    np.testing.assert_allclose(found.A, A, atol=1e-9)
    np.testing.assert_allclose(found.B, B, atol=1e-9)
    slope = 6 / (80 * np.sqrt(1 + STEPS / 40))
    np.testing.assert_allclose(found.alpha[5:-5], slope[5:-5], rtol=2e-3)
    np.testing.assert_allclose(found.beta[5:-5], -0.8 / (25 + STEPS[5:-5]), rtol=6e-3)
    assert found.verdict == "locally elastic"


def test_constants_added_to_all_logits_change_nothing():
    run = trajectory(3, "L")
    shift = 50 + 30 * np.sin(STEPS)[None, :, None, None] * np.arange(1.0, 4.0)[:, None]
    shifted = ls.fit_elastic(ls.ElasticTrajectory(STEPS, run.means + shift), window=5)
    np.testing.assert_allclose(shifted.A, A, atol=1e-9)
    np.testing.assert_allclose(shifted.B, B, atol=1e-9)


def imitation_error(alpha, beta, K, spacing, model="L"):
    steps = np.arange(0.0, 400.0, spacing)
    run = ls.ElasticTrajectory(steps, ls.ElasticSDE(alpha, beta, K).mean(steps))
    found = ls.fit_elastic(run, model, window=5)
    plain = ls.relative_difference(run, found.simulate(filtered=False))
    return found.difference.max(), plain.max()


@pytest.mark.parametrize("K", [2, 3, 5])
def test_a_model_is_imitated_by_its_own_estimate(K):
    """Exactly where the filter is exact, else with its order 2; better without it."""
    assert max(imitation_error(0.03, -0.01, K, 2.0)) < 1e-9
    varying = (lambda t: 0.05 / np.sqrt(1 + t / 40), lambda t: -0.02 / (1 + t / 25), K)
    errors = [imitation_error(*varying, spacing) for spacing in (0.5, 0.25)]
    (filtered, plain), halved = errors
    assert plain < 1e-6 < filtered < 2e-4
    assert filtered / halved[0] == pytest.approx(4, rel=0.1)
    # The estimators of the other model give other numbers, which imitate worse.
    if K > 2:
        assert min(imitation_error(*varying, 2.0, "I")) > 0.05


@pytest.mark.parametrize(("model", "K"), [("L", 3), ("I", 3), ("L", 5)])
def test_intervals_over_trials_cover(model, K):
    """Class means of n samples wander by Brownian motion; eight networks, each its own start."""
    rng, steps = np.random.default_rng(1), np.arange(0.0, 60.0, 3.0)
    A, B = 0.04 * steps, -0.02 * steps
    hits = {"A": [], "B": []}
    for _ in range(150):
        make = logits if model == "L" else features
        means = make(K, A, B, rng, trials=8)
        if model == "L":  # of equal weight, whatever was drawn
            means *= np.sqrt(K) / np.linalg.norm(means[:, :1], axis=(2, 3), keepdims=True)
        wander = (
            rng.standard_normal(means.shape) * np.sqrt(np.diff(steps, prepend=-3.0))[:, None, None]
        )
        run = ls.ElasticTrajectory(steps, means + 0.003 * np.cumsum(wander, axis=1))
        found = ls.fit_elastic(run, model, t0=0, window=5)
        if found.voids:
            continue
        for name, truth in (("A", A), ("B", B)):
            low, high = found.intervals[name][1:].T
            hits[name].append((low <= truth[1:]) & (truth[1:] <= high))
    for name, inside in hits.items():
        assert len(inside) > 120
        assert 0.90 <= np.mean(inside) <= 0.99, name


@pytest.mark.parametrize("r", [0.3, 0.5, 0.8])
def test_tail_indices(r):
    steps = np.arange(1.0, 20_001.0, 5)
    exact = estimate_tail(steps[None] ** (1 - r), steps)
    assert (exact.paper, exact.slope) == pytest.approx((r, r), abs=1e-9)
    scaled = estimate_tail(0.1 * steps[None] ** (1 - r), steps)
    # The paper's moves with the scale, by log(10)/log(t); the slope does not.
    assert scaled.paper - r == pytest.approx(math.log(10) / math.log(19_500), abs=1e-3)
    assert scaled.slope == pytest.approx(r, abs=1e-9)
    assert np.isnan(exact.slope_interval).all()
    crossing = estimate_tail(np.linspace(-1, 1, len(steps))[None] + 0.4, steps)
    assert not math.isnan(crossing.paper)
    assert math.isnan(estimate_tail(np.linspace(-1, 0.2, len(steps))[None], steps).slope)


def crossing_run():
    """U begins on the wrong side in one of three trials, and crosses zero at step 100."""
    means = trajectory(3, "L", trials=3).means.copy()
    U = ls.ElasticTrajectory(STEPS, means).U
    wanted = U[1] * np.tanh((STEPS - 101) / 30)
    means[1] += ((wanted - U[1]) / 2)[:, None, None] * (np.eye(3) - 1 / 3)
    return ls.ElasticTrajectory(STEPS, means)


def test_a_change_of_sign_voids_the_estimate_until_it_is_over():
    run = crossing_run()
    assert run.U[1, 0] < 0 < run.U[1, -1]
    void = ls.fit_elastic(run, t0=0, window=5)
    assert np.isnan(void.A).all()
    assert np.isnan(void.alpha).all()
    assert void.verdict == "no estimate"
    assert "U changes its sign up to step 100 (trial 1)" in void.voids[0]
    with pytest.raises(ls.LawscopeError, match="nothing to simulate with: U changes its sign"):
        void.simulate()
    auto = ls.fit_elastic(run, window=5)
    assert (auto.t0, auto.voids) == (102.0, ())
    # The two other trials are known from any start.
    good = ls.ElasticTrajectory(STEPS, run.means[[0, 2]])
    late = ls.fit_elastic(good, t0=102, window=5)
    np.testing.assert_allclose(late.A, A[51:] - A[51], atol=1e-9)
    # Where too little is left after the crossing there is no estimate at all.
    assert ls.fit_elastic(run, window=155).voids
    assert "against" not in auto.section().findings[0]
    backwards = ls.fit_elastic(ls.ElasticTrajectory(STEPS, -trajectory(3, "L").means), window=5)
    assert "class means moved against their labels" in backwards.section().findings[0]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_rounding_is_that_of_the_numbers(kind):
    run = ls.ElasticTrajectory([0, 1], np.zeros((2, 2, 2), kind))
    assert run.rounding == np.finfo(kind).eps


@pytest.mark.parametrize(("kind", "lost"), [(np.float64, 40.0), (np.float32, 14.0)])
def test_an_estimate_ends_where_a_mode_is_lost_in_rounding(kind, lost):
    """The mean of all classes shrinks beside the deviations, by e^B."""
    steps = np.arange(0.0, 60.0, 0.5)
    means = features(3, steps, -steps, np.random.default_rng(0)).astype(kind)
    run = ls.ElasticTrajectory(steps, means)
    found = ls.fit_elastic(run, "I", window=5)
    assert 8 < found.steps[-1] < lost
    said = f"From step {found.steps[-1] + 0.5:g} on the mean of all classes is lost in round-off"
    assert said in found.voids[0]
    # What is left is right to the precision that the rounding leaves.
    np.testing.assert_allclose(found.A, found.steps, atol=0.05)
    np.testing.assert_allclose(found.B, -found.steps, atol=0.05)
    void = ls.fit_elastic(run, "I", window=101)
    assert np.isnan(void.A).all()
    fits = len(found.steps) - 1 + len(found.steps) % 2
    assert f"there is no estimate; give window={fits}, record in float64" in void.voids[0]
    assert void.verdict == "no estimate"
    assert np.isfinite(ls.fit_elastic(run, "I", window=fits).A).all()


def test_means_that_stay_zero_are_said_to_be_so():
    found = ls.fit_elastic(np.zeros((200, 3, 3)))
    assert found.voids[0].startswith("U is zero: ")
    assert "From step 0 on U and v are lost in round-off" in found.voids[1]
    assert np.isnan(found.A).all()


def test_results_come_back_and_show_themselves(tmp_path):
    run = trajectory(3, "L")
    found = ls.fit_elastic(run, window=5)
    sde = ls.ElasticSDE(1.0, 0.0, 3, model="I", noise=1.0)
    phases = ls.elastic_phases(sde, [1.0, 5.0], [0.0, 0.9], n=5, repeats=3)
    for name, result in {"run": run, "fit": found, "phases": phases}.items():
        for form in (".lawscope.json", ".html"):
            assert ls.load(result.save(tmp_path / f"{name}{form}")) == result
        assert len(result.table())
        assert result.plot() is not None
        assert "\n" not in str(result)
        assert repr(result).startswith(f"<{type(result).__name__}: ")
    assert "Zhang" in (tmp_path / "fit.html").read_text(encoding="utf-8")


def test_classes_of_one_mean_have_no_distance_to_compare_noise_with(tmp_path):
    sde = ls.ElasticSDE(1.0, 0.0, 3, model="I", noise=1.0, X0=np.ones((3, 3)))
    with np.errstate(all="raise"):
        phases = ls.elastic_phases(sde, [1.0, 5.0], n=5, repeats=2)
    assert np.isinf(phases.spread).all()
    assert ls.load(phases.save(tmp_path / "phases.html")) == phases


def wrong(**changes):
    given = {"steps": STEPS, "means": np.zeros((200, 3, 3))} | changes
    return lambda: ls.ElasticTrajectory(**given)


NAN = np.zeros((200, 3, 3))
NAN[7:9, 1] = np.nan
GONE = np.zeros((200, 3, 3))
GONE[:, 2] = np.nan


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (wrong(means=NAN), "class 1 is not finite at step 14 of trial 0"),
        (wrong(means=GONE), "Class 2 has no means at any step"),
        (wrong(means=np.zeros((200, 1, 3))), "of one class"),
        (wrong(means=np.ones((200, 3, 3)) * 1j), "its numbers are complex"),
        (wrong(means=np.zeros((200, 3))), "trials × times × classes × features"),
        (wrong(means=np.zeros((20, 3, 3))), "20 times, but there are 200 steps"),
        (wrong(steps=np.zeros(200)), "each later than the one before"),
        (wrong(classes=("a", "b")), "2 classes are named"),
        (lambda: ls.ElasticTrajectory(STEPS, np.zeros((200, 3, 4))).U, "p = 4 is not K = 3"),
        (lambda: ls.fit_elastic(np.zeros((200, 3, 4))), "4 features and 3 classes"),
        (lambda: ls.fit_elastic(trajectory(3, "L").means[:, :90]), "give window=89"),
        (lambda: ls.fit_elastic(trajectory(3, "L"), t0=300, window=101), "give window=49"),
        (lambda: ls.fit_elastic(trajectory(3, "L"), t0=9999), r"0 times .*; begin earlier\.$"),
        (lambda: ls.fit_elastic(trajectory(3, "L"), window=150), "must be odd"),
        (lambda: ls.fit_elastic(np.ones((3, 3, 3)), order=3), "too few for a filter of order 3"),
        (lambda: ls.fit_elastic(trajectory(3, "L"), pooling="elements"), "is of the I-model"),
        (lambda: ls.fit_elastic(trajectory(3, "L"), "M"), "choose 'I' or 'L'"),
        (
            lambda: ls.fit_elastic(
                ls.ElasticTrajectory(STEPS**2, trajectory(3, "L").means), window=5
            ),
            "recorded at equal distances",
        ),
        (lambda: ls.elastic_phases("sde", [1.0]), "give an ElasticSDE"),
    ],
)
def test_mistakes_are_sentences(call, said):
    with pytest.raises(ls.LawscopeError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)
