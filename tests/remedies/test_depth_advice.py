"""Which depths may be best, against t tests by hand; the verdicts; mistakes in words."""

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
from lawscope.zoo.images.arrays import make_dataset
from lawscope.zoo.images.sampling import balanced
from lawscope.zoo.networks.feedforward import feedforward

DEPTHS = (2, 4, 8, 16)
JITTER = 0.1 * np.array([-1.0, 0.0, 1.0])


def advice(means, jitter=JITTER, shares=(0.6, 0.8, 0.8, 0.8), spread=0.01):
    """Advice on made-up networks, by means over three seeds of log D and held-out accuracy."""
    values = np.exp(np.array(means)[:, None] + jitter)
    held_out = np.array(shares)[:, None] + 10 * spread * JITTER
    numbers = np.stack([values, -np.ones((4, 3)), np.ones((4, 3)), held_out])
    return weigh("made up", DEPTHS, numbers, {"held_out": 400, "chance": 0.25})


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
    ("shares", "enough", "verdict", "said"),
    [
        ((0.6, 0.8, 0.805, 0.8), 4, "found", "Use 4 layers: they get 80.0 % of the 400 held-out"),
        ((0.6, 0.8, 0.805, 0.8), 4, "found", "not surely fewer than 8 layers"),
        ((0.6, 0.8, 0.7, 0.7), 4, "found", "and no other depth gets more"),
        ((0.8, 0.8, 0.805, 0.7), 2, "shallower may do", "Use 2 layers, the fewest tried"),
        ((0.5, 0.6, 0.7, 0.8), 16, "deeper may be better", "Try more than 16 layers"),
        ((0.2, 0.25, 0.27, 0.22), 4, "cannot be told", "Train longer or check the labels"),
    ],
)
def test_the_shallowest_that_is_not_surely_less_accurate(shares, enough, verdict, said):
    told = advice([3, 2, 1, 0], shares=shares)
    assert (told.enough, told.verdict) == (enough, verdict)
    assert said in told.advice
    # D alone asks for the deepest network every time.
    assert (told.best, told.candidates) == (16, (16,))


@pytest.mark.parametrize(
    ("means", "said"),
    [
        ([3, 2, 1, 0], "D still falls beyond 4 layers, to 1.00 at 16; held-out accuracy does not"),
        ([3, 0, 1, 2], "D agrees: it is lowest there (1.00)"),
        ([3, 0.05, 1, 0], "D agrees: it is not surely lower anywhere (1.00 at 16 layers)"),
        ([0, 1, 2, 3], "it is lowest at 2 layers (1.00), but held-out accuracy surely rises up to"),
    ],
)
def test_where_d_and_accuracy_disagree_is_said(means, said):
    assert said in advice(means).advice


def test_nothing_is_said_about_depth_where_no_network_learned():
    """At 400 samples and a chance of 1/4 accuracy must exceed 1/4 + 1.645·√(3/16/400) = 0.2856."""
    flat = [0.28, 0.284, 0.28, 0.28]
    told = advice([3, 2, 1, 0], shares=flat)
    assert told.verdict == "cannot be told"
    assert "layers" not in told.advice
    assert advice([3, 2, 1, 0], shares=[*flat[:3], 0.287]).verdict != "cannot be told"


def test_accuracy_is_weighed_like_d():
    """Candidates by accuracy are those of the same test on what is lost."""
    rng = np.random.default_rng(3)
    numbers = np.stack([np.exp(rng.normal(size=(4, 3))), -np.ones((4, 3)), np.ones((4, 3)),
                        rng.uniform(0.7, 0.8, size=(4, 3))])  # fmt: skip
    told = weigh("made up", DEPTHS, numbers, {"held_out": 400, "chance": 0.25})
    mirrored = numbers.copy()
    mirrored[0] = np.exp(-numbers[3])
    other = weigh("made up", DEPTHS, mirrored, {"held_out": 400, "chance": 0.25})
    assert (told.most_accurate, told.accurate) == (other.best, other.candidates)
    assert told.held_out_interval == pytest.approx(-np.log(other.interval)[:, ::-1])


def test_more_spread_over_seeds_means_more_candidates():
    assert len(advice([3, 0, 1, 2], JITTER).candidates) == 1
    assert len(advice([3, 0, 1, 2], 10 * JITTER).candidates) > 1


def test_the_interval_is_students_with_the_pooled_spread():
    told = advice([3, 0, 1, 2])
    width = t.ppf(0.975, 8) * 0.1 / np.sqrt(3)
    assert np.log(told.interval[1]) == pytest.approx([-width, width])
    assert told.table()["D"].tolist() == pytest.approx(np.exp([3, 0, 1, 2]))
    figure = told.plot().figure
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "linear"]
    for axes in figure.axes:
        assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "4", "8", "16"]


def blobs(classes=4, per_class=30):
    rng = np.random.default_rng(0)
    y = np.arange(classes * per_class) % classes
    return rng.normal(size=(len(y), 6)) + 2 * rng.normal(size=(classes, 6))[y], y


def test_each_number_is_that_of_a_network_trained_alone():
    x, y = blobs()
    told = advise_depth((x, y), depths=[4, 2], seeds=2, width=12, epochs=3, lr=1e-2)
    assert told.depths == (2, 4)
    assert (told.settings["samples"], told.settings["held_out"]) == (96, 24)
    drawn, labels = balanced(x, y, 24, seed=0)
    inputs, targets = torch.tensor(drawn, dtype=torch.float32), torch.from_numpy(labels)
    rest = np.array([row for row in range(len(x)) if not (x[row] == drawn).all(axis=1).any()])
    others = torch.tensor(x[rest], dtype=torch.float32)
    for row, depth in enumerate(told.depths):
        for seed in range(2):
            torch.manual_seed(seed)
            net = feedforward(depth, inputs=6, width=12, classes=4)
            end = train(net, inputs, targets, Recipe(lr=1e-2, epochs=3, seed=seed))
            law = separation(net, (inputs, targets))
            assert told.values[row, seed] == pytest.approx(law.values[-1], rel=1e-4)
            assert told.pearson[row, seed] == pytest.approx(law.fit.pearson, abs=1e-4)
            assert told.accuracy[row, seed] == pytest.approx(end.accuracy)
            right = net.eval()(others).argmax(1).numpy() == y[rest]
            assert told.held_out[row, seed] == pytest.approx(right.mean())


def test_a_test_split_is_what_is_held_out():
    x, y = blobs()
    test = x[::3] + 100.0, y[::3]  # where every network fails in its own way
    data = make_dataset("split", "split", (x, y), test)
    told = advise_depth(data, depths=[2, 3], seeds=2, width=8, epochs=2, per_class=20)
    assert (told.settings["samples"], told.settings["held_out"]) == (80, 40)
    assert told.settings["held_out_from"] == "the test split"
    same = make_dataset("same", "same", (x, y), (x, y))
    settings = {"depths": [2, 3], "seeds": 2, "width": 8, "epochs": 2}
    told = advise_depth(same, **settings)
    assert told.held_out == pytest.approx(told.accuracy)  # all of it was trained on
    # A class that only the test split has is never predicted, and not an error.
    foreign = make_dataset("foreign", "foreign", (x, y), (x, y + 1))
    assert advise_depth(foreign, **settings).held_out.max() < 0.75


def test_a_fifth_of_each_class_is_held_out_of_large_data_too():
    x, y = blobs(per_class=100)
    told = advise_depth((x, y), depths=[2, 3], seeds=2, width=8, epochs=1, per_class=10)
    assert (told.settings["samples"], told.settings["held_out"]) == (40, 80)
    assert told.settings["chance"] == pytest.approx(0.25)
    assert "80 held-out samples" in told.section().facts


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
    assert told.settings["samples"] == 12 + 8 + 3
    assert told.settings["held_out"] == 6 + 2 + 1
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
        (
            {"data": (np.arange(8.0).reshape(4, 2), np.array([0, 0, 1, 1]))},
            "no test split and too few samples to hold back",
        ),
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
        weigh("made up", DEPTHS, np.stack([values, *3 * [np.ones((4, 3))]]), {})


def test_numbers_of_numpy_are_numbers():
    settings = {"depths": np.array([3, 2]), "seeds": np.int64(2), "width": np.int64(8)}
    told = advise_depth(blobs(), epochs=np.int64(1), lr=np.float32(0.01), **settings)
    assert told.depths == (2, 3)
    assert json.loads(json.dumps(told.to_dict()))["settings"]["lr"] == pytest.approx(0.01)
