"""The studies of neural and minority collapse: run small, and claims judged both ways."""

import copy
import io
import json

import numpy as np
import pytest
import torch
from tests.studies.memory import Memory

from lawscope.errors import LawscopeError
from lawscope.studies import registry
from lawscope.studies.collapse import (
    fairness,
    fixed_classifier,
    minority,
    oversampling,
    terminal,
)
from lawscope.studies.collapse._imbalanced import Cell, on_test_data, trainings_of
from lawscope.studies.lab import Lab
from lawscope.studies.result import from_json, to_json
from lawscope.studies.study import NOT_SHOWN, NOT_TRIED, PRESETS, SHOWN

STUDIES = {
    "terminal": terminal,
    "minority": minority,
    "oversampling": oversampling,
    "fixed-classifier": fixed_classifier,
    "fairness": fairness,
}


@pytest.fixture(scope="module")
def memory():
    return Memory()


@pytest.mark.parametrize("name", STUDIES)
def test_smoke_trains_measures_every_claim_and_draws(name, memory):
    study = registry.find(f"collapse/{name}")
    assert study is STUDIES[name].STUDY
    assert set(study.settings) == set(study.minutes) == set(PRESETS)
    settings = json.loads(json.dumps(study.settings["smoke"]))
    memory.train(study.plan(settings))
    measured = study.measure(Lab(settings, memory))
    numbers = from_json(json.loads(json.dumps(to_json(measured), allow_nan=False)))
    assert [j.why for j in study.judge(numbers) if j.verdict == NOT_TRIED] == []
    picture = io.BytesIO()
    study.figure(numbers).savefig(picture)
    assert picture.tell() > 5000
    if study.table is not None:
        titles, *rows = study.table(numbers)
        assert rows
        assert {len(row) for row in rows} == {len(titles)}


def keys(trainings):
    return {training.key for training in trainings}


def test_studies_share_their_trainings():
    cpu = {name: study.STUDY.settings["cpu"] for name, study in STUDIES.items()}
    every = keys(minority.plan(cpu["minority"]))
    assert keys(fairness.STUDY.plan(cpu["fairness"])) < every
    rates = keys(oversampling.plan(cpu["oversampling"]))
    assert len(rates & every) == 9
    ways = keys(fixed_classifier.plan(cpu["fixed-classifier"]))
    assert len(ways & rates) == 18
    assert len(ways) == 27
    balanced = [trainings_of(cpu["minority"], Cell("MLP", K_A, 1)) for K_A in (3, 7)]
    assert keys(balanced[0]) == keys(balanced[1])


def test_paper_presets_have_the_paper_s_sizes():
    for training in minority.plan(minority.PAPER):
        assert (training.recipe.epochs, training.recipe.lr) == (350, 0.1)
        assert training.data.name == "fashion-mnist"
    smallest = min(min(t.data.sizes()) for t in minority.plan(minority.PAPER))
    assert smallest == 6
    equal = [t for t in oversampling.plan(oversampling.PAPER) if set(t.data.sizes()) == {6000}]
    assert len(equal) == 6


def test_a_ratio_that_leaves_no_sample_is_a_sentence():
    with pytest.raises(LawscopeError, match="R = 501 leaves no sample of 500"):
        trainings_of(minority.CPU, Cell("MLP", 5, 501))


def test_accuracies_on_test_data_by_hand():
    labels = torch.arange(10).repeat_interleave(2)
    logits = torch.nn.functional.one_hot(labels, 10).double()
    logits[labels >= 8] = 0  # all that is left of the last two classes: the first class wins
    logits[labels >= 8, 0] = 2
    logits[18, 9] = 1  # one of them still knows its class among the minority
    found = on_test_data(logits, labels, majority=7)
    assert found["class_accuracy"] == [1.0] * 8 + [0.0] * 2
    assert found["test_accuracy"] == pytest.approx(0.8)
    assert found["majority_accuracy"] == 1.0
    assert found["minority_accuracy"] == pytest.approx(1 / 3)
    assert found["among_minority_accuracy"] == pytest.approx(3 / 6)


def test_a_reading_by_hand(memory):
    settings = minority.SMOKE
    cell = Cell("MLP", 3, 10)
    trainings = trainings_of(settings, cell)
    memory.train(trainings)
    (row, *_), run = minority.readings(Lab(settings, memory), cell), memory.run(trainings[0])
    network, data = run.network(), run.samples
    W = network.head.weight.detach().double().numpy()[3:]
    units = W / np.linalg.norm(W, axis=1, keepdims=True)
    assert row["cosine"] == pytest.approx((units @ units.T)[np.triu_indices(7, 1)].mean())
    with torch.no_grad():
        right = network(data.x_test).argmax(dim=1) == data.y_test
        H = network[:-1](data.x).double()
    assert row["minority_accuracy"] == pytest.approx(float(right[data.y_test >= 3].double().mean()))
    energy = np.mean([float(H[data.y == k].square().sum(dim=1).mean()) for k in range(10)])
    assert row["feature_energy"] == pytest.approx(energy, rel=1e-5)


def nets(seeds=3, **numbers):
    return [{"seed": seed, "accuracy": 1.0, **numbers} for seed in range(seeds)]


def panel(cosines, predictions, accuracies, majority=5, among=0.2, worst=0.0):
    rows = zip([1, 10, 100], cosines, predictions, accuracies, strict=True)
    points = [
        {
            "ratio": ratio,
            "networks": nets(
                cosine=cosine, predicted=predicted, minority_accuracy=accuracy,
                majority_accuracy=0.9, among_minority_accuracy=among,
                class_accuracy=[0.9] * majority + [worst] * (10 - majority),
            ),
        }
        for ratio, cosine, predicted, accuracy in rows
    ]  # fmt: skip
    return {"network": "MLP", "majority": majority, "points": points}


def rates(cosines, minority_accuracies, accuracies, seeds=3):
    rows = zip([1, 10, 100], cosines, minority_accuracies, accuracies, strict=True)
    points = [
        {
            "rate": rate,
            "networks": nets(seeds, cosine=cosine, minority_accuracy=rare, test_accuracy=accuracy),
        }
        for rate, cosine, rare, accuracy in rows
    ]
    return {"network": "MLP", "majority": 5, "points": points}


def ways(seeds=3, **fixed):
    usual = {"mean_cosine": 0.5, "minority_accuracy": 0.2, "test_accuracy": 0.5}
    plain, better = nets(seeds, **usual), nets(seeds, **{**usual, **fixed})
    return {"ways": {"plain": plain, "oversampled": plain, "fixed": better}}


def history(*values, accuracy=1.0):
    names = terminal.MEASURES
    rows = [{"epoch": epoch, **dict.fromkeys(names, value)} for epoch, value in enumerate(values)]
    return {"seed": 0, "accuracy": accuracy, "history": rows}


FALLING, RISING = (9.0, 3.0, 1.0, 0.5, 0.1), (0.1, 0.5, 1.0, 3.0, 9.0)

# For every study: numbers that show all its claims, and numbers that show none.
MADE_UP = {
    "terminal": (
        {"networks": [history(*FALLING)] * 2},
        {"networks": [history(*FALLING), history(*RISING, accuracy=0.9)]},
    ),
    "minority": (
        {"panels": [panel([-0.1, 0.3, 0.97], [-0.11, 0.2, 1.0], [0.8, 0.5, 0.05])] * 2},
        {
            "panels": [
                panel([-0.1, 0.3, 0.97], [-0.1, 0.3, 1.0], [0.8, 0.5, 0.0]),
                panel([0.9, 0.2, 0.1], [-0.1, 0.3, 1.0], [0.8, 0.5, 0.6]),
            ]
        },
    ),
    "oversampling": (
        {"rows": [rates([0.9, 0.5, 0.1], [0.1, 0.5, 0.4], [0.4, 0.6, 0.5])] * 3},
        {"rows": [rates([0.1, 0.5, 0.9], [0.5, 0.4, 0.3], [0.6, 0.5, 0.4]),
                  rates([0.9, 0.5, 0.1], [0.1, 0.2, 0.3], [0.4, 0.5, 0.6])]},
    ),
    "fixed-classifier": (
        {"rows": [ways(mean_cosine=0.1, minority_accuracy=0.3, test_accuracy=0.6)] * 2},
        {"rows": [ways(mean_cosine=0.6, minority_accuracy=0.1, test_accuracy=0.5)] * 2},
    ),
    "fairness": (
        {"panels": [panel([0] * 3, [0] * 3, [0.8, 0.5, 0.05], among=0.25)]},
        {"panels": [panel([0] * 3, [0] * 3, [0.5, 0.6, 0.7], among=0.5, worst=0.3)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_can_be_shown_and_can_fail(name):
    study = STUDIES[name].STUDY
    good, bad = MADE_UP[name]
    assert [j.verdict for j in study.judge(good)] == [SHOWN] * len(study.claims)
    assert [j.verdict for j in study.judge(bad)] == [NOT_SHOWN] * len(study.claims)
    assert {j.verdict for j in study.judge({})} == {NOT_TRIED}


def test_the_table_has_gains_seed_by_seed():
    row = rates([0.9, 0.5, 0.1], [0.1, 0.5, 0.4], [0.4, 0.6, 0.5])
    for point, shifts in zip(row["points"], ([0, 0, 0], [0, 0.1, -0.1], [0, 0, 0]), strict=True):
        for network, shift in zip(point["networks"], shifts, strict=True):
            network["minority_accuracy"] += shift
            network["predicted"] = None
    _, first, second, _ = oversampling.table({"rows": [row]})
    assert first[5:7] == ["10.0 ± 0.0", "0.0 ± 0.0"]
    assert second == ["MLP", "5", "10", "0.50 ± 0.00", "–", "50.0 ± 10.0", "40.0 ± 10.0",
                      "60.0 ± 0.0", "20.0 ± 0.0"]  # fmt: skip


def test_two_seeds_tell_nothing_about_a_gain():
    two = {"rows": [rates([0.9, 0.5, 0.1], [0.1, 0.5, 0.4], [0.4, 0.6, 0.5], seeds=2)]}
    assert [j.verdict for j in oversampling.STUDY.judge(two)] == [
        SHOWN, NOT_TRIED, NOT_TRIED, SHOWN, SHOWN,
    ]  # fmt: skip
    few = {"rows": [ways(seeds=2, mean_cosine=0.1)]}
    assert {j.verdict for j in fixed_classifier.STUDY.judge(few)} == {NOT_TRIED}


def test_a_network_that_diverged_leaves_the_claims_untold():
    good, _ = MADE_UP["minority"]
    numbers = copy.deepcopy(good)
    numbers["panels"][0]["points"][1]["networks"][0] = {"seed": 0, "accuracy": None, "loss": None}
    assert {j.verdict for j in minority.STUDY.judge(numbers)} == {NOT_TRIED}


def test_at_random_is_judged_against_the_minority_s_own_chance():
    for majority, among, verdict in ((3, 0.2, SHOWN), (7, 0.2, SHOWN), (3, 0.3, NOT_SHOWN)):
        numbers = {"panels": [panel([0] * 3, [0] * 3, [0.8, 0.5, 0.0], majority, among)]}
        assert fairness.STUDY.judge(numbers)[-1].verdict == verdict
