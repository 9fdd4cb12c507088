"""The studies of the Layer-Peeled Model: solved small, and claims judged both ways."""

import copy
import io
import json

import numpy as np
import pytest

from lawscope.studies import campaign, registry
from lawscope.studies.lab import Lab
from lawscope.studies.peeled import (
    balanced,
    long_tail,
    losses,
    minority_angle,
    oversampling,
    q_norm,
    two_layer,
)
from lawscope.studies.peeled._descent import FreeModel
from lawscope.studies.result import from_json, to_json
from lawscope.studies.study import NOT_SHOWN, NOT_TRIED, PRESETS, SHOWN

STUDIES = {
    "balanced": balanced,
    "minority-angle": minority_angle,
    "oversampling": oversampling,
    "losses": losses,
    "long-tail": long_tail,
    "q-norm": q_norm,
    "two-layer": two_layer,
}


@pytest.mark.parametrize("name", STUDIES)
def test_smoke_solves_measures_every_claim_and_draws(name):
    study = registry.find(f"peeled/{name}")
    assert study is STUDIES[name].STUDY
    assert set(study.settings) == set(study.minutes) == set(PRESETS)
    settings = json.loads(json.dumps(study.settings["smoke"]))
    assert study.plan(settings) == []
    measured = study.measure(Lab(settings, shelf=None))
    numbers = from_json(json.loads(json.dumps(to_json(measured), allow_nan=False)))
    assert [j.why for j in study.judge(numbers) if j.verdict == NOT_TRIED] == []
    picture = io.BytesIO()
    study.figure(numbers).savefig(picture)
    assert picture.tell() > 5000


def test_a_study_that_trains_nothing_runs_by_its_name(tmp_path):
    folders = {"store": tmp_path / "store", "out": tmp_path / "out"}
    result = campaign.run("peeled/minority-angle", preset="smoke", jobs=1, show=False, **folders)
    assert result.status == "done"
    assert set(result.verdicts.values()) == {SHOWN}
    assert (tmp_path / "out/peeled/minority-angle.smoke.json").exists()


def test_the_slope_of_the_free_model_is_that_of_its_loss():
    model = FreeModel(3, 2, 4, weight_energy=1.0, feature_energy=5.0)
    rng = np.random.default_rng(1)
    flat, along = rng.standard_normal((2, 3 * 3 * 4))
    step = 1e-6
    ahead, behind = (model.loss(flat + s * step * along)[0] for s in (1, -1))
    assert model.loss(flat)[1] @ along == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)


def test_the_free_model_keeps_both_constraints():
    model = FreeModel(3, 2, 4, weight_energy=2.0, feature_energy=5.0)
    flat = np.random.default_rng(0).standard_normal(3 * 3 * 4)
    energies = [part @ part / rows for part, rows in zip(model._parts(flat), (3, 6), strict=True)]
    assert energies == pytest.approx([2.0, 5.0])


def curve(cosines, threshold, energy, **more):
    return {
        "majority": 5, "feature_energy": energy, "threshold": threshold, "vanishing": None,
        "ratios": [1, 10, 100], "cosines": cosines, "gap": 1e-9,
    } | more  # fmt: skip


def rates(cosines, sides, **more):
    return {"cosines": cosines, "sides": sides, "gap": 1e-9} | more


def row(loss, at=None, *, cosine=-1 / 9, gap=1e-9):
    phases = ["separated"] if at is None else ["separated", "collapsed"]
    points = [{"ratio": at, "phase": phase, "cosine": cosine, "gap": gap} for phase in phases]
    return {"loss": loss, "majority": 5, "feature_energy": 5, "points": points}


def tail(gap, common, rare, seconds):
    return {"gap": gap, "commonest": common, "rarest": rare, "seconds": seconds}


def search(q, *excess):
    return {"classes": 3, "q": q, "excess": list(excess)}


def layers(cosines, losses, angles):
    rows = zip([1, 10, 100], cosines, losses, strict=True)
    points = [
        {
            "ratio": ratio,
            "cosines": [cosine],
            "losses": loss,
            "collapsed_loss": 0.2,
            "angles": angles,
        }
        for ratio, cosine, loss in rows
    ]
    return {"activation": "linear", "points": points}


# For every study: numbers that show all its claims, and numbers that show none.
MADE_UP = {
    "balanced": (
        {
            "programs": [{"cosine_error": 1e-9, "duality_error": 1e-8, "gap": 1e-12}] * 2,
            "free": [{"spread": 1e-6, "excess": -1e-12}],
        },
        {
            "programs": [
                {"cosine_error": 1e-9, "duality_error": 1e-8, "gap": 1e-12},
                {"cosine_error": 1e-5, "duality_error": 1e-5, "gap": 1e-7},
            ],
            "free": [{"spread": 1e-3, "excess": 1e-4}],
        },
    ),
    "minority-angle": (
        {
            "curves": [
                curve([-0.1, 0.5, 1.0], 40.0, 5),
                curve([-0.1, 1.0, None], 5.0, 5, majority=7, vanishing=50.0),
                curve([-0.1, 0.2, 1.0], 50.0, 10),
                curve([-0.1, 0.3, 1.0], 20.0, 10, majority=7),
            ]
        },
        {
            "curves": [
                curve([-0.1, 0.5, 0.4], 40.0, 5, gap=1e-3, vanishing=20.0),
                curve([-0.1, 1.0, 1.0], 30.0, 10),
                curve([-0.1, 1.0, 1.0], float("inf"), 5, majority=7),
                curve([-0.1, 1.0, 1.0], 5.0, 10, majority=7),
            ]
        },
    ),
    "oversampling": (
        {
            "classes": 10,
            "curves": [rates([1.0, 0.5, -1 / 9], [1.0, 0.9]), rates([None, 0.5, -1 / 9], [])],
        },
        {"classes": 10, "curves": [rates([0.5, 1.0, 0.0], [0.9, 0.9], gap=1e-3)]},
    ),
    "losses": (
        {
            "classes": 10,
            "weight_energy": 1,
            "rows": [
                row("cross_entropy", 12.2),
                row("logit_adjusted", 11.0),
                row("label_smoothed"),
                row("class_weighted"),
                row("mse", cosine=0.0),
            ],
        },
        {
            "classes": 10,
            "weight_energy": 1,
            "rows": [
                row("cross_entropy", 12.3, gap=1e-3),
                row("logit_adjusted"),
                row("label_smoothed", 5.0),
                row("class_weighted", 7.0, cosine=0.5),
                row("mse", 7.0),
            ],
        },
    ),
    "long-tail": (
        {"programs": [tail(1e-9, -0.1, 0.8, 5.0), tail(1e-8, -0.01, 0.02, 50.0)]},
        {"programs": [tail(1e-9, -0.1, 0.8, 5.0), tail(0.2, 0.1, 0.0, 90.0)]},
    ),
    "q-norm": (
        {"searches": [search(1.5, -0.01, 0.2), search(2, 1e-12, 0.1), search(3, -0.1, 0.0)]},
        {"searches": [search(1.5, -0.01, 0.2), search(2, -0.1, 0.1), search(3, 0.0, 0.1)]},
    ),
    "two-layer": (
        {
            "classes": 6,
            "curves": [layers([-0.2, 0.5, 1.0], [[0.2, 0.2], [0.1, 0.1], [0.1, 0.1]], [-0.2] * 15)],
        },
        {
            "classes": 6,
            "curves": [layers([0.5, -0.2, 0.1], [[0.1, 0.2], [0.1, 0.1], [0.1, 0.1]], [-1.0, 0.0])],
        },
    ),
}


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_can_be_shown_and_can_fail(name):
    study = STUDIES[name].STUDY
    good, bad = MADE_UP[name]
    assert [j.verdict for j in study.judge(good)] == [SHOWN] * len(study.claims)
    assert [j.verdict for j in study.judge(bad)] == [NOT_SHOWN] * len(study.claims)
    assert {j.verdict for j in study.judge({})} == {NOT_TRIED}


def test_an_angle_on_one_side_alone_is_no_threshold():
    good, _ = MADE_UP["oversampling"]
    for sides in ([1.0, 1.0], [0.9, 0.8]):
        numbers = copy.deepcopy(good)
        numbers["curves"][0]["sides"] = sides
        assert oversampling.STUDY.judge(numbers)[1].verdict == NOT_SHOWN


def test_a_threshold_outside_the_steps_of_its_curve_is_seen():
    good, _ = MADE_UP["minority-angle"]
    numbers = copy.deepcopy(good)
    numbers["curves"][0]["threshold"] = 101.0
    assert minority_angle.STUDY.judge(numbers)[1].verdict == NOT_SHOWN
