"""The studies of neural and minority collapse: shared trainings, readings by hand, gaps."""

import copy

import numpy as np
import pytest
import torch
from tests.studies.examples.collapse import EXAMPLES, panel, rates
from tests.studies.memory import Memory

from lawscope.errors import LawscopeError
from lawscope.studies import registry
from lawscope.studies.collapse import energies, fairness, minority, oversampling, terminal
from lawscope.studies.collapse._networks import Cell, on_test_data, read_cell, trainings_of
from lawscope.studies.lab import Lab
from lawscope.studies.study import OPEN
from lawscope.theory.layer_peeled.peel import peel


def keys(name, preset="cpu"):
    study = registry.find(f"collapse/{name}")
    return {training.key for training in study.plan(study.settings[preset])}


def test_studies_share_their_trainings():
    assert keys("fairness") < keys("minority")
    assert len(keys("oversampling") & keys("minority")) == 9
    assert len(keys("fixed-classifier") & keys("oversampling")) == 18
    assert len(keys("fixed-classifier")) == 27
    balanced = [trainings_of(minority.CPU, Cell("MLP", K_A, 1)) for K_A in (3, 7)]
    assert [t.key for t in balanced[0]] == [t.key for t in balanced[1]]


def test_paper_presets_have_the_paper_s_sizes():
    planned = minority.STUDY.plan(minority.PAPER)
    assert {(t.recipe.epochs, t.recipe.lr) for t in planned} == {(350, 0.1)}
    assert {(t.data.name, max(t.data.sizes())) for t in planned} == {
        ("fashion-mnist", 6000), ("cifar10", 5000),
    }  # fmt: skip
    assert min(min(t.data.sizes()) for t in planned) == 5
    rows = oversampling.STUDY.plan(oversampling.PAPER)
    assert sum(set(t.data.sizes()) == {6000} for t in rows) == 2 * 3 * 3


def test_a_ratio_that_leaves_no_sample_is_a_sentence():
    with pytest.raises(LawscopeError, match="R = 6001 leaves no sample of 6000"):
        trainings_of(minority.CPU, Cell("MLP", 5, 6001))


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


def test_a_reading_by_hand():
    settings, cell, memory = minority.SMOKE, Cell("MLP", 3, 10), Memory()
    trainings = trainings_of(settings, cell)
    memory.train(trainings)
    (row, *_), run = read_cell(Lab(settings, memory), cell), memory.run(trainings[0])
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
    middle = torch.stack([H[data.y == k].mean(dim=0) for k in range(10)]).mean(dim=0)
    centred = (H - middle).square().sum(dim=1)
    energy = np.mean([float(centred[data.y == k].mean()) for k in range(10)])
    assert row["centred_feature_energy"] == pytest.approx(energy, rel=1e-5)


def test_three_classes_of_a_simplex_are_a_triangle():
    corners = torch.eye(3, 6, dtype=torch.float64) * 2 + 5
    labels = torch.arange(3).repeat_interleave(4)
    found = terminal.in_plane(corners[labels], labels, 7 * corners)
    means, heads = np.array(found["means"]), np.array(found["classifiers"])
    assert np.linalg.norm(means, axis=1) == pytest.approx([1, 1, 1])
    assert (means @ means.T)[np.triu_indices(3, 1)] == pytest.approx([-0.5] * 3)
    assert heads == pytest.approx(means)
    assert np.array(found["points"]) == pytest.approx(means[found["labels"]])


def test_the_predicted_ratio_is_the_root_of_the_model():
    below, above = (
        peel([R * energies.find_threshold(1.0, 5.0)] * 5 + [1.0] * 5, 1.0, 5.0).minority_cosine
        for R in (0.99, 1.01)
    )
    assert below < 1 - 1e-6
    assert above == pytest.approx(1, abs=1e-6)


def test_the_table_has_gains_seed_by_seed():
    row = rates([0.9, 0.5, 0.1], [0.1, 0.5, 0.4], [0.4, 0.6, 0.5])
    for network, shift in zip(row["points"][1]["networks"], (0, 0.1, -0.1), strict=True):
        network["minority_accuracy"] += shift
    _, first, second, _ = oversampling.table({"rows": [row]})
    assert first[5:7] == ["10.0 [10.0, 10.0]", "0.0 [0.0, 0.0]"]
    assert second[4:7] == ["–", "50.0 [40.0, 60.0]", "40.0 [30.0, 50.0]"]


def test_a_network_that_diverged_leaves_its_panel_open():
    numbers = copy.deepcopy(EXAMPLES["collapse/minority"][0])
    numbers["panels"][0]["points"][-1]["networks"][0] = {"seed": 0, "accuracy": None, "loss": None}
    rises, merges, falls = minority.STUDY.judge({"network": numbers}).claims
    assert (rises.verdict, merges.verdict, falls.verdict) == (OPEN, "holds", OPEN)
    assert "2 of 3 seeds" in rises.column.why


def test_agreement_that_nothing_merges_is_not_agreement():
    numbers = {"panels": [panel([-0.1, 0.3, 0.8], [-0.11, -0.1, 0.0], [0.8, 0.5, 0.0])]}
    rises, merges, _ = minority.STUDY.judge({"network": numbers}).claims
    assert (rises.verdict, merges.verdict) == ("holds", "not tried")
    assert "merge" in merges.column.why


def test_chance_is_that_of_the_minority_alone():
    for majority in (3, 7):
        chance = 1 / (10 - majority)
        among = (3 * chance, 2 * chance, chance)
        numbers = {"panels": [panel([0] * 3, [0] * 3, [0.8, 0.5, 0.0], among, majority)]}
        (panel_of,) = numbers["panels"]
        ratios = fairness.over_chance(panel_of, panel_of["points"][-1])
        left = fairness.excess_left(panel_of)
        assert ratios == pytest.approx([1.0] * 3)
        assert left == pytest.approx([0.0] * 3, abs=1e-12)
