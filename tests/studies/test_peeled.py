"""The studies of the Layer-Peeled Model: the free model's formulas, and a run by name."""

import copy

import numpy as np
import pytest
from scipy.special import softmax
from tests.studies.examples.peeled import EXAMPLES

from lawscope.studies import registry, run
from lawscope.studies.peeled import balanced, long_tail, losses, minority_angle
from lawscope.studies.peeled._programs import ratios_between
from lawscope.studies.study import FAILS, NOT_TRIED
from lawscope.theory.layer_peeled.peel import peel

FREE = {"classes": 3, "per_class": 2, "dimension": 4, "feature_energy": 5.0}


def test_a_study_that_trains_nothing_runs_by_its_name(tmp_path, inline_pool):
    folders = {"store": tmp_path / "store", "out": tmp_path / "out"}
    result = run("peeled/minority-angle", preset="smoke", jobs=1, show=False, **folders)
    assert result.status == "done"
    assert set(result.verdicts.values()) == {NOT_TRIED}
    assert (tmp_path / "out/peeled/minority-angle.smoke.json").exists()


def test_the_slope_of_the_free_model_is_that_of_its_loss():
    flat, along = np.random.default_rng(1).standard_normal((2, 3 * 3 * 4))
    step = 1e-6
    ahead, behind = (balanced.free_loss(flat + s * step * along, FREE, 1.0)[0] for s in (1, -1))
    slope = balanced.free_loss(flat, FREE, 1.0)[1]
    assert slope @ along == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)


def test_the_free_model_keeps_both_constraints():
    flat = np.random.default_rng(0).standard_normal(3 * 3 * 4)
    W, H = np.split(flat.reshape(9, 4), [3])
    W, H = (np.sqrt(bound) * x / np.linalg.norm(x) for x, bound in ((W, 3 * 2.0), (H, 6 * 5.0)))
    chances = softmax(H @ W.T, axis=1)[np.arange(6), np.repeat(np.arange(3), 2)]
    loss, _ = balanced.free_loss(flat, FREE, 2.0)
    assert loss == pytest.approx(-np.log(chances).mean(), rel=1e-12)


def test_ratios_are_even_on_a_log_scale_with_both_ends():
    assert ratios_between(1, 100, 2) == [1.0, 3.16228, 10.0, 31.6228, 100.0]


def test_cosines_of_a_tail_are_those_to_neighbours_in_size():
    cosines = np.array([[1, 0.5, 0], [0.5, 1, 0.25], [0, 0.25, 1]])
    assert long_tail.neighbourly(cosines, 2) == [0.5, 0.5, 0.25]


def test_a_threshold_is_enclosed_to_a_thousandth_where_there_is_one():
    def at(ratio):
        return {"ratio": ratio, "phase": "separated" if ratio < 12 else "collapsed"}

    low, high = (point["ratio"] for point in losses.enclosed(at, 1e6))
    assert low < 12 <= high <= low * 1.001
    assert losses.enclosed(at, 2) == [{"ratio": 2, "phase": "separated"}]


def test_class_means_turn_from_their_classifiers_with_the_imbalance():
    assert minority_angle.turned(peel([1.0] * 10, 1, 5)) == pytest.approx(0, abs=1e-5)
    found = peel([10.0] * 5 + [1.0] * 5, 1, 5)
    W, H = found.weights()[-1], found.features()[-1]
    by_hand = np.degrees(
        np.arctan2(
            np.linalg.norm(W * (H @ H) ** 0.5 - H * (W @ W) ** 0.5),
            np.linalg.norm(W * (H @ H) ** 0.5 + H * (W @ W) ** 0.5),
        )
    )
    assert minority_angle.turned(found) == pytest.approx(2 * by_hand, rel=1e-9)
    assert minority_angle.turned(peel([1000.0] * 7 + [1.0] * 3, 1, 5)) is None


@pytest.mark.parametrize(
    ("name", "change", "failing"),
    [
        ("oversampling", {"sides": [1.0, 1.0]}, 2),
        ("oversampling", {"sides": [0.9, 0.8]}, 1),
        ("minority-angle", {"threshold": 101.0}, 1),
    ],
)  # fmt: skip
def test_a_threshold_is_seen_from_both_sides(name, change, failing):
    numbers = copy.deepcopy(EXAMPLES[f"peeled/{name}"][0])
    numbers["curves"][0].update(change)
    claims = registry.find(f"peeled/{name}").judge({"network": numbers}).claims
    assert claims[failing].verdict == FAILS
