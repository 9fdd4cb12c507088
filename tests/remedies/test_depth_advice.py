"""Which depths may be best, against t tests by hand; the four verdicts; mistakes in words."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import t

from lawscope.errors import LawscopeError
from lawscope.laws.separation.law import separation
from lawscope.remedies.depth import advise_depth, find_candidates, weigh
from lawscope.training.loop import train
from lawscope.training.recipe import Recipe
from lawscope.zoo.images.sampling import balanced
from lawscope.zoo.networks.feedforward import feedforward

DEPTHS = (2, 4, 8, 16)
JITTER = 0.1 * np.array([-1.0, 0.0, 1.0])


def advice(means, jitter=JITTER):
    """Advice on made-up networks whose log D has these means over three seeds."""
    values = np.exp(np.array(means)[:, None] + jitter)
    return weigh("made up", DEPTHS, np.stack([values, -np.ones((4, 3)), np.ones((4, 3))]), {})


def test_candidates_are_those_a_t_test_cannot_tell_from_the_best():
    rng = np.random.default_rng(0)
    kept = 0
    for _ in range(50):
        logs = rng.normal(size=(5, 3)) + rng.normal(size=(5, 1))
        best, rows, _ = find_candidates(logs)
        pooled = np.sqrt(np.mean([np.var(row, ddof=1) for row in logs]) * 2 / 3)
        for row in range(5):
            statistic = (logs[row].mean() - logs[best].mean()) / pooled
            p = t.sf(statistic, 10)
            assert (row in rows) == (p * 4 >= 0.05)
        kept += len(rows)
    assert 50 < kept < 250  # some were ruled out, some were not


def test_the_true_best_stays_a_candidate_in_95_of_100():
    """Hardest case: all depths equal, and row 0 called the best."""
    rng = np.random.default_rng(1)
    stays = np.mean([0 in find_candidates(rng.normal(size=(6, 3)))[1] for _ in range(2000)])
    assert stays >= 0.94


@pytest.mark.parametrize(
    ("means", "best", "candidates", "verdict", "said"),
    [
        ([3, 0, 0.05, 2], 4, (4, 8), "interior", "4 layers are enough"),
        ([3, 2, 1, 0], 16, (16,), "deeper may be better", "it is the deepest"),
        ([3, 2, 0.1, 0], 16, (8, 16), "deeper may be better", "try deeper ones"),
        ([0, 1, 2, 3], 2, (2,), "shallower may do", "it is the shallowest"),
        ([0, 0.05, 2, 3], 2, (2, 4), "shallower may do", "depth is not what"),
        ([0.05, 0, 0.1, 0.05], 4, (2, 4, 8, 16), "cannot be told", "add seeds"),
    ],
)
def test_the_verdict_each_way(means, best, candidates, verdict, said):
    told = advice(means)
    assert (told.best, told.candidates, told.verdict) == (best, candidates, verdict)
    assert said in told.advice
    assert told.enough == candidates[0]


def test_more_spread_over_seeds_means_more_candidates():
    assert len(advice([3, 0, 1, 2], JITTER).candidates) == 1
    assert len(advice([3, 0, 1, 2], 10 * JITTER).candidates) > 1


def test_the_interval_is_students_with_the_pooled_spread():
    told = advice([3, 0, 1, 2])
    width = t.ppf(0.975, 8) * 0.1 / np.sqrt(3)
    assert np.log(told.interval[1]) == pytest.approx([-width, width])
    assert told.table()["D"].tolist() == pytest.approx(np.exp([3, 0, 1, 2]))
    assert told.plot().get_yscale() == "log"


def blobs(classes=4, per_class=30):
    rng = np.random.default_rng(0)
    y = np.arange(classes * per_class) % classes
    return rng.normal(size=(len(y), 6)) + 2 * rng.normal(size=(classes, 6))[y], y


def test_each_number_is_that_of_a_network_trained_alone():
    x, y = blobs()
    told = advise_depth((x, y), depths=[4, 2], seeds=2, width=12, epochs=3, lr=1e-2)
    assert told.depths == (2, 4)
    assert told.settings["samples"] == 120
    drawn, labels = balanced(x, y, 30, seed=0)
    inputs, targets = torch.tensor(drawn, dtype=torch.float32), torch.from_numpy(labels)
    for row, depth in enumerate(told.depths):
        for seed in range(2):
            torch.manual_seed(seed)
            net = feedforward(depth, inputs=6, width=12, classes=4)
            end = train(net, inputs, targets, Recipe(lr=1e-2, epochs=3, seed=seed))
            law = separation(net, (inputs, targets))
            assert told.values[row, seed] == pytest.approx(law.values[-1], rel=1e-4)
            assert told.pearson[row, seed] == pytest.approx(law.fit.pearson, abs=1e-4)
            assert told.accuracy[row, seed] == pytest.approx(end.accuracy)


def test_it_repeats_itself_and_leaves_the_random_state():
    before = torch.get_rng_state()
    settings = {"depths": [2, 3], "seeds": 2, "width": 8, "epochs": 2}
    told, again = advise_depth(blobs(), **settings), advise_depth(blobs(), **settings)
    assert json.dumps(told.to_dict(), allow_nan=False) == json.dumps(again.to_dict())
    assert torch.equal(before, torch.get_rng_state())


def test_samples_per_class_are_a_limit_not_a_demand():
    x, y = blobs(classes=3)
    few = np.concatenate([np.flatnonzero(y == k)[:n] for k, n in enumerate((30, 10, 4))])
    told = advise_depth((x[few], y[few]), depths=[2, 3], seeds=2, width=8, epochs=1, per_class=12)
    assert told.settings["samples"] == 12 + 10 + 4
    assert told.settings["not_fitted"] == [2, 3]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"depths": [4]}, "two or more different"),
        ({"depths": [1, 4]}, "each from 2"),
        ({"depths": (2.5, 3)}, r"depths=\[2.5, 3\]: give two or more different whole numbers"),
        ({"depths": (2, 3.0, 4)}, "whole numbers"),
        ({"depths": "2,4"}, "depths='2,4': give two"),
        ({"depths": 8}, "depths=8: give two"),
        ({"seeds": 1}, "at least 2"),
        ({"seeds": 2.5}, "seeds=2.5 is not a whole number; give at least 2"),
        ({"seeds": "3"}, "seeds='3' is not a whole number"),
        ({"per_class": 1}, "at least 2"),
        ({"per_class": 9.5}, "per_class=9.5 is not a whole number"),
        ({"width": 0}, "width=0 leaves no room.*at least 2"),
        ({"epochs": 0}, "epochs=0 would not train.*at least 1"),
        ({"epochs": -3}, "epochs=-3 would not train"),
        ({"epochs": True}, "epochs=True is not a whole number"),
        ({"lr": 0}, "lr=0 does not train; give a number above 0"),
        ({"lr": -1.0}, "lr=-1.0 does not train"),
        ({"lr": float("nan")}, "lr=nan does not train"),
        ({"lr": float("inf")}, "lr=inf does not train"),
        ({"lr": "0.1"}, "lr='0.1' does not train"),
        (
            {"data": (np.eye(4, 6)[np.arange(80) % 4], np.arange(80) % 4)},
            "samples of a class are the same",
        ),
        ({"data": "fashion-mnst"}, "did you mean fashion-mnist"),
        ({"data": (np.zeros((3, 2)), np.array([0, 1, 2]))}, "two classes of two samples"),
        ({"data": 7}, "give a name, a path, or a pair"),
    ],
)
def test_mistakes_are_sentences(changes, said):
    settings = {"data": blobs(), "epochs": 1} | changes
    with pytest.raises(LawscopeError, match=said):
        advise_depth(settings.pop("data"), **settings)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(0.0, "With 8 layers D = 0 .*differ within"), (np.nan, "With 8 layers D .*is not a number")],
)
def test_a_d_without_a_logarithm_is_no_advice(wrong, said):
    values = np.ones((4, 3))
    values[2, 1] = wrong
    with pytest.raises(LawscopeError, match=said):
        weigh("made up", DEPTHS, np.stack([values, -np.ones((4, 3)), np.ones((4, 3))]), {})


def test_numbers_of_numpy_are_numbers():
    settings = {"depths": np.array([3, 2]), "seeds": np.int64(2), "width": np.int64(8)}
    told = advise_depth(blobs(), epochs=np.int64(1), lr=np.float32(0.01), **settings)
    assert told.depths == (2, 3)
    assert json.loads(json.dumps(told.to_dict()))["settings"]["lr"] == pytest.approx(0.01)
