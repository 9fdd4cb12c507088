"""Neural collapse against brute force, closed forms and the Layer-Peeled optimum itself."""

import itertools
import json
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from tests import cases, oracles
from torch import nn

import lawscope as ls
from lawscope.formatting import number, percent
from lawscope.laws.collapse.metrics import cosines, shape_of
from lawscope.laws.collapse.verdict import RULE
from lawscope.statistics.nearest_mean import NearestMean


def linear(weight, bias=None):
    weight = torch.as_tensor(np.asarray(weight)).double()
    head = nn.Linear(weight.shape[1], len(weight), bias=bias is not None).double()
    head.weight.data.copy_(weight)
    if bias is not None:
        head.bias.data.copy_(torch.as_tensor(bias))
    return head


def made_up(seed=0, counts=(40, 30, 9, 4), width=7, rows=4):
    """Features of clusters with a common offset, labels, and a head with bias."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    x = rng.normal(size=(len(y), width)) + 3 * rng.normal(size=(len(counts), width))[y] + 5
    order = rng.permutation(len(y))
    return x[order], y[order], rng.normal(size=(rows, width)), rng.normal(size=rows)


def pairs(vectors):
    for a, b in itertools.combinations(vectors, 2):
        yield float(a @ b / math.sqrt((a @ a) * (b @ b)))


def oracle(x, y, W, b):
    """Every number, from its definition and loop by loop."""
    classes = sorted(set(y.tolist()))
    K, rows = len(classes), [W[k] for k in classes]
    means = {k: x[y == k].mean(0) for k in classes}
    centre = sum(means.values()) / K
    M = [means[k] - centre for k in classes]
    variance = {k: np.mean([np.sum((h - means[k]) ** 2) for h in x[y == k]]) for k in classes}
    D = oracles.fuzziness(torch.tensor(x), torch.tensor(y))
    found = {"D": D, "papyan": D / K}
    both = itertools.combinations(classes, 2)
    apart = [(variance[j] + variance[k], np.sum((means[j] - means[k]) ** 2)) for j, k in both]
    found["cdnv"] = np.mean([spread / (2 * distance) for spread, distance in apart])
    for name, vectors in (("means", M), ("classifiers", rows)):
        norms = [math.sqrt(v @ v) for v in vectors]
        middle = sum(norms) / K
        spread = math.sqrt(sum((n - middle) ** 2 for n in norms) / (K - 1))
        found[name, "equinorm"] = spread / middle
        found[name, "angle_std"] = np.std(list(pairs(vectors)))
        found[name, "angle_error"] = np.mean([abs(c + 1 / (K - 1)) for c in pairs(vectors)])
    flat_w, flat_m = np.concatenate(rows), np.concatenate(M)
    found["nc3"] = np.sum(
        (flat_w / math.sqrt(flat_w @ flat_w) - flat_m / math.sqrt(flat_m @ flat_m)) ** 2
    )
    different = right = 0
    for h, label in zip(x, y, strict=True):
        scores = [W[k] @ h + b[k] for k in classes]
        distances = [np.sum((h - means[k]) ** 2) for k in classes]
        different += int(np.argmax(scores) != np.argmin(distances))
        right += int(np.argmax(W @ h + b) == label)
    found["nc4"], found["accuracy"] = different / len(y), right / len(y)
    found["E_W"] = np.mean([w @ w for w in rows])
    found["E_H"] = np.mean([np.mean([h @ h for h in x[y == k]]) for k in classes])
    sizes, each = {k: int((y == k).sum()) for k in classes}, len(y) / K
    minority, largest = [k for k in classes if sizes[k] == min(sizes.values())], max(sizes.values())
    if len(minority) == 1:
        minority = [k for k in classes if sizes[k] < each and 3 * sizes[k] <= 2 * largest]
    by_chance = chi2.sf(sum((size - each) ** 2 / each for size in sizes.values()), K - 1)
    if by_chance >= 0.01 or 3 * min(sizes.values()) > 2 * largest:
        minority = list(classes)
    two = len(minority) > 1
    found["minority"] = (
        np.mean(list(pairs([W[k] for k in minority]))) if two else math.nan,
        np.mean(list(pairs([means[k] - centre for k in minority]))) if two else math.nan,
    )
    return found


def assert_is(result, expected):
    assert pytest.approx(expected["D"], rel=1e-8) == result.nc1.D
    assert result.nc1.papyan == pytest.approx(expected["papyan"], rel=1e-8)
    assert result.nc1.cdnv == pytest.approx(expected["cdnv"], rel=1e-9)
    for name, shape in result.nc2._asdict().items():
        for field, value in shape._asdict().items():
            assert value == pytest.approx(expected[name, field], rel=1e-9), (name, field)
    assert result.nc3 == pytest.approx(expected["nc3"], rel=1e-9)
    assert result.nc4 == expected["nc4"]
    assert result.accuracy == expected["accuracy"]
    assert result.energies == pytest.approx((expected["E_W"], expected["E_H"]), rel=1e-9)
    E_W, E_H = result.centred_energies
    shared = f"that all classes share they are {number(E_W)} and {number(E_H)}: take those"
    assert any(shared in said for said in result.section().findings)
    assert result.minority_cosine == pytest.approx(expected["minority"], rel=1e-9, nan_ok=True)


@given(
    seed=st.integers(0, 10**6),
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=5),
    extra=st.integers(0, 2),
)
@settings(max_examples=25, deadline=None)
@pytest.mark.filterwarnings("ignore::lawscope.LawscopeWarning")
def test_every_number_against_brute_force(seed, counts, extra):
    counts = [counts[0] + 1, *counts[1:]]
    x, y, W, b = made_up(seed, counts, rows=len(counts) + extra)
    data = [(torch.tensor(x[i::3]), torch.tensor(y[i::3])) for i in range(3) if len(y[i::3])]
    assert_is(ls.collapse(linear(W, b), data), oracle(x, y, W, b))


@pytest.mark.parametrize("memory", ["1GB", "1KB"])
def test_held_and_two_pass_are_the_same(memory):
    x, y, W, b = made_up()
    result = ls.collapse(linear(W, b), (torch.tensor(x), torch.tensor(y)), memory=memory)
    assert result.settings["strategy"] == ("held" if memory == "1GB" else "two-pass")
    assert_is(result, oracle(x, y, W, b))


def test_decisions_merge_as_if_seen_together():
    x, y, W, b = made_up()
    means = torch.tensor(np.stack([x[y == k].mean(0) for k in range(4)]))
    whole, parts = (
        [NearestMean(means, torch.tensor(W), torch.tensor(b), torch.arange(4)) for _ in range(n)]
        for n in (1, 3)
    )
    whole[0].update(torch.tensor(x), torch.tensor(y))
    for i, part in enumerate(parts):
        part.update(torch.tensor(x[i::3]), torch.tensor(y[i::3]))
    for part in parts[1:]:
        parts[0].merge(part)
    for a, b in zip(
        vars(whole[0].compute()).values(), vars(parts[0].compute()).values(), strict=True
    ):
        assert np.allclose(a, b, rtol=1e-12)
    with pytest.raises(ls.LawscopeError, match="class means"):
        parts[0].merge(NearestMean(means + 1, torch.tensor(W), None, torch.arange(4)))
    with pytest.raises(ls.LawscopeError, match="4 class means, but 3 rows"):
        NearestMean(means, torch.tensor(W), None, torch.arange(3))


def test_the_population_of_nc1_is_that_of_separation():
    x, y, W, b = made_up()
    net, data = nn.Sequential(nn.Identity(), linear(W, b)), (torch.tensor(x), torch.tensor(y))
    there = ls.separation(net, data, stations=["input", "0"])
    here = ls.collapse(net, data)
    assert pytest.approx(there.values[1], rel=1e-12) == here.nc1.D
    found, expected = here.population, there.population
    assert found.values[0] == pytest.approx(expected.values[1], rel=1e-9)
    assert found.interval[0] == pytest.approx(expected.interval[1], rel=1e-9)
    assert found.settled[0] == expected.settled[1]
    row = here.table().set_index("metric").loc["NC1 D̂"]
    assert (row["value"], row["low"], row["high"]) == (found.values[0], *found.interval[0])
    assert ls.collapse(net, data, uncertainty=None).population is None


def optimum(counts, E_W=1.0, E_H=5.0, noise=0.0, width=12):
    """A head and features that sit at the optimum of the Layer-Peeled Model, turned at random."""
    peeled = ls.peel(counts, E_W, E_H)
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    y = np.repeat(np.arange(len(counts)), np.asarray(counts, dtype=int))
    features = peeled.features(width)[y] @ turn
    features = features + noise * rng.normal(size=features.shape)
    return peeled, linear(peeled.weights(width) @ turn), (torch.tensor(features), torch.tensor(y))


@pytest.mark.parametrize("counts", [[30] * 4, [40] * 3 + [20] * 3, [60] * 3 + [2] * 3])
def test_at_the_optimum_the_network_is_as_predicted(counts):
    peeled, head, data = optimum(counts, noise=1e-4)
    result = ls.collapse(head, data)
    assert result.energies == pytest.approx((1.0, 5.0), rel=1e-5)
    assert result.prediction.loss == pytest.approx(peeled.loss, rel=1e-5)
    assert result.nc3 == pytest.approx(result.predicted.nc3, abs=1e-6)
    for name in ("means", "classifiers"):
        expected = getattr(result.predicted.nc2, name)
        assert getattr(result.nc2, name) == pytest.approx(expected, abs=1e-4)
    assert result.minority_cosine == pytest.approx(result.predicted.minority_cosine, abs=1e-4)
    assert result.predicted.minority_cosine.classifiers == pytest.approx(
        result.prediction.minority_cosine
    )
    first, last = (result.prediction.groups[i].phase for i in (0, -1))
    assert result.phases == [first] * 3 + [last] * (len(counts) - 3)


def test_balanced_collapse_holds():
    _, head, data = optimum([150] * 4, noise=0.02)
    result = ls.collapse(head, data)
    assert result.verdict == "holds"
    assert result.advice == ()
    assert result.minority.tolist() == [0, 1, 2, 3]
    assert result.minority_cosine.classifiers == pytest.approx(-1 / 3)
    assert result.nc4 == 0
    assert result.interval["nc4"][1] < 0.01
    assert "D/K" in RULE


def test_merged_classes_are_named_with_the_rate_that_parts_them():
    counts = [90] * 5 + [3] * 5
    peeled, head, data = optimum(counts, noise=0.01)
    names = [f"kind {k}" for k in range(10)]
    result = ls.collapse(head, data, class_names=names)
    assert result.minority_cosine.classifiers > 0.999
    said = " ".join(result.advice)
    assert said.startswith("Sample classes kind 5, kind 6, kind 7, kind 8, kind 9 over")
    assert "they share one classifier" in said
    threshold = ls.peel(counts, *result.centred_energies).threshold
    assert f"{30 / threshold:.2g} times as often" in said
    assert threshold == pytest.approx(peeled.threshold, rel=0.1)
    assert result.by_class()["predicted phase"].tolist() == ["separated"] * 5 + ["collapsed"] * 5


def test_a_shared_row_is_not_collapse():
    peeled = ls.peel([30] * 4)
    weights = peeled.weights(12)
    weights[1] = weights[0]
    _, _, data = optimum([30] * 4, noise=0.1)
    result = ls.collapse(linear(weights), data)
    assert result.verdict == "does not hold"


def test_training_counts_decide_the_prediction():
    _, head, data = optimum([20] * 6, noise=0.01)
    given = [500.0] * 4 + [1.0] * 2
    result = ls.collapse(head, data, counts=given)
    assert result.training_counts.tolist() == given
    assert result.minority.tolist() == [4, 5]
    assert result.counts.tolist() == [20] * 6
    assert result.prediction.ratio == 500


def test_rows_the_data_never_shows_are_left_out():
    x, y, W, b = made_up(rows=9)
    with pytest.warns(ls.LawscopeWarning, match="5 of 9 rows"):
        result = ls.collapse(linear(W, b), (torch.tensor(x), torch.tensor(y)))
    assert len(result.classifier_cosines) == 4
    with pytest.warns(ls.LawscopeWarning):
        longer = ls.collapse(linear(W, b), (torch.tensor(x), torch.tensor(y)), counts=range(1, 10))
    assert longer.training_counts.tolist() == [1, 2, 3, 4]


def test_the_bias_and_what_it_is_worth():
    x, y, W, b = made_up()
    data = (torch.tensor(x), torch.tensor(y))
    plain, common, large = (ls.collapse(linear(W, c), data) for c in (None, b * 0 + 7, 1e3 * b))
    assert plain.bias_share == common.bias_share == 0
    assert plain.nc4 == common.nc4
    assert large.bias_share > 0.9
    assert any("a bias that makes" in s for s in large.section().findings)
    assert plain.nc3 == large.nc3


@pytest.mark.parametrize(("bias", "said"), [(0.18, False), (0.2, True)])
def test_a_bias_of_a_tenth_of_the_logits_is_named(bias, said):
    # Features are the axes and the head is the identity: centred logits have the square 2/3.
    head = nn.Linear(3, 3)
    with torch.no_grad():
        head.weight.copy_(torch.eye(3))
        head.bias.copy_(torch.tensor([bias, 0.0, -bias]))
    y = torch.arange(60) % 3
    x = torch.eye(3)[y] + 1e-3 * torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    found = ls.collapse(head, (x, y))
    assert found.bias_share == pytest.approx(2 * bias**2 / (2 * bias**2 + 2 / 3), rel=0.01)
    assert any("about weights alone" in s for s in found.section().findings) == said


def test_energies_are_means_over_classes_not_samples():
    x = torch.cat([torch.full((30, 3), 1.0), torch.full((2, 3), 2.0)]).double()
    x[::2, 0] += 0.5
    y = torch.tensor([0] * 30 + [1] * 2)
    result = ls.collapse(linear(np.eye(3)[:2]), (x, y))
    per_class = [x[y == k].square().sum(1).mean().item() for k in (0, 1)]
    assert result.energies.feature == pytest.approx(np.mean(per_class))
    centre = (x[y == 0].mean(0) + x[y == 1].mean(0)) / 2
    spread = [(x[y == k] - centre).square().sum(1).mean().item() for k in (0, 1)]
    assert result.centred_energies == pytest.approx((0.5, np.mean(spread)))


def test_energies_too_large_for_a_number_leave_the_rest():
    x, y, W, b = made_up()
    result = ls.collapse(linear(1e6 * W, b), (torch.tensor(1e3 * x), torch.tensor(y)))
    assert result.prediction is None
    assert result.predicted is None
    assert "lower the energies" in result.no_prediction
    assert result.verdict in ("does not hold", "cannot be told")
    assert any("No prediction" in s for s in result.section().findings)
    assert result.phases == [""] * 4
    assert result.table()["predicted"].isna().all()
    json.dumps(result.to_dict(), allow_nan=False)


def test_advice_does_not_quote_what_is_undefined():
    """One small class alone has no pair, so that its cosine is undefined."""
    _, head, data = optimum([500, 500, 500, 1], noise=0.01)
    result = ls.collapse(head, data)
    assert math.isnan(result.minority_cosine.classifiers)
    assert result.phases[-1] in ("collapsed", "vanished")
    assert not any(word in s for s in result.advice for word in ("undefined", "nan"))


def test_the_table_names_every_convention():
    x, y, W, b = made_up()
    result = ls.collapse(linear(W, b), (torch.tensor(x), torch.tensor(y)))
    table = result.table().set_index("metric")
    assert (table["convention"].str.len() > 2).all()
    assert table.loc["NC1 Papyan", "value"] == table.loc["NC1 D", "value"] / 4
    # What is measured on these samples has no interval; what it estimates has.
    assert table.loc[["NC1 Papyan", "NC1 D"], ["low", "high"]].isna().all(axis=None)
    assert table.loc["NC1 D̂", "low"] < table.loc["NC1 D̂", "value"]
    assert table.loc["NC4", "high"] == result.interval["nc4"][1]
    assert pickle.loads(pickle.dumps(result)) == result
    assert "neural collapse at 'the network'" in str(result)
    assert f"NC4 {percent(result.nc4)};" in str(result)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_simplex_has_no_distance_from_one(classes):
    simplex = np.eye(classes) - 1 / classes
    assert max(shape_of(simplex)) < 1e-12
    assert cosines(simplex)[0, 1] == pytest.approx(-1 / (classes - 1))


X, Y = cases.vectors(), cases.labels()
NAN_LATER = torch.cat([X[:-1], X[-1:] * math.nan])
BAD = {
    "one class": (nn.Linear(6, 4), (X, Y * 0), {}, "All 60 samples have the label 0"),
    "no spread": (nn.Linear(6, 4), (X[:4], Y[:4]), {}, "4 samples in 4 classes"),
    "label": (nn.Linear(6, 4), (X, Y + 1), {}, "Label 4 has no row .*labels index the rows"),
    "negative": (nn.Linear(6, 4), (X, Y - 1), {}, "Label -1 has no row"),
    "nan weights": (
        linear(np.full((4, 6), math.nan)).float(),
        (X, Y),
        {},
        "returns NaN or infinite",
    ),
    "nan features": (nn.Linear(6, 4), (X * math.nan, Y), {}, "NaN or infinite"),
    "nan later": (nn.Linear(6, 4), (NAN_LATER, Y), {}, "features that enter .* contain NaN"),
    "no labels": (nn.Linear(6, 4), [X], {}, "yields no labels"),
    "counts": (nn.Linear(6, 4), (X, Y), {"counts": [1, 2, 3]}, "counts has 3 numbers"),
    "zero": (nn.Linear(6, 4), (X, Y), {"counts": [1, 2, 0, 3]}, "count of class 2 is 0"),
    "nan count": (nn.Linear(6, 4), (X, Y), {"counts": [1, 2, math.nan, 3]}, "is nan"),
    "head": (nn.Linear(6, 4), (X, Y), {"head": "fc"}, "no module head='fc'"),
    "no head": (nn.Sequential(nn.Linear(6, 4), nn.Tanh()), (X, Y), {}, "No linear step"),
    "interval": (nn.Linear(6, 4), (X, Y), {"uncertainty": "guess"}, "uncertainty='guess'"),
    "read once": (nn.Linear(6, 4), iter([(X[:9], Y[:9])] * 2), {"memory": "300B"}, "outgrown"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_a_sentence(case):
    model, data, more, sentence = BAD[case]
    with pytest.raises(ls.LawscopeError, match=sentence):
        ls.collapse(model, data, **more)


def test_a_generator_is_read_once():
    batches = ((X[i : i + 20], Y[i : i + 20]) for i in (0, 20, 40))
    assert ls.collapse(cases.sequential(), batches).settings["samples"] == 60


def _scan(net, data, memory):
    return ls.scan(net, data, memory=memory, settings={"separation": {"folds": 8}})


@pytest.mark.parametrize(("memory", "strategy"), [("1GB", "held"), ("3500B", "two-pass")])
def test_a_scan_measures_what_collapse_alone_measures(memory, strategy):
    data = [(X[i : i + 9], Y[i : i + 9]) for i in range(0, 60, 9)]
    torch.manual_seed(3)
    net = cases.ReusedActivation()
    alone, report = ls.collapse(net, data), _scan(net, data, memory)
    found = report.collapse
    assert found.settings["strategy"] == strategy
    assert report.separation.settings["passes"] == (1 if strategy == "held" else 6)
    assert found.nc1 == pytest.approx(alone.nc1, rel=1e-9)
    ends = found.population.interval
    assert ends == pytest.approx(alone.population.interval, rel=1e-9)
    assert found.interval == alone.interval
    assert found.energies == pytest.approx(alone.energies, rel=1e-12)
    assert (found.nc4, found.accuracy) == (alone.nc4, alone.accuracy)
    assert np.allclose(found.mean_cosines, alone.mean_cosines, atol=1e-12)


@pytest.mark.parametrize(
    ("last", "labels", "sentence"),
    [
        (nn.Tanh(), Y, "No linear step"),
        (nn.Linear(4, 1), Y % 2, "one row"),
        (nn.Identity(), Y + 90, "Label 90 has no row"),
    ],
)
def test_a_scan_leaves_out_what_does_not_apply(last, labels, sentence):
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), last)
    report = ls.scan(net, (X, labels))
    assert report.collapse is None
    assert sentence in report.skipped["collapse"]
    assert "collapse" not in report.to_dict()["results"]
    assert report.advice == report.separation.advice


def test_classes_drawn_at_random_have_no_minority():
    """Of 174 to 201 samples per class some were a "minority", and of few samples always."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(100):
        y = torch.tensor(np.concatenate([np.arange(10), rng.integers(0, 10, 90)]))
        result = ls.collapse(linear(np.eye(10)), (torch.eye(10, dtype=torch.float64)[y] + 0.1, y))
        if len(result.minority) < 10:
            found += 1
            continue
        assert "minority" not in f"{result} {result.table()}"
        assert "largest first" not in result.section().charts[0].scale_label
    assert found <= 4  # of a hundred draws, by a rule that errs once in a hundred


def test_a_minority_is_clearly_smaller():
    y = torch.tensor(np.repeat(np.arange(4), [60, 60, 40, 40]))
    head, data = linear(np.eye(4)), (torch.eye(4, dtype=torch.float64)[y] + 0.1, y)
    assert ls.collapse(head, data).minority.tolist() == [0, 1, 2, 3]  # 4 % of draws are like it
    for counts, minority in {(60, 60, 40, 40): [2, 3], (60, 60, 41, 41): [0, 1, 2, 3]}.items():
        given = ls.collapse(head, data, counts=counts)
        assert given.minority.tolist() == minority
        name = "minority cosine" if len(minority) == 2 else "mean cosine"
        assert f"{name} of classifiers" in given.table()["metric"].tolist()
