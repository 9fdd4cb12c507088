"""The Layer-Peeled solver against closed forms, the paper's program in cvxpy, and itself."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lawscope as ls
from lawscope.theory.layer_peeled import thresholds, two_groups
from lawscope.theory.layer_peeled.groups import LOSSES


def cvxpy_optimum(counts, weight_energy, feature_energy, *, smoothing=0.0, offsets=None, mse=False):
    """The convex program over the 2K×2K Gram matrix, as the paper states it."""
    import cvxpy as cp

    n = np.asarray(counts, dtype=float)
    K = len(n)
    X = cp.Variable((2 * K, 2 * K), PSD=True)
    shift = np.zeros(K) if offsets is None else offsets
    total = 0
    for k in range(K):
        target = np.full(K, smoothing / K)
        target[k] += 1 - smoothing
        z = X[k, K:] + shift
        fit = cp.sum_squares(z - target) / 2 if mse else cp.log_sum_exp(z) - target @ z
        total += n[k] / n.sum() * fit
    bounds = [cp.trace(X[:K, :K]) <= K * feature_energy, cp.trace(X[K:, K:]) <= K * weight_energy]
    problem = cp.Problem(cp.Minimize(total), bounds)
    problem.solve(solver="CLARABEL")
    gram = X.value[K:, K:]
    norms = np.sqrt(np.diag(gram))
    return problem.value, gram / np.outer(norms, norms)


def original_loss(found, counts):
    """The loss of the returned W and H, straight from its definition."""
    logits = found.features() @ found.weights().T
    own = np.diag(logits)
    top = logits.max(axis=1)
    losses = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - own
    return float(np.asarray(counts) @ losses / np.sum(counts))


def full_gap(found, counts):
    """⟨Γ, Z⟩ + τ‖Γ‖₂ on the whole K×K matrix, without any reduction to groups."""
    Z = found.logits
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    slope = (np.asarray(counts) / np.sum(counts))[:, None] * (P - np.eye(len(Z)))
    tau = len(Z) * math.sqrt(found.weight_energy * found.feature_energy)
    return float((slope * Z).sum() + tau * np.linalg.norm(slope, 2))


@pytest.mark.parametrize("K", [2, 3, 10, 100])
@pytest.mark.parametrize("energy", [0.2, 5.0, 50.0])
def test_balanced_optimum_is_a_simplex_etf(K, energy):
    found = ls.peel([7] * K, 2.0, energy)
    tau = K * math.sqrt(2 * energy)
    expected = math.log1p((K - 1) * math.exp(-tau / (K - 1)))
    assert found.loss == pytest.approx(expected, rel=1e-10)
    assert found.gap <= 1e-9 * found.loss
    assert found.groups[0].cosine == pytest.approx(-1 / (K - 1), abs=1e-9)
    W, H = found.weights(), found.features()
    np.testing.assert_allclose(H, math.sqrt(energy / 2) * W, atol=1e-6)


@pytest.mark.parametrize(
    "counts", [[20, 20, 20, 1, 1], [9, 9, 3, 1, 1], [5, 4, 3, 2, 1], [50, 1], [8, 1, 1, 1, 1]]
)
def test_agrees_with_the_papers_program_in_cvxpy(counts):
    found = ls.peel(counts, 1.0, 2.0)
    value, cosines = cvxpy_optimum(counts, 1.0, 2.0)
    assert found.loss == pytest.approx(value, abs=1e-6)
    assert found.loss - found.gap <= value + 1e-6
    np.testing.assert_allclose(found.cosines, cosines, atol=2e-3)


@pytest.mark.parametrize("loss", ["label_smoothed", "logit_adjusted", "class_weighted", "mse"])
@pytest.mark.parametrize("energy", [0.3, 3.0])
def test_other_losses_agree_with_cvxpy(loss, energy):
    counts = np.array([20.0, 20, 4, 1, 1])
    weights = [1.0, 1.0, 2.0, 5.0, 5.0]
    own = {"label_smoothed": {"smoothing": 0.2}, "class_weighted": {"class_weights": weights}}
    found = ls.peel(counts, 1.0, energy, loss, **own.get(loss, {}))
    value, _ = cvxpy_optimum(
        counts * weights if loss == "class_weighted" else counts,
        1.0,
        energy,
        smoothing=0.2 if loss == "label_smoothed" else 0.0,
        offsets=np.log(counts / counts.sum()) if loss == "logit_adjusted" else None,
        mse=loss == "mse",
    )
    assert found.loss == pytest.approx(value, abs=2e-6)
    assert found.gap <= 1e-9 * max(found.loss, 1e-3)


def test_smoothing_inside_the_constraint_ends_at_the_entropy_of_the_target():
    found = ls.peel([9] * 3 + [1] * 3, 10, 10, "label_smoothed", smoothing=0.3)
    target = np.full(6, 0.05)
    target[0] += 0.7
    assert found.loss == pytest.approx(-(target @ np.log(target)), rel=1e-12)
    assert found.price < 1e-12
    assert found.gap <= 1e-13
    assert {g.phase for g in found.groups} == {"separated"}
    # A price that is nothing but rounding does not merge classes that are smaller still.
    tiny = ls.peel([1e50] * 3 + [1] * 3, 10, 10, "label_smoothed", smoothing=0.3)
    assert {g.phase for g in tiny.groups} == {"separated"}


def test_minimiser_is_feasible_and_attains_the_loss():
    counts = [30, 30, 7, 7, 1]
    found = ls.peel(counts, 0.7, 4.0)
    assert (found.weights(9) ** 2).sum() / 5 == pytest.approx(0.7, rel=1e-9)
    assert (found.features(9) ** 2).sum() / 5 == pytest.approx(4.0, rel=1e-9)
    assert found.weights(9).shape == (5, 9)
    assert original_loss(found, counts) == pytest.approx(found.loss, rel=1e-12)
    gram = found.weights() @ found.weights().T
    norms = np.sqrt(np.diag(gram))
    np.testing.assert_allclose(found.cosines, gram / np.outer(norms, norms), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4).filter(lambda s: sum(s) > 1),
    logs=st.lists(st.floats(0, 6), min_size=4, max_size=4),
    energy=st.floats(0.05, 50),
)
def test_every_gap_is_tiny_and_true_on_the_full_matrix(sizes, logs, energy):
    counts = np.repeat(10.0 ** np.array(logs[: len(sizes)]), sizes)
    found = ls.peel(counts, energy, energy)
    assert 0 <= found.gap <= 1e-9 * found.loss
    # The full matrix, in plain softmax, is only good to rounding of order one.
    assert full_gap(found, counts) <= found.gap + 1e-11 * (1 + energy) * len(counts)


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(7)), scale=st.floats(1e-3, 1e3))
def test_order_and_scale_of_counts_do_not_matter(order, scale):
    counts = np.array([40.0, 40, 40, 6, 6, 1, 1])
    one, other = ls.peel(counts), ls.peel(scale * counts[list(order)])
    assert other.loss == pytest.approx(one.loss, rel=1e-9)
    expected = one.cosines[np.ix_(order, order)]
    np.testing.assert_allclose(other.cosines, expected, atol=1e-5)


def test_only_the_product_of_energies_matters():
    one, other = ls.peel([9, 9, 1, 1], 2.0, 3.0), ls.peel([9, 9, 1, 1], 0.5, 12.0)
    assert one.loss == pytest.approx(other.loss, rel=1e-10)
    np.testing.assert_allclose(one.cosines, other.cosines, atol=1e-7)


@pytest.mark.parametrize(
    ("A", "B", "energy"), [(5, 5, 5), (3, 7, 5), (7, 3, 10), (1, 4, 2), (4, 1, 1)]
)
def test_threshold_is_where_the_solver_sees_collapse(A, B, energy):
    edge = ls.collapse_threshold([2] * A + [1] * B, 1.0, energy)
    below = ls.peel([edge * 0.999] * A + [1] * B, 1.0, energy)
    above = ls.peel([edge * 1.001] * A + [1] * B, 1.0, energy)
    assert (below.groups[-1].phase, above.groups[-1].phase) == ("separated", "collapsed")
    assert below.threshold == above.threshold
    assert above.oversampling_needed == pytest.approx(1.001, rel=1e-9)
    if B > 1:
        assert below.groups[-1].cosine < above.groups[-1].cosine == 1.0


@pytest.mark.parametrize(("A", "B", "energy"), [(5, 5, 5), (3, 7, 5), (9, 1, 4)])
def test_closed_form_of_the_threshold_agrees_with_the_general_root(A, B, energy, monkeypatch):
    found = ls.peel([2] * A + [1] * B, 1.0, energy)
    monkeypatch.setattr(thresholds, "_majority_and_minority", lambda _: None)
    general = thresholds.find_collapse_ratio(found)
    tau = (A + B) * math.sqrt(energy)
    assert two_groups.find_collapse_ratio(A, B, tau) == pytest.approx(general, rel=1e-7)


def test_larger_feature_energy_raises_the_threshold():
    edges = [ls.collapse_threshold([2] * 5 + [1] * 5, 1.0, energy) for energy in (2, 5, 10, 20)]
    assert edges == sorted(edges)


def test_third_phase_is_named_and_has_no_cosine():
    energy = 0.3
    edge = two_groups.find_vanishing_ratio(5, 5, 10 * energy)
    before = ls.peel([edge * 0.98] * 5 + [1] * 5, energy, energy)
    beyond = ls.peel([edge * 1.02] * 5 + [1] * 5, energy, energy)
    assert (before.groups[1].phase, beyond.groups[1].phase) == ("collapsed", "vanished")
    assert math.isnan(beyond.groups[1].cosine)
    assert math.isnan(beyond.minority_cosine)
    assert beyond.vanishing == pytest.approx(edge)
    assert beyond.to_dict()["minority_cosine"] == "NaN"


def test_three_groups_have_a_threshold_of_their_own():
    found = ls.peel([9] * 3 + [3] * 3 + [1] * 3)
    n = 9 / found.threshold
    below = ls.peel([9] * 3 + [3] * 3 + [n * 1.01] * 3)
    above = ls.peel([9] * 3 + [3] * 3 + [n * 0.99] * 3)
    assert (below.groups[-1].phase, above.groups[-1].phase) == ("separated", "collapsed")


def test_oversampling_is_a_larger_minority():
    one = ls.peel([100] * 5 + [1] * 5, oversampling=20)
    other = ls.peel([100] * 5 + [20] * 5)
    assert one.loss == pytest.approx(other.loss, rel=1e-10)
    assert one.groups[1].phase == "separated"
    full = ls.peel([100] * 5 + [1] * 5, oversampling=[1] * 5 + [100] * 5)
    assert full.groups[0].cosine == pytest.approx(-1 / 9, abs=1e-8)


def test_squared_loss_is_water_filling():
    counts = np.array([10.0, 10, 5, 1])
    found = ls.peel(counts, 0.5, 0.5, "mse")
    share, z = counts / counts.sum(), np.diag(found.logits)
    assert z.sum() == pytest.approx(2.0)
    np.testing.assert_allclose(z, np.maximum(1 - found.price / share, 0), atol=1e-12)
    assert found.groups[-1].phase == "vanished"
    assert ls.peel(counts, 2, 2, "mse").loss == 0


@pytest.mark.parametrize("counts", [[1e12, 1], [1e12] * 3 + [1] * 3, [1] + [1e-12] * 4, [3, 3]])
@pytest.mark.parametrize("loss", LOSSES)
def test_absurd_ratios_have_a_phase_and_a_certificate(counts, loss):
    found = ls.peel(counts, loss=loss)
    assert found.gap <= 1e-9 * max(found.loss, 1e-12)
    assert np.isfinite(found.loss)
    assert all(g.phase in ("separated", "collapsed", "vanished") for g in found.groups)


@pytest.mark.parametrize("loss", ["cross_entropy", "label_smoothed", "mse"])
@pytest.mark.parametrize("counts", [[50, 50, 9, 9, 9, 5, 1], [9, 2, 9, 2, 2], [7, 7, 7], [80, 1]])
def test_cosines_are_those_of_the_classifiers(counts, loss):
    found = ls.peel(counts, 1.0, 3.0, loss)
    rows = found.weights() / np.linalg.norm(found.weights(), axis=1, keepdims=True)
    np.testing.assert_allclose(found.cosines, rows @ rows.T, atol=1e-9)
    few = found.minority
    pairs = (rows @ rows.T)[np.ix_(few, few)][np.triu_indices(len(few), 1)]
    expected = pairs.mean() if len(few) > 1 else math.nan
    assert found.minority_cosine == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_minority_cosine_needs_no_matrix_of_all_classes():
    found = ls.peel([5000] * 100_000 + [50] * 100_000, 1.0, 200.0)
    assert found.minority_cosine == pytest.approx(found.groups[1].cosine, abs=1e-12)


def test_sweep_is_the_papers_curve():
    sweep = ls.peel_sweep(np.logspace(0, 2, 9))
    assert sweep.cosines[0] == pytest.approx(-1 / 9, abs=1e-9)
    assert (np.diff(sweep.cosines) >= -1e-9).all()
    assert (sweep.cosines[sweep.ratios > sweep.threshold] == 1).all()
    assert (sweep.cosines[sweep.ratios < sweep.threshold] < 1).all()
    assert (sweep.gaps <= 1e-9).all()
    assert list(sweep.table()["phase"])[-1] == "collapsed"


def test_settings_tell_everything_that_was_asked_for():
    adjusted = ls.peel([5, 1], loss="logit_adjusted", adjustment=0.5).settings
    assert adjusted["adjustment"] == 0.5
    assert adjusted["class_weights"] is None
    weighted = ls.peel([5, 1], loss="class_weighted", class_weights=np.array([1, 5])).settings
    assert weighted["class_weights"] == [1.0, 5.0]
    assert ls.peel([5, 1], loss="label_smoothed").settings["smoothing"] == 0.1


def test_table_plot_and_citation():
    found = ls.peel([30, 30, 7, 7, 1])
    assert list(found.table().columns) == ["count", "classes", "cosine", "phase"]
    assert found.plot().images[0].get_array().shape == (5, 5)
    assert "2021" in ls.citation("layer_peeled")


def test_inverse_class_weights_keep_sizes_apart_and_never_collapse() -> None:
    found = ls.peel([500] * 3 + [50] * 3 + [20], loss="class_weighted")
    assert [(g.count, g.classes) for g in found.groups] == [(500, 3), (50, 3), (20, 1)]
    for each in found.groups[:2]:
        assert each.cosine == pytest.approx(-1 / 6, abs=1e-9)
    assert found.threshold is None
    assert found.oversampling_needed is None


@pytest.mark.parametrize(("majority", "energy"), [(3, 2.0), (7, 10.0)])
def test_smoothed_labels_that_never_collapse_have_no_threshold(majority, energy) -> None:
    # The price falls with the share of the minority and stays below it; at 1e10 it is rounding.
    counts = [1000.0] * majority + [1.0] * (10 - majority)
    found = ls.peel(counts, 1.0, energy, loss="label_smoothed")
    assert found.groups[1].phase == "separated"
    assert found.threshold is None
    far = ls.peel([1e6] * majority + [1.0] * (10 - majority), 1.0, energy, loss="label_smoothed")
    assert far.groups[1].phase == "separated"


def test_smoothed_labels_whose_bound_does_not_bind_have_no_threshold():
    # With the minority held together the unconstrained minimiser lies inside: the price is zero.
    found = ls.peel([1000] * 5 + [1] * 5, loss="label_smoothed", smoothing=0.3)
    assert found.threshold is None
    far = ls.peel([1e9] * 5 + [1] * 5, loss="label_smoothed", smoothing=0.3)
    assert far.groups[1].phase == "separated"


@pytest.mark.parametrize(("majority", "minority"), [(5, 5), (3, 3)])
def test_smoothed_labels_keep_their_geometry_at_absurd_ratios(majority, minority) -> None:
    # The majority alone leaves the constraint inactive, so the price goes with the minority's share
    # and its angles have a limit.
    def at(ratio):
        counts = [ratio] * majority + [1.0] * minority
        return ls.peel(counts, loss="label_smoothed").groups[1]

    near = at(1e7)
    for ratio in (1e9, 1e10, 1e12):
        far = at(ratio)
        assert far.phase == near.phase == "separated"
        assert far.cosine == pytest.approx(near.cosine, abs=2e-4)
