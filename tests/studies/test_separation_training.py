"""The studies about training: run small, freezing checked on weights, claims judged both ways."""

import copy
import io
import json
import math

import numpy as np
import pytest
import torch
from tests.studies.figures import carries_verdict
from tests.studies.memory import Memory

from lawscope.laws.separation import separation
from lawscope.studies import registry
from lawscope.studies.lab import Lab
from lawscope.studies.result import from_json, to_json
from lawscope.studies.separation import (
    ablations,
    datasets,
    emergence,
    frozen,
    layer_rates,
    optimizers,
    pretraining,
    reactivation,
    robustness,
    transfer,
)
from lawscope.studies.stacks import with_starts
from lawscope.studies.study import NOT_SHOWN, NOT_TRIED, PRESETS, SHOWN
from lawscope.zoo.networks import build

STUDIES = {
    "frozen": frozen,
    "reactivation": reactivation,
    "emergence": emergence,
    "layer-rates": layer_rates,
    "pretraining": pretraining,
    "robustness": robustness,
    "transfer": transfer,
    "ablations": ablations,
}


def test_figures_along_training_share_their_networks_with_those_at_its_end():
    def networks(name):
        study = registry.find(f"separation/{name}")
        return with_starts(study.plan({**study.settings["cpu"], "mode": "eval"}))

    along = {**networks("emergence"), **networks("layer-rates")}
    for name in ("optimizers", "datasets", "depth", "imbalance", "pretraining"):
        assert along.keys() & networks(name).keys(), name


@pytest.fixture(scope="module")
def memory():
    return Memory()


@pytest.fixture(scope="module")
def smoke(memory):
    """The numbers of a study at ``smoke``, trained and measured once."""
    known = {}

    def numbers(name):
        if name not in known:
            study = STUDIES[name].STUDY
            memory.train(study.plan(study.settings["smoke"]))
            measured = study.measure(Lab(study.settings["smoke"], memory))
            known[name] = from_json(json.loads(json.dumps(to_json(measured), allow_nan=False)))
        return known[name]

    return numbers


@pytest.mark.parametrize("name", STUDIES)
def test_smoke_measures_every_claim_and_draws(name, smoke):
    study = registry.find(f"separation/{name}")
    assert study is STUDIES[name].STUDY
    assert set(study.settings) == set(study.minutes) == set(PRESETS)
    judged = study.judge(smoke(name))
    assert len(judged) == len(study.claims)
    assert [j.why for j in judged if j.verdict == NOT_TRIED] == []
    picture = io.BytesIO()
    drawn = study.figure(smoke(name))
    drawn.savefig(picture)
    assert picture.tell() > 5000
    assert carries_verdict(drawn)


def same(a, b, children):
    """Whether two state dictionaries agree in the weights of layers, running statistics aside."""
    names = [n for n in a if n.split(".")[0] in children and "running" not in n and "num_" not in n]
    assert names
    return all(torch.equal(a[name], b[name]) for name in names)


def layers(first, last):
    return {f"layer{i}" for i in range(first, last + 1)}


def test_frozen_layers_keep_their_weights_and_the_others_learn(memory):
    training = frozen.frozen({**frozen.SMOKE, "seeds": 1, "rates": [1e-3]})[0]
    memory.train([training])
    second, first = (memory.run(t).weights[2] for t in (training, training.start))
    torch.manual_seed(0)
    untrained = build("feedforward", depth=6).state_dict()
    upper = layers(4, 5) | {"head"}
    assert same(first, untrained, upper)
    assert not same(first, untrained, layers(1, 3))
    assert same(second, first, layers(1, 3))
    assert not same(second, first, upper)


def test_pretraining_keeps_ten_layers_and_transfer_the_lower_half(memory):
    settings = {**pretraining.SMOKE, "seeds": 1, "rates": [1e-3]}
    new = pretraining.extended(settings)[0]
    memory.train([new])
    ours, theirs = (memory.run(t).network().state_dict() for t in (new, new.start))
    assert same(ours, theirs, layers(1, 2))
    assert not same(ours, theirs, layers(3, 5))
    down = transfer.downstream({**transfer.SMOKE, "depth": 4}, "top", 3, seed=0)
    memory.train([down])
    ours, theirs = (memory.run(t).network().state_dict() for t in (down, down.start))
    assert same(ours, theirs, layers(1, 2))
    assert not same(ours, theirs, {"layer3"})
    assert down.recipe.epochs + down.start.recipe.epochs == transfer.SMOKE["epochs"]
    assert not set(down.data.classes) & set(down.start.data.classes)
    tuned = transfer.downstream({**transfer.SMOKE, "depth": 4}, "all", 3, seed=0)
    memory.train([tuned])
    assert not same(memory.run(tuned).network().state_dict(), theirs, layers(1, 2))


def keys(trainings):
    return set(with_starts(trainings))


def test_studies_share_their_trainings():
    cpu = {name: study.STUDY.settings["cpu"] for name, study in STUDIES.items()}
    two_stage = keys(frozen.plan(cpu["frozen"]))
    assert keys(robustness.plan(cpu["robustness"])) == two_stage
    assert keys(reactivation.before(cpu["reactivation"])) <= two_stage
    one_seed = {**cpu["frozen"], "seeds": 1}
    assert keys(frozen.standard(one_seed)) <= keys(datasets.plan(datasets.STUDY.settings["cpu"]))
    base = pretraining.scratch({**cpu["pretraining"], "seeds": 1}, 20)
    assert keys(base) <= keys(optimizers.plan(optimizers.STUDY.settings["cpu"]))


def test_the_part_of_pretraining_is_fitted_to_the_new_layers_alone(smoke):
    for row in smoke("pretraining")["extended"]["chosen"]:
        logs = np.log(row["D"][2:])
        slope = np.polyfit(np.arange(len(logs)), logs, 1)[0]
        assert row["part"]["rho"] == pytest.approx(math.exp(slope))
        assert row["part"]["r"] == pytest.approx(np.corrcoef(np.arange(len(logs)), logs)[0, 1])
        low, high = row["part"]["interval"]["rho"]
        assert low < high


def test_noise_on_weights_by_hand(smoke, memory):
    """One draw repeated with plain tensors: D before and after, R, and the sum of the formula."""
    settings = {**robustness.SMOKE, "draws": 1}
    training = frozen.standard(settings)[0]
    trial = robustness.trial(Lab(settings, memory), training, 0.01)
    run = memory.run(training)
    data = (run.samples.x, run.samples.y)
    noisy, generator = run.network(), torch.Generator().manual_seed(0)
    state = noisy.state_dict()
    for name, weight in state.items():
        if weight.dim() > 1:
            noise = torch.randn(weight.shape, generator=generator)
            state[name] = weight + 0.01 * weight.norm() / math.sqrt(weight.numel()) * noise
    noisy.load_state_dict(state)
    a, b = (separation(m, data, uncertainty=None).values for m in (run.network(), noisy))
    assert trial["moved"] == pytest.approx([(b[-1] / b[0]) / (a[-1] / a[0]) - 1], rel=1e-3)
    formula = sum(
        (a[i] / a[i + 1]) * (b[i + 1] / b[i] - a[i + 1] / a[i]) for i in range(len(a) - 1)
    )
    assert trial["predicted"] == pytest.approx([formula], rel=1e-3)
    assert trial["predicted"] == pytest.approx(trial["moved"], rel=0.05)


def rows(**numbers):
    """Three chosen networks, one per seed, that fit; every number is a list over seeds."""
    rest = {"fits": [True] * 3, "accuracy": [1.0] * 3, "lr": [1e-3] * 3, "seed": [0, 1, 2]}
    columns = rest | numbers
    return [{name: column[i] for name, column in columns.items()} for i in range(3)]


def chosen(**numbers):
    return {"chosen": rows(**numbers)}


def tuned(made, at_same_rate):
    """The chosen networks among all candidates, which have those of the first rate too."""
    first = rows(r=at_same_rate, test_accuracy=[0.1] * 3)
    return {**made, "runs": [*first, *made["chosen"]]}


def history(r, nc1, rho):
    epochs = [0, 10, 100, 600]
    return {
        "history": [
            {"epoch": e, "r": a, "nc1": b, "rho": c}
            for e, a, b, c in zip(epochs, r, nc1, rho, strict=True)
        ]
    }


def noisy(moved, predicted, excess):
    trials = [{"noise": 0.01, "moved": moved, "predicted": predicted}]
    return [{"trials": trials, "excess": excess}] * 3


def shares(balance, accuracy):
    rows = zip([10, 100, 300, 500], balance, accuracy, strict=True)
    means = [{"upstream": u, "balance": b, "test_accuracy": a} for u, b, a in rows]
    return {arm: {"means": means} for arm in transfer.ARMS}


STEEP, FLAT = [64.0, 32.0, 8.0, 2.0, 0.5], [64.0, 32.0, 31.0, 30.0, 29.0]

# For every study: numbers that show all its claims, and numbers that show none.
MADE_UP = {
    "frozen": (
        {
            "standard": chosen(r=[-0.99, -0.98, -0.99], test_accuracy=[0.30, 0.25, 0.28]),
            "frozen": chosen(r=[-0.95, -0.99, -0.90], test_accuracy=[0.20, 0.26, 0.20]),
        },
        {
            "standard": chosen(
                r=[-0.95, -0.99, -0.90], test_accuracy=[0.2, 0.26, 0.2], accuracy=[1.0, 1.0, 0.98]
            ),
            "frozen": chosen(r=[-0.99, -0.98, -0.99], test_accuracy=[0.30, 0.25, 0.28]),
        },
    ),
    "reactivation": (
        {
            "before": chosen(r=[-0.95, -0.98, -0.9], test_accuracy=[0.2, 0.2, 0.2]),
            "after": tuned(
                chosen(r=[-0.991, -0.995, -0.99], test_accuracy=[0.2, 0.19, 0.22], lr=[3e-3] * 3),
                at_same_rate=[-0.96, -0.97, -0.95],
            ),
        },
        # Straighter only by the choice of the learning rate.
        {
            "before": chosen(r=[-0.995, -0.98, -0.98], test_accuracy=[0.2, 0.2, 0.2]),
            "after": tuned(
                chosen(r=[-0.98, -0.999, -0.999], test_accuracy=[0.2, 0.19, 0.2], lr=[3e-3] * 3),
                at_same_rate=[-0.995, -0.98, -0.97],
            ),
        },
    ),
    "emergence": (
        {"networks": [history([0.9, -0.985, -0.97, -1], [9, 2, 0.5, 0.1], [1.1, 0.9, 0.8, 0.7])]},
        {
            "networks": [
                history([-0.99, -0.99, -0.5, -0.9], [9, 0.5, 0.1, 0.1], [0.5, 0.6, 0.7, 0.7]),
                history([0.9, -0.9, -0.97, -0.9], [9, 2, 0.5, 0.1], [1.1, 0.9, 0.8, 0.7]),
            ]
        },
    ),
    "layer-rates": (
        {"networks": [{"settled": [20, 30, 40, 50, 60, 200, 100]}] * 2},
        {"networks": [{"settled": [200, 100, 60, 50, 40, 30, 20]}] * 2},
    ),
    "pretraining": (
        {
            "kept": 2,
            "scratch": chosen(r=[-0.99, -0.99, -0.985]),
            "extended": chosen(
                r=[-0.95, -0.96, -0.99],
                D=[[8.0, 7.0, 6.0, 3.0, 1.5]] * 3,
                part=[{"r": -0.99, "rho": 0.5}] * 3,
            ),
        },
        {
            "kept": 2,
            "scratch": chosen(r=[-0.99, -0.95, -0.95]),
            "extended": chosen(
                r=[-0.99, -0.97, -0.97],
                D=[[8.0, 4.0, 2.0, 1.8, 1.7]] * 3,
                part=[{"r": -0.99, "rho": 0.9}, {"r": -0.97, "rho": 0.9}, {"r": -1, "rho": 0.9}],
            ),
        },
    ),
    "robustness": (
        {
            "standard": noisy([0.01, -0.02], [0.0101, -0.0201], 1.1),
            "frozen": noisy([0.02, -0.03], [0.0201, -0.0302], 1.9),
        },
        {
            "standard": noisy([0.02, -0.03], [0.0201, -0.04], 1.9),
            "frozen": noisy([0.01, -0.02], [0.0101, -0.0201], 1.1),
        },
    ),
    "transfer": (
        shares([-0.9, -0.4, 0.05, 0.7], [0.80, 0.85, 0.86, 0.82]),
        shares([0.7, 0.05, 0.4, -0.9], [0.85, 0.80, 0.82, 0.90]),
    ),
    "ablations": (
        {
            "plain": chosen(r=[-0.99, -0.985, -0.98], D=[STEEP] * 3),
            "without BatchNorm": chosen(r=[-0.9, -0.8, -0.95]),
            "linear": chosen(r=[0.1, -0.5, 0.3], D=[FLAT] * 3),
        },
        {
            "plain": chosen(r=[-0.99, -0.985, -0.9], D=[STEEP] * 3),
            "without BatchNorm": chosen(r=[-0.98, -0.985, -0.93]),
            "linear": chosen(r=[-0.99, -0.98, -0.95], D=[FLAT, FLAT, STEEP]),
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


def test_two_seeds_tell_nothing_about_a_mean():
    good, _ = MADE_UP["frozen"]
    two = {kind: {"chosen": part["chosen"][:2]} for kind, part in good.items()}
    judged = frozen.STUDY.judge(two)
    assert [j.verdict for j in judged] == [SHOWN, NOT_TRIED, NOT_TRIED]
    assert {j.why for j in judged} == {"", "needs 3 seeds, has 2"}


def test_a_training_that_diverged_shows_nothing():
    good, _ = MADE_UP["frozen"]
    good = copy.deepcopy(good)
    good["frozen"]["chosen"][1] |= {"r": None, "fits": False, "accuracy": 0.1}
    assert [j.verdict for j in frozen.STUDY.judge(good)] == [NOT_SHOWN] * 3


@pytest.mark.parametrize(
    ("name", "part", "expected"),
    [
        ("pretraining", "extended", [NOT_SHOWN, SHOWN, NOT_SHOWN, NOT_SHOWN]),
        ("pretraining", "scratch", [SHOWN, NOT_SHOWN, NOT_SHOWN, SHOWN]),
        ("reactivation", "before", [NOT_SHOWN, SHOWN, NOT_SHOWN, NOT_SHOWN]),
        ("reactivation", "after", [SHOWN, NOT_SHOWN, SHOWN, NOT_SHOWN]),
        ("ablations", "without BatchNorm", [SHOWN, NOT_SHOWN, SHOWN, SHOWN]),
        ("ablations", "linear", [SHOWN] * 4),  # one linear map cannot fit, and is not asked to
    ],
)
def test_one_seed_of_three_that_does_not_fit_shows_nothing(name, part, expected):
    numbers = copy.deepcopy(MADE_UP[name][0])
    numbers[part]["chosen"][1]["fits"] = False
    assert [j.verdict for j in STUDIES[name].STUDY.judge(numbers)] == expected


@pytest.mark.parametrize(("variant", "claim"), [("without BatchNorm", 1), ("linear", 2)])
def test_one_seed_cannot_carry_an_ablation(variant, claim):
    """The means are 0.24 worse; two seeds are no worse than between two plain networks."""
    numbers = copy.deepcopy(MADE_UP["ablations"][0])
    for row, r in zip(numbers[variant]["chosen"], (-0.29, -0.975, -0.97), strict=True):
        row["r"] = r
    assert ablations.STUDY.judge(numbers)[claim].verdict == NOT_SHOWN


def test_settling_is_for_good():
    epochs = [0, 10, 20, 30, 40]
    assert layer_rates.settled(epochs, [1.0, 0.5, 0.9, 0.52, 0.5]) == 30
    assert layer_rates.settled(epochs, [0.5] * 5) == 0
    assert layer_rates.settled(epochs, [0.5, 0.5, 0.5, 0.5, 0.9]) == 40
