"""The theory of representation alignment, against definitions written out a second time."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import ortho_group, pearsonr

import lawscope as ls

theory = ls.theory.representation
NAMES = theory.RELATIONS
# Table 1 of Ziyin, Chuang et al. (2024) as printed: exponents (α, β, δ) of H^α ∝ Z^β ∝ G^δ,
# backward and forward.
PRINTED = {
    "4": ((1, 0, 1), (1, 1, -1)),
    "5": ((3, 3, 1), (1, 2, 1)),
    "6": ((1, 2, 1), (1, 3, 3)),
    "7": ((-1, 1, 1), (1, 0, 1)),
    "8": ((2, 2, 1), (1, 2, 2)),
    "9": ((1, 0, 0), (0, 0, 1)),
}
SLOPED = ["backward CRH", "forward CRH", *"456789"]


def moment(size, seed, rank=None):
    """Draw a second moment with a spectrum of a trained layer's kind."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(size, rank or 2 * size)) * np.geomspace(1, 0.1, size)[:, None]
    return factor @ factor.T


def layer(outputs=5, inputs=7, seed=0):
    """Draw a layer that is in no phase."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(outputs, inputs)), moment(inputs, seed + 1), moment(outputs, seed + 2)


def sides(W, H_a, G_b):
    """Return H, G and Z of both sides, as the relations name them."""
    return {
        "backward": {"H": H_a, "G": W.T @ G_b @ W, "Z": W.T @ W},
        "forward": {"H": W @ H_a @ W.T, "G": G_b, "Z": W @ W.T},
    }


PAIRS = {"RGA": "HG", "RWA": "HZ", "GWA": "GZ"}


def oracle(W, H_a, G_b, measure):
    """Compute the six alignments with scipy on flattened matrices."""
    found = {}
    for side, matrices in sides(W, H_a, G_b).items():
        for name, (one, other) in PAIRS.items():
            A, B = matrices[one].ravel(), matrices[other].ravel()
            cosine = A @ B / math.sqrt((A @ A) * (B @ B))
            found[f"{side} {name}"] = pearsonr(A, B)[0] if measure == "pearson" else cosine
    return found


@pytest.mark.parametrize("measure", ["pearson", "cosine"])
@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (4, 4)])
def test_alignments_are_those_of_flattened_matrices(shape, measure):
    case = layer(*shape)
    found = theory.compute_alignments(*case, measure=measure)
    assert found == pytest.approx(oracle(*case, measure), abs=1e-12)
    assert tuple(found) == NAMES


def test_measured_moments_replace_the_derived_ones():
    W, H_a, G_b = layer()
    H_b, G_a = moment(5, 8), moment(7, 9)
    found = theory.compute_alignments(W, H_a, G_b, H_b=H_b, G_a=G_a)
    assert found["forward RGA"] == pytest.approx(theory.align(H_b, G_b))
    assert found["backward RGA"] == pytest.approx(theory.align(H_a, G_a))
    assert found["backward RWA"] == pytest.approx(theory.align(H_a, W.T @ W))


def test_cosine_does_not_see_rotations_and_neither_sees_scale():
    W, H_a, G_b = layer(6, 6)
    P, Q = (ortho_group.rvs(6, random_state=seed) for seed in (1, 2))
    turned = 3 * P @ W @ Q.T, 5 * Q @ H_a @ Q.T, 7 * P @ G_b @ P.T
    cosine = theory.compute_alignments(W, H_a, G_b, measure="cosine")
    assert theory.compute_alignments(*turned, measure="cosine") == pytest.approx(cosine)
    scaled = theory.compute_alignments(3 * W, 5 * H_a, 7 * G_b)
    assert scaled == pytest.approx(theory.compute_alignments(W, H_a, G_b))


@pytest.mark.parametrize("measure", ["pearson", "cosine"])
@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (1, 6), (100, 70)])
def test_the_null_is_that_of_rotated_moments(shape, measure):
    # Small sizes by the Haar measure, large by the transform; here always Haar, in full.
    W, H_a, G_b = layer(*shape)
    few, many = (200, 400) if max(shape) < 20 else (40, 40)
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(many):
        Q = ortho_group.rvs(shape[1], random_state=rng)
        P = ortho_group.rvs(shape[0], random_state=rng) if shape[0] > 1 else np.eye(1)
        samples.append(theory.compute_alignments(W, Q @ H_a @ Q.T, P @ G_b @ P.T, measure=measure))
    found = theory.compute_null(W, H_a, G_b, draws=few, measure=measure)
    assert set(found) == set(samples[0])
    for name, (mean, sd) in found.items():
        brute = np.array([each[name] for each in samples])
        error = brute.std() * math.sqrt(1 / few + 1 / many)
        assert mean == pytest.approx(brute.mean(), abs=4.5 * error + 1e-12)
        assert sd == pytest.approx(brute.std(), rel=0.5 if few < 100 else 0.25, abs=1e-12)


def test_what_others_send_back_is_rotated_by_itself_in_the_null():
    W, H_a, G_b = layer(6, 8)
    factor = np.random.default_rng(4).normal(size=(8, 8))
    others = factor @ factor.T
    G_a = W.T @ G_b @ W + others
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(300):
        Q, R = ortho_group.rvs(8, random_state=rng), ortho_group.rvs(8, random_state=rng)
        P = ortho_group.rvs(6, random_state=rng)
        G = P @ G_b @ P.T
        back = W.T @ G @ W + R @ others @ R.T
        samples.append(theory.compute_alignments(W, Q @ H_a @ Q.T, G, G_a=back))
    null = theory.compute_null(W, H_a, G_b, G_a=G_a, draws=300)
    for name, (mean, sd) in null.items():
        brute = np.array([each[name] for each in samples])
        assert mean == pytest.approx(brute.mean(), abs=4.5 * brute.std() * math.sqrt(2 / 300))
        assert sd == pytest.approx(brute.std(), rel=0.25)


@pytest.mark.parametrize("measure", ["pearson", "cosine"])
def test_what_was_learned_takes_the_place_of_the_weight_in_z(measure):
    W, H_a, G_b = layer(6, 8)
    start = np.random.default_rng(9).normal(size=W.shape)
    change = W - 0.3 * start
    found = theory.compute_alignments(W, H_a, G_b, change=change, measure=measure)
    expected = {
        "backward RWA": (H_a, change.T @ change),
        "backward GWA": (W.T @ G_b @ W, change.T @ change),
        "forward RWA": (W @ H_a @ W.T, change @ change.T),
        "forward GWA": (G_b, change @ change.T),
    }
    for name, pair in expected.items():
        assert found[name] == pytest.approx(theory.align(*pair, measure))
    whole = theory.compute_alignments(W, H_a, G_b, measure=measure)
    assert found["forward RGA"] == pytest.approx(whole["forward RGA"])
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(300):
        Q, P = ortho_group.rvs(8, random_state=rng), ortho_group.rvs(6, random_state=rng)
        samples.append(
            theory.compute_alignments(
                W, Q @ H_a @ Q.T, P @ G_b @ P.T, change=change, measure=measure
            )
        )
    null = theory.compute_null(W, H_a, G_b, change=change, draws=300, measure=measure)
    for name, (mean, sd) in null.items():
        brute = np.array([each[name] for each in samples])
        assert mean == pytest.approx(brute.mean(), abs=4.5 * brute.std() * math.sqrt(2 / 300))
        assert sd == pytest.approx(brute.std(), rel=0.25)
    same = theory.compute_null(W, H_a, G_b, change=W, measure=measure)
    plain = theory.compute_null(W, H_a, G_b, measure=measure)
    for name in NAMES:
        assert same[name] == pytest.approx(plain[name])


def test_the_null_of_a_cosine_has_a_closed_mean():
    # E Q H Qᵀ = Tr H/d over the Haar measure, so E Tr(QHQᵀZ) = Tr H·Tr Z/d.
    W, H_a, G_b = layer(80, 80)
    Z = W.T @ W
    expected = np.trace(H_a) * np.trace(Z) / 80 / np.linalg.norm(H_a) / np.linalg.norm(Z)
    mean, sd = theory.compute_null(W, H_a, G_b, measure="cosine", draws=200)["backward RWA"]
    assert mean == pytest.approx(expected, abs=4 * sd / math.sqrt(200))
    assert sd < 0.05


def test_some_alignment_is_there_by_construction():
    W, H_a, _ = layer(40, 40)
    null = theory.compute_null(W, H_a, np.eye(40) + moment(40, 5))
    assert null["backward GWA"][0] > null["backward RWA"][0] + 0.2
    assert null["forward RWA"][0] > null["forward GWA"][0] + 0.2


def test_excess():
    assert theory.compute_excess(1.0, 0.6) == 1
    assert theory.compute_excess(0.6, 0.6) == 0
    assert theory.compute_excess(0.2, 0.6) == pytest.approx(-1)


# -- phases --


def implied(p, q):
    """Return the alignments of exponents: equal powers of z on the same side."""
    powers = {
        "backward": {"H": p, "G": q + 1, "Z": 1},
        "forward": {"H": p + 1, "G": q, "Z": 1},
    }
    return tuple(
        f"{side} {name}"
        for side, each in powers.items()
        for name, (one, other) in PAIRS.items()
        if each[one] == each[other]
    )


@pytest.mark.parametrize("back", NAMES[:3])
@pytest.mark.parametrize("forward", NAMES[3:])
def test_the_table_has_every_pair_of_a_backward_and_a_forward_relation(back, forward):
    grid = itertools.product(range(-3, 4), repeat=2)
    points = [point for point in grid if {back, forward} <= set(implied(*point))]
    (phase,) = [each for each in theory.PHASES.values() if {*each.relations} == {back, forward}]
    assert points == ([] if phase.point is None else [phase.point])


@pytest.mark.parametrize("name", SLOPED)
def test_relations_of_a_phase_are_those_that_its_exponents_imply(name):
    phase = theory.PHASES[name]
    assert theory.find_relations(*phase.point) == implied(*phase.point) == phase.relations


@pytest.mark.parametrize("name", PRINTED)
def test_exponents_agree_with_the_printed_table(name):
    p, q = theory.PHASES[name].point
    for (a, b, d), (h, g) in zip(PRINTED[name], ((p, q + 1), (p + 1, q)), strict=True):
        assert a * h == b * 1 == d * g


def test_forward_exponents_of_the_talks_transformer():
    assert [theory.PHASES[name].alpha for name in ("6", "8", "5", "forward CRH")] == [3, 2, 1, 1]
    assert theory.PHASES["9"].alpha is None


@pytest.mark.parametrize("name", theory.PHASES)
def test_synthetic_layers_have_the_relations_of_their_phase(name):
    case = theory.make_layer(name, 12, seed=3)
    found = theory.compute_alignments(*case)
    assert all(found[each] == pytest.approx(1) for each in theory.PHASES[name].relations)
    if theory.PHASES[name].point is not None:
        others = set(NAMES) - set(theory.PHASES[name].relations)
        assert all(found[each] < 0.98 for each in others)


@pytest.mark.parametrize("name", SLOPED)
def test_synthetic_layers_are_classified(name):
    W, H_a, G_b = theory.make_layer(name, 20, seed=1)
    fit = theory.fit_exponents(W, H_a, G_b)
    assert (fit.p, fit.q) == pytest.approx(theory.PHASES[name].point, abs=1e-8)
    assert fit.commutator_h == pytest.approx(0, abs=1e-6)
    assert fit.directions == 20
    label = theory.PHASES.classify(
        fit.p, fit.q, fit.r2_p, fit.r2_q,
        commutator_h=fit.commutator_h, commutator_g=fit.commutator_g,
    )  # fmt: skip
    assert label.phase == label.nearest == name
    assert label.reason == ""


@pytest.mark.parametrize("name", SLOPED)
def test_noise_keeps_the_label_and_rotation_loses_it(name):
    W, H_a, G_b = theory.make_layer(name, 30, seed=2)
    rng = np.random.default_rng(5)

    def shake(matrix):
        values, vectors = np.linalg.eigh(matrix)
        return (vectors * values * np.exp(0.2 * rng.normal(size=30))) @ vectors.T

    def label(*case):
        fit = theory.fit_exponents(*case)
        return theory.PHASES.classify(
            fit.p, fit.q, fit.r2_p, fit.r2_q,
            commutator_h=fit.commutator_h, commutator_g=fit.commutator_g,
        )  # fmt: skip

    assert label(W, shake(H_a), shake(G_b)).phase == name
    P, Q = (ortho_group.rvs(30, random_state=seed) for seed in (1, 2))
    lost = label(W, Q @ moment(30, 3) @ Q.T, P @ moment(30, 4) @ P.T)
    assert lost.phase is None
    assert lost.reason


@pytest.mark.parametrize("name", ["1", "2", "3", "CRH"])
def test_exponents_refuse_a_flat_weight(name):
    with pytest.raises(ls.LawscopeError, match=r"flat for exponents"):
        theory.fit_exponents(*theory.make_layer(name, 12, seed=0))


def test_exponents_refuse_rank_one():
    W, H_a, G_b = layer()
    with pytest.raises(ls.LawscopeError, match=r"1 singular direction of 5 carries"):
        theory.fit_exponents(np.outer(W[:, 0], W[0]), H_a, G_b)


def test_exponents_are_lines_of_numpy():
    W, H_a, G_b = layer(9, 6)
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    logs = [np.log(np.diag(Vt @ H_a @ Vt.T)), np.log(np.diag(U.T @ G_b @ U))]
    fit = theory.fit_exponents(W, H_a, G_b, cut=1e-9)
    z = np.log(s**2)
    assert [fit.p, fit.q] == pytest.approx([np.polyfit(z, each, 1)[0] for each in logs])
    squares = [np.corrcoef(z, each)[0, 1] ** 2 for each in logs]
    assert [fit.r2_p, fit.r2_q] == pytest.approx(squares)
    assert fit.alpha == pytest.approx((fit.p + 1) / fit.q)
    # On the range of W, of which there are 6 directions among 9.
    Z, G = W @ W.T, U @ U.T @ G_b @ U @ U.T
    share = np.trace(G @ Z @ G @ Z) / np.linalg.norm(G @ Z) ** 2
    assert fit.commutator_g == pytest.approx(math.sqrt(1 - share))
    assert fit.commutator_g == pytest.approx(
        np.linalg.norm(G @ Z - Z @ G) / np.linalg.norm(G @ Z) / math.sqrt(2)
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((1, 1, 0.9, 0.5), r"G_b follows no power of z: R² = 0.5, not above 0.7"),
        ((1, 1, 0.5, 0.9), r"H_a follows no power of z"),
        ((1.5, 1.5, 0.9, 0.9), r"\(1.5, 1.5\) is 0.71 from phase"),
        ((0.1, 0.1, 0.1, 0.1), r"H_a follows no power of z: R² = 0.1.*; G_b follows"),
    ],
)
def test_no_phase_comes_with_the_reason(arguments, says):
    label = theory.PHASES.classify(*arguments)
    assert label.phase is None
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(label.reason)


def test_a_zero_exponent_is_judged_by_the_commutator():
    near = {"commutator_h": 0.1, "commutator_g": 0.1}
    assert theory.PHASES.classify(0.1, 0.1, 0.1, 0.1, **near).phase == "9"
    far = theory.PHASES.classify(0.1, 0.1, 0.1, 0.1, commutator_h=0.1, commutator_g=0.5)
    assert far.phase is None
    assert "G_b is flat along W but does not commute with Z: 0.5" in far.reason


# -- the master theorem --


def proportional(A, B):
    """Return whether A = cB, c > 0."""
    return np.allclose(A / np.trace(A), B / np.trace(B), atol=1e-8)


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_implied_alignments_are_those_of_layers_made_to_have_the_given(size):
    for relations in itertools.combinations(NAMES, size):
        case = theory.make_related_layer(relations, 12, seed=2)
        found = theory.compute_alignments(*case, measure="cosine")
        held = tuple(name for name in NAMES if found[name] > 1 - 1e-9)
        assert set(relations) <= set(held)
        assert theory.find_implied(relations) == held


def test_the_master_theorem():
    for side in (NAMES[:3], NAMES[3:]):
        assert all(theory.find_implied(two) == side for two in itertools.combinations(side, 2))
    for back, forward in itertools.product(NAMES[:3], NAMES[3:]):
        assert theory.find_implied([back, forward]) == (back, forward)
        for extra in set(NAMES) - {back, forward}:
            assert theory.find_implied([back, forward, extra]) == NAMES


def test_all_six_make_a_projection():
    W, H_a, G_b = theory.make_layer("CRH", 12, seed=0)
    for each in sides(W, H_a, G_b).values():
        assert proportional(each["H"], each["G"])
        assert proportional(each["H"], each["Z"])
        P = each["Z"]
        assert pytest.approx(P) == P @ P
        assert np.trace(P) == pytest.approx(6)


# -- spectra --


def test_spectra_matched_and_sorted():
    basis = ortho_group.rvs(15, random_state=0)
    g = np.geomspace(1, 1e-2, 15)
    G, H = (basis * g) @ basis.T, (basis * g**1.5) @ basis.T
    fit = theory.fit_spectra(H, G, cut=1e-4)
    for line in (fit.sorted, fit.in_g, fit.in_h):
        assert (line.slope, line.r2) == pytest.approx((1.5, 1))
    other = ortho_group.rvs(15, random_state=1)
    apart = theory.fit_spectra(other @ H @ other.T, G, cut=1e-4)
    assert (apart.sorted.slope, apart.sorted.r2) == pytest.approx((1.5, 1))
    assert apart.in_g.r2 < 0.5
    assert apart.in_h.r2 < 0.5


def test_effective_rank():
    assert theory.effective_rank99(np.eye(100)) == 99
    assert theory.effective_rank99(np.eye(10)) == 10
    assert theory.effective_rank99(np.diag([1.0, 1e-3, 1e-4])) == 1
    assert theory.effective_rank99(np.diag([1.0, 1e-2, 1e-3])) == 2


# -- fluctuation and dissipation --


@pytest.mark.parametrize("step", [0.01, 0.5, 1.0])
def test_einstein_relation_of_a_simulated_particle(step):
    mu, D = 1.0, 0.3
    rng = np.random.default_rng(0)
    x = np.zeros(100_000)
    for _ in range(int(8 / step) + 1):
        x = (1 - mu * step) * x + math.sqrt(D * step) * rng.normal(size=len(x))
    assert theory.einstein_diffusion(mu, float(np.mean(x**2)), step) == pytest.approx(D, rel=0.015)


def test_einstein_relation_in_continuous_time():
    assert theory.einstein_diffusion(3.0, 2.0) == 12
    assert theory.einstein_diffusion(3.0, 2.0, 1e-9) == pytest.approx(12)


def sgd_averages(steps=4000, decay=0.05, rate=0.05):
    """Run SGD on a linear regression and average every term of the balance over time."""
    rng = np.random.default_rng(0)
    truth, W = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    sums = np.zeros((3, 2, 2))
    for step in range(-1000, steps):
        x = rng.normal(size=(3, 4))
        g = W @ x - truth @ x - 0.5 * rng.normal(size=(2, 4))
        F = g @ x.T / 4 + decay * W
        if step == 0:
            start, sums = W @ W.T, 0 * sums
        sums += np.stack([g @ (W @ x).T / 4, W @ W.T, F @ F.T])
        W = W - rate * F
    cross, Z, noise = sums / steps
    return cross, Z, noise, (W @ W.T - start) / (steps * rate), decay, rate


def test_fluctuation_dissipation_holds_along_sgd():
    cross, Z, noise, drift, decay, rate = sgd_averages()
    kwargs = {"learning_rate": rate, "noise": noise}
    balance = theory.fluctuation_dissipation
    assert balance(cross, Z, decay, **kwargs, drift=drift) == pytest.approx(0, abs=1e-10)
    # Without drift only nearly; without noise a good part is missing.
    assert balance(cross, Z, decay, **kwargs) < 0.1
    assert balance(cross, Z, decay) > 2 * balance(cross, Z, decay, **kwargs)
    assert balance(-cross, Z, decay) > 1


def test_stationary_fit():
    Z, G, H = np.diag([2.0, 1.0, 3.0]), np.diag([1.0, 2.0, 0.0]), np.eye(3)
    exact = theory.fit_stationary(Z, G, (Z + 0.5 * G) / 4)
    assert (exact.plus, exact.minus) == pytest.approx((0.5, 4))
    assert exact.residual == pytest.approx(0, abs=1e-12)
    # The constants may not be negative: then least squares with one column.
    pushed = theory.fit_stationary(Z, -Z + 5 * H, H)
    assert pushed.plus == 0 or pushed.residual < 1e-6
    grid = np.linspace(0, 6, 241)
    found = theory.fit_stationary(Z, moment(3, 1), moment(3, 2))
    A, B = moment(3, 1), moment(3, 2)
    brute = min(np.linalg.norm(Z + c * A - e * B) for c in grid for e in grid) / np.linalg.norm(Z)
    assert found.residual == pytest.approx(brute, abs=2e-3)
    assert found.residual <= brute + 1e-12


# -- mistakes --

GOOD = layer()
BAD = {
    "a vector": ((GOOD[0][0], GOOD[1], GOOD[2]), r"weight must be a matrix"),
    "nan": ((GOOD[0], GOOD[1] * np.nan, GOOD[2]), r"H_a must be a matrix of finite numbers"),
    "swapped": ((GOOD[0], GOOD[2], GOOD[1]), r"H_a is 5×5; it must be 7×7"),
    "not square": ((GOOD[0], GOOD[1][:3], GOOD[2]), r"H_a is 3×7; it must be 7×7"),
    "not symmetric": ((GOOD[0], GOOD[1], np.triu(GOOD[2])), r"G_b is not symmetric"),
    "no gradient": ((GOOD[0], GOOD[1], 0 * GOOD[2]), r"G_b is zero: no gradient reaches"),
    "no signal": ((GOOD[0], 0 * GOOD[1], GOOD[2]), r"H_a is zero: nothing reaches"),
    "no weight": ((0 * GOOD[0], GOOD[1], GOOD[2]), r"weight is zero"),
    "negative": ((GOOD[0], -GOOD[1], GOOD[2]), r"H_a has -.* on its diagonal"),
}


@pytest.mark.parametrize("call", ["compute_alignments", "compute_null", "fit_exponents"])
@pytest.mark.parametrize("mistake", BAD)
def test_mistakes_in_a_layer_are_sentences(call, mistake):
    arguments, says = BAD[mistake]
    with pytest.raises(ls.LawscopeError, match=says):
        getattr(theory, call)(*arguments)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: theory.align(np.ones((2, 2)), np.eye(2)), r"All entries of A are equal"),
        (lambda: theory.align(np.zeros((2, 2)), np.eye(2), "cosine"), r"A is zero"),
        (lambda: theory.align(np.eye(2), np.eye(3)), r"B is 3×3; it must be 2×2"),
        (lambda: theory.align(np.eye(2), np.eye(2), "dot"), r"measure='dot' is unknown"),
        (lambda: theory.compute_alignments([[1]], [[1]], [[1]]), r"weight is 1×1"),
        (lambda: theory.compute_null([[1]], [[1]], [[1]]), r"weight is 1×1"),
        (lambda: theory.compute_null(*GOOD, draws=1), r"draws=1 gives no spread"),
        (lambda: theory.compute_null(*GOOD, change=GOOD[1]), r"change is 7×7; it must be 5×7"),
        (lambda: theory.compute_alignments(*GOOD, change=0 * GOOD[0]), r"change is zero"),
        (lambda: theory.compute_null(*GOOD, seed=-1), r"seed=-1 is negative"),
        (lambda: theory.compute_excess(2.0, 0.5), r"raw=2.0 is not an alignment"),
        (lambda: theory.compute_excess(0.5, math.nan), r"null must be a finite number"),
        (lambda: theory.compute_excess(0.5, 1.0), r"null is 1: every rotation aligns"),
        (lambda: theory.fit_exponents(*GOOD, cut=1.0), r"cut is 1; give a share"),
        (lambda: theory.fit_exponents(*GOOD, cut=0), r"cut is 0; give more than 0"),
        (lambda: theory.fit_spectra(np.eye(4), np.eye(4)), r"too flat for an exponent"),
        (lambda: theory.fit_spectra(np.diag([1.0, 0, 0]), np.eye(3)), r"1 of 3 directions carry"),
        (lambda: theory.effective_rank99(np.zeros((2, 2))), r"H is zero"),
        (lambda: theory.make_layer("10", 8, 0), r"phase='10' is unknown"),
        (lambda: theory.make_layer("4", 3, 0), r"d=3 leaves no spectrum"),
        (lambda: theory.PHASES.classify(math.nan, 1, 1, 1), r"must be a row of finite"),
        (lambda: theory.PHASES.classify(1, 1, 2, 1), r"r2_p is 2; an R² is at most 1"),
        (lambda: theory.make_related_layer(["RGA"], 8, 0), r"'RGA' is not an alignment"),
        (lambda: theory.find_implied(["forward"]), r"'forward' is not an alignment"),
        (lambda: theory.einstein_diffusion(1, 1, 2), r"friction·step is 2"),
        (lambda: theory.einstein_diffusion(-1, 1), r"friction is -1"),
        (
            lambda: theory.fluctuation_dissipation(np.eye(3), np.eye(2), 0.1),
            r"cross is 3×3; it must be 2×2",
        ),
        (lambda: theory.fluctuation_dissipation(np.eye(2), np.eye(2), 0), r"decay is 0"),
        (
            lambda: theory.fluctuation_dissipation(np.eye(2), np.eye(2), 1, noise=np.eye(2)),
            r"learning_rate is 0",
        ),
        (lambda: theory.fit_stationary(np.eye(2), np.eye(3), np.eye(2)), r"plus is 3×3"),
    ],
)
def test_mistakes_are_sentences(call, says):
    with pytest.raises(ls.LawscopeError, match=says):
        call()


def test_a_side_of_one_unit_is_left_out():
    found = theory.compute_alignments(*layer(1, 4))
    assert list(found) == list(NAMES[:3])
    assert set(theory.compute_null(*layer(1, 4))) == set(found)


def test_the_table_of_phases_as_a_frame():
    frame = theory.PHASES.table().set_index("phase")
    assert len(frame) == len(theory.PHASES) == 12
    assert list(frame.loc["5", ["p", "q", "α"]]) == [1, 2, 1.0]
    assert frame.loc["6", "α"] == 3
