"""Two groups from two unknowns: against the general solver and its certificate."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lawscope as ls
from lawscope.theory.layer_peeled import peeled, two_groups
from lawscope.theory.layer_peeled.program import Program, gap, nuclear_norm, slope_norm
from lawscope.theory.layer_peeled.solve import solve
from lawscope.theory.layer_peeled.two_groups import Pair, solve_pair

SIZES = [(1, 1), (1, 4), (4, 1), (5, 5), (3, 7), (2, 90), (90, 2)]


def pair_of(A, B, ratio, length):
    """K_A classes of weight R, K_B of weight 1."""
    share = 1 / (A + B / ratio)
    return Pair(float(A), float(B), share, share / ratio, (A + B) * length)


def program_of(pair):
    """The same as a program of the general solver."""
    sizes, alpha = np.array(pair[:2]), np.array(pair[2:4])
    return Program(sizes, alpha, np.zeros(2), 0.0, pair.tau)


@settings(max_examples=300, deadline=None)
@given(
    A=st.integers(1, 1000),
    B=st.integers(1, 1000),
    log_ratio=st.one_of(st.floats(0, 12), st.floats(0, 0.1)),
    log_length=st.floats(math.log10(0.05), math.log10(50)),
)
def test_every_optimum_is_certified(A, B, log_ratio, log_length):
    pair = pair_of(A, B, 10**log_ratio, 10**log_length)
    found = two_groups.solve_few(program_of(pair))
    assert found is not None
    alone, point, program = solve_pair(pair), found.point, program_of(pair)
    assert nuclear_norm(program, point.a, point.M) == pytest.approx(pair.tau, rel=1e-12)
    # Loss, certificate and price as the general program computes them, from the point alone.
    assert alone.loss == pytest.approx(point.loss, rel=1e-12)
    assert gap(program, point) <= 1e-9 * point.loss
    assert found.gap <= 1e-9 * point.loss
    assert alone.price == pytest.approx(slope_norm(program, point), rel=1e-10)


@pytest.mark.parametrize(("A", "B"), SIZES)
def test_lengths_of_classifiers_need_no_matrix(A, B):
    pair = pair_of(A, B, 7.0, 1.3)
    rows = peeled.pair_rows(pair, (7.0, 1.0), solve_pair(pair))
    root = peeled.root_gram(two_groups.solve_few(program_of(pair)).point.M)
    np.testing.assert_allclose([row[-1] for row in rows], root.diagonal(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("A", "B"), SIZES)
@pytest.mark.parametrize("ratio", [1.2, 30.0, 1e6])
def test_agrees_with_the_central_path(A, B, ratio):
    pair = pair_of(A, B, ratio, 1.0)
    other = solve(program_of(pair))
    found = solve_pair(pair)
    # Both are feasible, so each is above what the other's certificate allows.
    assert found.loss <= other.point.loss * (1 + 1e-12)
    assert other.point.loss - other.gap <= found.loss * (1 + 1e-12)
    np.testing.assert_allclose([found.a_major, found.a_minor], other.point.a, atol=1e-3)


@pytest.mark.parametrize("length", [1e-3, 0.05, 0.3, 2.0, 50.0, 200.0])
def test_extreme_energies_and_ratios_need_no_general_solver(length):
    for A, B in SIZES:
        for ratio in (1.0, 3.0, 1e3, 1e12):
            found = solve_pair(pair_of(A, B, ratio, length))
            assert found is not None
            assert found.gap <= 1e-9 * found.loss


def test_equal_weights_are_a_simplex():
    found = solve_pair(pair_of(3, 5, 1.0, 2.0))
    tau, K = 16.0, 8
    assert found.loss == pytest.approx(math.log1p((K - 1) * math.exp(-tau / (K - 1))), rel=1e-14)
    assert found.a_major == pytest.approx(tau / (K - 1), rel=1e-13)


@pytest.mark.parametrize(("A", "B", "length"), [(100, 2, 15.4), (100, 1, 7.57), (999, 2, 18.0)])
def test_minority_that_hardly_lives(A, B, length):
    edge = two_groups.find_vanishing_ratio(A, B, (A + B) * length)
    for factor, alive in ((1 - 1e-3, True), (1 + 1e-3, False)):
        found = solve_pair(pair_of(A, B, edge * factor, length))
        assert found.gap <= 1e-10 * found.loss
        assert (found.m_minor > 0) == alive


def test_poor_certificate_falls_back_to_the_central_path(monkeypatch):
    exact = ls.peel([30] * 4 + [1] * 3)
    steps = exact._solution.solved.steps
    monkeypatch.setattr(two_groups, "GOOD", -1.0)
    other = ls.peel([30] * 4 + [1] * 3)
    assert other._solution.solved.steps > 0 == steps
    assert other.loss == pytest.approx(exact.loss, rel=1e-9)


def test_class_weights_only_change_the_weights():
    weighted = ls.peel([50] * 3 + [2] * 4, loss="class_weighted", class_weights=[1] * 3 + [5] * 4)
    plain = ls.peel([50] * 3 + [10] * 4)
    assert weighted.loss == pytest.approx(plain.loss, rel=1e-13)
    assert weighted.gap <= 1e-12 * weighted.loss


@pytest.mark.parametrize(
    ("K", "A", "energy"), [(10, 5, 5.0), (10, 7, 0.2), (2, 1, 3.0), (9, 8, 1.0)]
)
def test_sweep_is_its_points(K, A, energy):
    sweep = ls.peel_sweep([1, 1.5, 10, 100, 1e4, 1e12], K, A, 1.0, energy)
    assert (sweep.gaps <= 1e-9).all()
    for i, point in enumerate(sweep.points):
        assert point.loss == pytest.approx(sweep.losses[i], rel=1e-12)
        assert point.groups[-1].phase == sweep.phases[i]
        if sweep.ratios[i] > 1:  # at 1 the smallest group is all classes
            assert point.groups[-1].cosine == pytest.approx(sweep.cosines[i], abs=1e-9, nan_ok=True)
    document = sweep.to_dict()
    assert (document["ratios"][0], document["threshold"]) == (1.0, sweep.threshold)
    assert type(sweep).from_dict(document) == sweep


def test_sweep_of_another_loss_solves_point_by_point():
    sweep = ls.peel_sweep([1, 30], 6, 3, loss="logit_adjusted")
    expected = ls.peel([30] * 3 + [1] * 3, loss="logit_adjusted")
    assert sweep.losses[1] == pytest.approx(expected.loss, rel=1e-12)


def test_sweep_solves_a_poor_point_on_its_own(monkeypatch):
    expected = ls.peel_sweep([2.0, 40.0])
    monkeypatch.setattr(two_groups, "GOOD", -1.0)
    again = ls.peel_sweep([2.0, 40.0])
    np.testing.assert_allclose(again.losses, expected.losses, rtol=1e-9)
    np.testing.assert_allclose(again.cosines, expected.cosines, atol=1e-4)
    assert again.phases == expected.phases


def test_prediction_survives_pickling():
    found = ls.peel([30] * 4 + [1] * 3)
    again = pickle.loads(pickle.dumps(found))
    assert again.to_dict() == found.to_dict()
    np.testing.assert_array_equal(again.logits, found.logits)


@pytest.mark.parametrize("ratio", [1.7, 5.0, 12.0, 50.0])
def test_digits_agree_with_thirty_of_them(ratio):
    """The stationary point of f + μ·‖Z‖_* in (a_A, a_B, m_A, m_B, μ), K = 10, K_A = 5, τ = 10√5."""
    mp = pytest.importorskip("mpmath").mp.clone()
    mp.dps = 30
    R, tau, lift = mp.mpf(ratio), 10 * mp.sqrt(5), mp.sqrt(mp.mpf(10) / 5) / 5

    def loss(a, b, m, n):
        own, other = (m * lift + a * 4 / 5), (n * lift + b * 4 / 5)
        first = mp.log(1 + 4 * mp.exp(-a) + 5 * mp.exp(-own))
        return (R * first + mp.log(1 + 4 * mp.exp(-b) + 5 * mp.exp(-other))) / (R + 1)

    found = ls.peel([ratio] * 5 + [1.0] * 5)
    begun = solve_pair(pair_of(5, 5, ratio, math.sqrt(5)))
    collapsed = begun.a_minor == 0

    def equations(a, b, m, n, mu):
        at, length = (a, b, m, n), mp.sqrt(m * m + n * n)
        slopes = [mp.diff(loss, at, tuple(int(i == j) for j in range(4))) for i in range(4)]
        normal = [4, 4, m / length, n / length]
        rows = [slope + mu * grows for slope, grows in zip(slopes, normal, strict=True)]
        if collapsed:
            rows[1] = b
        return [*rows, 4 * (a + b) + length - tau]

    start = (begun.a_major, begun.a_minor, begun.m_major, begun.m_minor, begun.price)
    a, b, m, n, _ = mp.findroot(equations, [mp.mpf(v) + mp.mpf("1e-3") for v in start])
    assert float(abs(loss(a, b, m, n) - found.loss)) < 1e-13
    spread = mp.sqrt(m * m + n * n) / 2
    assert float(abs((spread - b) / (spread + 4 * b) - found.minority_cosine)) < 1e-11
