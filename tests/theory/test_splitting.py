"""Splitting: each step against its definition, and the whole on many different class sizes."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_programs import random_program

import lawscope as ls
from lawscope.errors import LawscopeWarning
from lawscope.theory.layer_peeled import splitting
from lawscope.theory.layer_peeled.program import Program, evaluate, gap, modes, nuclear_norm
from lawscope.theory.layer_peeled.proximal import RowStep, project
from lawscope.theory.layer_peeled.solve import begin, solve
from lawscope.theory.layer_peeled.splitting import Anderson, Bracket


def pinned_somewhere(program, rng):
    which = np.flatnonzero(rng.random(len(program.sizes)) < 0.3)
    return dataclasses.replace(program, pinned=tuple(which.tolist()))


def random_place(program, rng, size=3.0):
    groups = len(program.sizes)
    a = np.where(program.copies > 0, rng.normal(size=groups), 0.0)
    return size * a, size * rng.normal(size=(groups, groups)) * np.sqrt(program.sizes)[:, None]


def full_matrix(program, a, M):
    """Z with all its K rows, straight from the definition of (a, M)."""
    sizes = program.sizes.astype(int)
    member = np.repeat(np.arange(len(sizes)), sizes)
    between = M / np.sqrt(np.outer(sizes, sizes)) - np.diag(a / sizes)
    return between[np.ix_(member, member)] + np.diag(a[member])


@settings(max_examples=80, deadline=None)
@given(index=st.integers(0, 10**6), stiffness=st.floats(-6, 3))
@example(index=663163, stiffness=-6.0)  # a group held together far below its own first logit
def test_row_step_is_stationary(index, stiffness):
    rng = np.random.default_rng(index)
    program = pinned_somewhere(random_program(3, index, most=8), rng)
    start, place, rho = random_place(program, rng), random_place(program, rng), 10**stiffness
    a, M = RowStep(program, rho, start)(*place)
    point = evaluate(program, a, M)
    # Γ + ρ(Z − Z₀) = 0 on the group means and on the modes inside a group.
    size = 1e-9 * (program.alpha.max() + rho * (1 + np.abs(place[1]).max()))
    np.testing.assert_allclose(point.grad_m, rho * (place[1] - M), atol=size)
    np.testing.assert_allclose(modes(program, point), rho * (a - place[0]), atol=size)


def test_row_step_keeps_its_digits_where_the_loss_is_tiny():
    program = dataclasses.replace(random_program(3, 1, most=4), smoothing=0.0, tau=1.0)
    a, M = begin(dataclasses.replace(program, tau=60 * program.classes))
    rho = evaluate(program, a, M).loss / program.classes
    point = evaluate(program, *RowStep(program, rho, (a, M))(a, M))
    np.testing.assert_allclose(point.grad_m, rho * (M - point.M), rtol=1e-6, atol=1e-12 * rho)


@settings(max_examples=80, deadline=None)
@given(index=st.integers(0, 10**6), share=st.floats(0.01, 1.5))
def test_projection_is_the_nearest_point_of_the_ball(index, share):
    rng = np.random.default_rng(index)
    program = random_program(4, index, most=8)
    a, M = random_place(program, rng)
    program = dataclasses.replace(program, tau=share * nuclear_norm(program, a, M))
    near_a, near_M, _ = project(program, a, M)
    Y, X = full_matrix(program, a, M), full_matrix(program, near_a, near_M)
    assert np.linalg.svd(X, compute_uv=False).sum() <= program.tau * (1 + 1e-9)
    # ⟨Y − X, X′ − X⟩ ≤ 0 for every X′ of the ball.
    outward = program.tau * np.linalg.norm(Y - X, 2) - ((Y - X) * X).sum()
    assert outward <= 1e-9 * program.tau * np.linalg.norm(Y, 2)
    if share >= 1:
        np.testing.assert_allclose(X, Y, atol=1e-9)


def test_anderson_solves_a_linear_system_in_as_many_steps_as_it_has_unknowns():
    rng = np.random.default_rng(0)
    T, side = 0.3 * rng.normal(size=(6, 6)), rng.normal(size=6)
    faster, place = Anderson(6, memory=6), np.zeros(6)
    for _ in range(8):
        place = faster.next(place, T @ place + side - place)
    np.testing.assert_allclose(place, np.linalg.solve(np.eye(6) - T, side), atol=1e-7)


@pytest.mark.parametrize("index", range(12))
def test_every_tangent_bounds_the_optimum_from_below(index):
    program, rng = random_program(5, index, most=6), np.random.default_rng(index)
    optimum = solve(program).point.loss
    feasible = begin(program)
    bracket = Bracket(program, evaluate(program, *feasible))
    for step in range(5):
        bracket.narrow(step, feasible, random_place(program, rng))
        seen = bracket.best()
        assert seen.point.loss - seen.gap <= optimum * (1 + 1e-9) <= seen.point.loss * (1 + 2e-9)


def test_the_tangent_of_another_point_can_be_the_better_certificate():
    counts = np.logspace(2, 0, 6)
    program = Program(np.ones(6), counts / counts.sum(), np.zeros(6), 0.0, 12.0)
    optimum, noise = solve(program).point, np.random.default_rng(0).normal(size=(6, 6))
    *rough, _ = project(program, optimum.a, optimum.M + 1e-3 * noise)
    point = evaluate(program, *rough)
    bracket = Bracket(program, point)
    bracket.narrow(1, rough, (optimum.a, optimum.M))
    assert bracket.best().gap == pytest.approx(point.loss - optimum.loss, abs=1e-9)
    assert bracket.best().gap < 0.5 * gap(program, point)


@pytest.mark.parametrize("index", range(60))
def test_random_programs_are_solved_to_1e_9(index):
    program = random_program(2, index)
    with np.errstate(all="raise", under="ignore"):
        found = solve(program)
    assert 0 <= found.gap <= 1e-9 * found.point.loss
    assert nuclear_norm(program, found.point.a, found.point.M) <= program.tau * (1 + 1e-12)
    if found.steps:
        assert gap(program, found.point) <= 1e-8 * found.point.loss


SEVERAL = [i for i in range(25) if len(random_program(6, i).sizes) > 1]


@pytest.mark.parametrize("index", SEVERAL)
def test_groups_held_together_are_solved_too(index):
    rng = np.random.default_rng(index)
    program = pinned_somewhere(random_program(6, index), rng)
    found = solve(program)
    assert 0 <= found.gap <= 1e-9 * found.point.loss
    assert (found.point.a[list(program.pinned)] == 0).all()
    if program.pinned:
        free = solve(dataclasses.replace(program, pinned=()))
        assert free.point.loss <= found.point.loss * (1 + 1e-9)


@pytest.mark.parametrize("ratio", [3, 100, 1e6])
@pytest.mark.parametrize("energy", [0.5, 5, 50])
def test_a_hundred_different_sizes(ratio, energy):
    counts = np.logspace(math.log10(ratio), 0, 100)
    found = ls.peel(counts, 1.0, energy)
    assert 0 <= found.gap <= 1e-8 * found.loss
    # Without any reduction: the full matrices W and H and the full certificate.
    W, H = found.weights(), found.features()
    assert (W**2).sum() / 100 <= 1 + 1e-9
    assert (H**2).sum() / 100 <= energy * (1 + 1e-9)
    Z = H @ W.T
    Z -= Z.max(axis=1, keepdims=True)
    P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    share = counts / counts.sum()
    assert -share @ np.log(np.diag(P)) == pytest.approx(found.loss, rel=1e-9)
    slope = share[:, None] * (P - np.eye(100))
    tau = 100 * math.sqrt(energy)
    full_gap = (slope * (H @ W.T)).sum() + tau * np.linalg.norm(slope, 2)
    assert full_gap <= 1e-7 * found.loss


@pytest.mark.parametrize("loss", ["class_weighted", "logit_adjusted", "label_smoothed"])
def test_other_losses_with_fifty_different_sizes(loss):
    own = {"class_weights": np.linspace(1, 3, 50)} if loss == "class_weighted" else {}
    found = ls.peel(np.logspace(3, 0, 50), loss=loss, **own)
    assert 0 <= found.gap <= 1e-9 * found.loss
    assert len(found.groups) == 50


def test_sizes_that_are_almost_equal_are_as_good_as_equal():
    counts = np.repeat([100.0, 10.0, 1.0], 12)
    spread = counts * (1 + 1e-7 * np.arange(36))
    one, many = ls.peel(counts), ls.peel(spread)
    assert (len(one.groups), len(many.groups)) == (3, 36)
    assert many.loss == pytest.approx(one.loss, rel=1e-5)
    np.testing.assert_allclose(many.cosines, one.cosines, atol=1e-3)


def test_a_solver_stopped_early_says_so(monkeypatch):
    counts = np.logspace(2, 0, 30)
    exact = ls.peel(counts)
    monkeypatch.setattr(splitting, "STEPS", 3)
    with pytest.warns(LawscopeWarning, match="stopped at a relative gap of"):
        early = ls.peel(counts)
    assert early.gap > 1e-6 * early.loss
    assert early.loss - early.gap <= exact.loss <= early.loss
