"""The law of data separation on the table of networks: fit, advice, settings, bad input."""

import io
import json
import math
from collections import deque
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
import torch
from rich.console import Console
from tests import cases, oracles
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import lawscope as ls
from lawscope.data.batches import Batch
from lawscope.data.row_hash import hash_samples
from lawscope.errors import LawscopeError, LawscopeWarning

mpl.use("Agg")
CASE = cases.CASES[0]
X, Y = cases.vectors(), cases.labels()
NAMES = ["a", "b", "c", "d"]


class Halving(nn.Module):
    """Ten layers whose within-class spread halves each time: D_l = D_0 / 4^l exactly."""

    def __init__(self, factor=0.5, depth=9):
        super().__init__()
        self.factor = factor
        self.steps = nn.ModuleList(nn.Identity() for _ in range(depth))

    def forward(self, x):
        x, means = x[:, :6], x[:, 6:]
        for step in self.steps:
            x = step(means + (x - means) * self.factor)
        return x


def halving_data(samples=400):
    x, y = cases.vectors(samples), cases.labels(samples)
    means = torch.stack([x[y == k].mean(0) for k in range(cases.CLASSES)])[y]
    return torch.cat([x, means], dim=1), y


def test_a_network_that_obeys_the_law_exactly():
    result = ls.separation(Halving(), halving_data(), stations="steps.*")
    assert result.fit.rho == pytest.approx(0.25, rel=1e-4)
    assert result.fit.half_life == pytest.approx(0.5, rel=1e-4)
    assert result.fit.pearson == pytest.approx(-1, abs=1e-6)
    assert result.verdict == "holds"
    assert result.ratios == pytest.approx(np.full(8, 0.25), rel=1e-4)
    assert result.sensitivity == pytest.approx(result.least_sensitivity, rel=1e-6)
    population = result.population
    assert population.verdict == "holds"
    assert population.settled.all()
    assert population.needed is None
    low, high = population.fit.interval["rho"]
    assert 0.24 < low < 0.25 < high < 0.26
    assert result.fit.interval == {}


def test_an_untrained_network_does_not_obey():
    result = ls.separation(CASE.model(), list(CASE.batches()))
    assert result.verdict == "cannot be told"
    assert "3 stations are too few" in result.reason
    torch.manual_seed(0)
    layers = [layer for _ in range(7) for layer in (nn.Linear(6, 6), nn.Tanh())]
    deep = ls.separation(nn.Sequential(*layers), (cases.vectors(400), cases.labels(400)))
    assert deep.verdict == deep.population.verdict == "does not hold"


def test_results_are_data():
    result = ls.separation(CASE.model(), list(CASE.batches()))
    document = result.to_dict()
    assert document["values"] == pytest.approx(result.values.tolist())
    assert document["settings"]["samples"] == cases.SAMPLES
    table = result.table()
    assert list(table["station"]) == list(result.stations)
    assert table["D"].to_numpy() == pytest.approx(result.values)
    assert table["population"].to_numpy() == pytest.approx(result.population.values)
    assert table[["low", "high"]].to_numpy() == pytest.approx(result.population.interval)
    axes = result.plot()
    assert axes.get_yscale() == "log"
    assert result.plot(ax=axes) is axes
    with pytest.raises(AttributeError):
        result.values = 0  # frozen


def test_robustness_to_first_order_and_classwise_fuzziness():
    """R moves by R·Σ(D_l/D_{l+1})·ε when every ratio moves by ε; classes add up to the whole."""
    result = ls.separation(CASE.model(), list(CASE.batches()))
    epsilon = 1e-6
    moved = np.prod(result.ratios + epsilon) - result.reduction
    assert moved / epsilon == pytest.approx(result.reduction * result.sensitivity, rel=1e-4)
    assert result.classwise @ (result.counts / result.counts.sum()) == pytest.approx(result.values)


def deep_network():
    """Make a network in float64: in float32 a layer rounds by the size of the batch."""
    torch.manual_seed(3)
    layers = [layer for _ in range(4) for layer in (nn.Linear(6, 6), nn.Tanh())]
    return nn.Sequential(*layers).double()


def population_of(result):
    """Return every number that is said of the population."""
    found = result.population
    ends = np.array(list(found.fit.interval.values()))
    arrays = (found.values, found.interval, found.settled, found.shares, found.influence, ends)
    return np.concatenate([array.ravel() for array in arrays])


@pytest.mark.parametrize("samples", [36, 400])  # with open ends, and settled
def test_neither_strategy_nor_order_nor_batches_change_anything(samples):
    x, y = cases.vectors(samples).double(), cases.labels(samples)
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(0))
    shuffled = [(x[rows], y[rows]) for rows in order.split(29)]
    plain = ls.separation(deep_network(), (x, y))
    assert plain.population.settled.all() == (samples == 400)
    assert np.isinf(plain.population.interval).any() == (samples == 36)
    for strategy, passes in (("held", 1), ("scatter", 1), ("two-pass", 2)):
        other = ls.separation(deep_network(), shuffled, strategy=strategy)
        assert other.settings["passes"] == passes
        assert other.values == pytest.approx(plain.values, rel=1e-9)
        assert other.verdict == plain.verdict
        numbers = population_of(other)
        assert numbers == pytest.approx(population_of(plain), rel=1e-9, nan_ok=True)
        there, here = other.population, plain.population
        assert (there.verdict, there.reason) == (here.verdict, here.reason)
        assert there.needed == here.needed


def test_a_tight_budget_takes_more_passes_and_changes_nothing():
    data = list(CASE.batches())
    wide = ls.separation(CASE.model(), data, uncertainty=None)
    tight = ls.separation(CASE.model(), data, uncertainty=None, memory="600B")
    assert tight.settings["passes"] == 6  # three stations, one by one, twice each
    assert tight.values == pytest.approx(wide.values, rel=1e-9)


def test_without_uncertainty_nothing_is_said_of_the_population():
    data = halving_data()
    none = ls.separation(Halving(), data, stations="steps.*", uncertainty=None)
    assert none.population is None
    assert none.verdict == "holds"
    assert none.table()[["population", "low", "high"]].isna().all(axis=None)
    assert "in the population" not in str(none)


def test_a_whole_training_set_is_its_own_population():
    model, data = deep_network(), (cases.vectors().double(), cases.labels())
    whole = ls.separation(model, data, whole=True)
    sampled = ls.separation(model, data)
    assert whole.values == pytest.approx(sampled.values, rel=1e-12)
    found = whole.population
    assert np.array_equal(found.interval, np.stack([whole.values, whole.values], axis=1))
    assert found.fit.interval["rho"] == (whole.fit.rho, whole.fit.rho)
    assert (found.verdict, found.needed) == (whole.verdict, None)
    steps = np.diff(np.log(whole.values))
    assert np.allclose(found.interval_of(np.diff), [steps, steps])


@pytest.mark.parametrize(
    ("name", "granularity"), [("residual", "blocks"), ("tokens", "blocks"), ("wrapped", "layers")]
)
def test_by_default_blocks_of_residual_networks_and_layers_of_others(name, granularity):
    case = next(c for c in cases.CASES if c.name == name)
    default = ls.separation(case.model(), list(case.batches()))
    named = ls.separation(case.model(), list(case.batches()), stations=granularity)
    assert default.granularity == named.granularity == granularity
    assert default.stations == named.stations
    assert np.array_equal(default.values, named.values)


def test_another_granularity_only_where_its_stations_are_measured_anyway():
    case = next(c for c in cases.CASES if c.name == "residual")
    layers = ls.separation(case.model(), list(case.batches()), stations="layers")
    assert set(layers.granularities) == {"layers", "blocks"}
    blocks = ls.separation(case.model(), list(case.batches()), stations="blocks")
    assert set(blocks.granularities) == {"blocks"}


def test_class_names_follow_sorted_labels():
    result = ls.separation(CASE.model(), (X, 10 * Y), class_names=NAMES)
    assert result.classes.tolist() == [0, 10, 20, 30]
    assert result.class_names == ("a", "b", "c", "d")
    some = ls.separation(CASE.model(), (X[Y != 1], Y[Y != 1]), class_names=NAMES)
    assert some.class_names == ("a", "c", "d")


def test_a_class_with_one_sample_is_counted_and_warned_about():
    y = Y.clone()
    y[5] = 99
    with pytest.warns(LawscopeWarning, match="single sample"):
        result = ls.separation(CASE.model(), (X, y))
    assert result.counts.tolist()[-1] == 1
    assert result.values[0] == pytest.approx(oracles.fuzziness(X, y), rel=1e-9)


def test_a_dead_layer_is_named_and_not_given_a_number():
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU())
    with torch.no_grad():
        net[2].weight.zero_()
        net[2].bias.fill_(-1.0)
    with pytest.warns(LawscopeWarning, match="'3' all class means coincide"):
        result = ls.separation(net, (X, Y))
    assert np.isnan(result.values[-1])
    assert result.to_dict()["values"][-1] == "NaN"
    assert result.verdict == "cannot be told"


def test_perfect_collapse_is_said_without_numpy_noise():
    net = nn.Sequential(*[nn.Identity() for _ in range(4)])
    x = torch.nn.functional.one_hot(Y, 6).float()
    with pytest.warns(LawscopeWarning, match="exactly on its class mean"):
        result = ls.separation(net, (x, Y), stations=["input", "1", "2", "3"])
    assert (result.values == 0).all()
    assert result.verdict == "cannot be told"
    json.dumps(result.to_dict(), allow_nan=False)


class Broken(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        x = x.clone()
        x[0, 0] = self.value
        return x


def rising():
    """A linear layer with positive weights: ReLU would hide infinity behind negative ones."""
    layer = nn.Linear(5, 5)
    with torch.no_grad():
        layer.weight.abs_()
    return layer


def chain(*middle):
    return nn.Sequential(nn.Linear(6, 5), *middle, nn.ReLU())


NET, NAN, INF = cases.sequential(), Broken(float("nan")), Broken(float("inf"))
BAD = {
    "no labels": (NET, [X], "yields no labels"),
    "one tensor": (NET, X, "without labels"),
    "one class": (NET, (X, 0 * Y), "at least two classes"),
    "one sample each": (NET, (X, torch.arange(len(Y))), "no class has two"),
    "empty": (NET, [], "loader is empty"),
    "not iterable": (NET, 7, "cannot be iterated"),
    "out of step": (NET, [(X, Y[:-1])], "60 samples in the batch, but labels of shape"),
    "soft labels": (NET, [(X, torch.rand(len(Y), 4).softmax(1))], r"labels\.argmax\(1\)"),
    "nan": (chain(NAN, nn.ReLU(), nn.Linear(5, 5)), (X, Y), "'4' is the first with NaN or inf"),
    "inf": (chain(nn.ReLU(), INF, rising()), (X, Y), "'4' is the first with NaN or infinite"),
    "not a module": (print, (X, Y), "not a torch.nn.Module"),
    "no layers": (nn.Identity(), (X, Y), "fewer than two layers"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("strategy", [None, "two-pass", "scatter"])
def test_bad_input_is_one_clear_sentence(name, strategy):
    model, data, sentence = BAD[name]
    with pytest.raises(LawscopeError, match=sentence) as error:
        ls.separation(model, data, strategy=strategy)
    assert "\n" not in str(error.value)


def test_integer_and_complex_activations_name_the_station():
    class Fickle(nn.Module):
        def __init__(self, dtype):
            super().__init__()
            self.a, self.kind, self.b = nn.Linear(6, 5), nn.Identity(), nn.Linear(5, 4)
            self.dtype = dtype

        def forward(self, x):
            h = torch.relu(self.a(x))
            return self.b(self.kind(h if len(h) == 11 else h.to(self.dtype)).real.float())

    for dtype, word in ((torch.int32, "integer"), (torch.complex64, "complex")):
        with pytest.raises(LawscopeError, match=f"'kind' gives {word} activations"):
            ls.separation(Fickle(dtype), list(CASE.batches()), stations=["input", "kind"])


@pytest.mark.parametrize("measure", [ls.separation, ls.scan])
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"uncertainty": "bootstrap"}, "'bootstrap' is not known; choose 'jackknife' or None"),
        ({"weighting": "none"}, "choose 'count'"),
        ({"pooling": "median"}, "choose auto"),
        ({"memory": "much"}, "not a size"),
        ({"stations": []}, "is empty"),
        ({"stations": 3}, "stations=3 is not known; choose 'layers'"),
        ({"stations": None}, "stations=None is not known"),
        ({"stations": [3]}, r"stations=\[3\] is not known"),
        ({"stations": (n for n in ["input"])}, "stations=<generator .* is not known"),
        ({"class_names": 3}, "class_names=3 is not a list of names"),
        ({"class_names": "abcd"}, "class_names='abcd' is not a list"),
        ({"class_names": dict(enumerate(NAMES))}, "is not a list"),
        ({"class_names": np.array("a")}, "is not a list"),
        ({"class_names": iter(NAMES)}, "is not a list"),
        *(({"folds": n}, "folds=.* whole number; give at least 2") for n in ("x", 2.5, [4])),
    ],
)
def test_settings_of_another_type_or_value_are_sentences(measure, settings, sentence):
    with pytest.raises(LawscopeError, match=sentence):
        measure(CASE.model(), list(CASE.batches()), **settings)


def test_a_jackknife_needs_two_folds():
    with pytest.raises(LawscopeError, match="too few for a jackknife"):
        ls.separation(CASE.model(), list(CASE.batches()), folds=1)


def test_a_users_own_error_is_in_the_sentence_and_its_cause():
    class Angry(nn.Module):
        def forward(self, x):
            raise RuntimeError("my own words")

    said = r"network raised RuntimeError: my own words \(on a batch of shape \(\d+, 6\)\); check"
    with pytest.raises(ls.LawscopeError, match=said) as raised:
        ls.separation(nn.Sequential(nn.Linear(6, 5), Angry()), list(CASE.batches()))
    assert type(raised.value.__cause__) is RuntimeError


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors:UserWarning")
def test_a_layer_without_features_is_named():
    widths = ((6, 5), (5, 0), (0, 5))
    body = [part for pair in widths for part in (nn.Linear(*pair), nn.ReLU())]
    model = nn.Sequential(*body, nn.Linear(5, 4))
    with pytest.raises(ls.LawscopeError, match=r"Station '3' has no features"):
        ls.separation(model, (X, Y))
    assert len(ls.separation(model, (X, Y), stations=["input", "1"]).table())


def test_datasets_and_other_forms_of_data():
    expected = ls.separation(CASE.model(), (X, Y)).values
    dataset = TensorDataset(X, Y)
    for data in (
        dataset,
        DataLoader(dataset, batch_size=7),
        (X.numpy(), Y.numpy()),
        [(X.numpy(), Y.tolist())],
        [[X, Y]],
        [{"input": X, "labels": Y}],
        [({"input": X}, Y)],
    ):
        assert ls.separation(CASE.model(), data).values == pytest.approx(expected, rel=1e-6)


def test_what_is_a_list_or_a_number_in_other_clothes_is_taken():
    data = list(CASE.batches())
    plain = ls.separation(CASE.model(), data, stations=["input", "2"], folds=4, class_names=NAMES)
    arrays = {"stations": np.array(["input", "2"]), "class_names": np.array(NAMES)}
    other = ls.separation(CASE.model(), data, folds=np.int64(4), **arrays)
    assert other.to_dict()["settings"]["selector"] == ["input", "2"]
    assert other.class_names == plain.class_names == ("a", "b", "c", "d")
    assert all(type(name) is str for name in other.class_names)
    assert other.population.interval == pytest.approx(plain.population.interval)
    assert other.population.influence.shape[0] == 4


class Counting(nn.Module):
    """Counts the samples that pass through."""

    def __init__(self):
        super().__init__()
        # Numbers, lists and dicts would be put back after measuring.
        self.inner, self.batches = CASE.model(), deque()

    @property
    def samples(self):
        return sum(self.batches)

    def forward(self, x):
        self.batches.append(len(x))
        return self.inner(x)


def by_class():
    """All samples sorted by label, fifteen of each class."""
    order = Y.argsort(stable=True)
    return TensorDataset(X[order], Y[order])


@pytest.mark.parametrize("measure", [ls.separation, ls.scan])
@pytest.mark.parametrize(
    ("data", "samples"),
    [
        ((X, Y), 11),
        (list(DataLoader(by_class(), batch_size=15)), 11),
        (DataLoader(TensorDataset(X, Y), batch_size=15), 11),
        (DataLoader(by_class(), batch_size=15), 11 + cases.SAMPLES),
    ],
    ids=["pair", "list", "first batch", "first pass"],
)
def test_too_few_names_are_noticed_early(measure, data, samples):
    model = Counting()
    with pytest.raises(LawscopeError, match=r"There are 2 class names for .*; give one per class"):
        measure(model, data, class_names=["a", "b"], memory="3KB", uncertainty=None)
    # A scan also looks for the head with a few samples.
    assert model.samples in (samples, samples + 11)


def test_more_names_than_labels_can_index_are_noticed_after_the_first_pass():
    model, data = Counting(), (X, 10 * Y)
    with pytest.raises(LawscopeError, match="5 class names for 4 classes"):
        ls.separation(model, data, class_names=[*NAMES, "e"], strategy="two-pass")
    assert model.samples == 11 + cases.SAMPLES


def test_a_sampler_may_show_fewer_classes_than_its_data_has():
    rows = torch.nonzero(Y < 2)[:, 0].tolist()
    dataset = TensorDataset(X, Y)
    loader = DataLoader(dataset, batch_size=9, sampler=SubsetRandomSampler(rows))
    result = ls.separation(CASE.model(), loader, class_names=["a", "b"])
    assert result.class_names == ("a", "b")


def test_too_few_samples_for_any_interval_leave_the_population_open():
    data = (cases.vectors(8).double(), torch.arange(8) % 4)
    two = ls.separation(deep_network(), data)
    assert np.isinf(two.population.interval[:, 1]).all()
    assert two.population.verdict == "cannot be told"
    assert "2 samples per class are too few" in two.population.reason
    assert two.population.needed > 2
    # One sample of each class in each fold: without either there is no spread.
    x, y = cases.vectors(400).double(), cases.labels(400)
    group = 4 * (hash_samples(Batch((x,), {}, y)) % 2) + y
    rows = [int(torch.nonzero(group == g)[0, 0]) for g in range(8)]
    assert ls.separation(deep_network(), (x[rows], y[rows]), folds=2).population is None


class Shared(nn.Module):
    """One ReLU module after two layers, a function after the third."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = (nn.Conv1d(8, 8, 3, padding=1) for _ in range(3))
        self.relu, self.fc = nn.ReLU(), nn.Linear(48, 3)

    def forward(self, x):
        x = self.relu(self.conv2(self.relu(self.conv1(x))))
        return self.fc(torch.relu(self.conv3(x)).flatten(1))


def test_stations_are_shown_after_the_layers_they_complete():
    torch.manual_seed(0)
    result = ls.separation(Shared(), (torch.randn(90, 8, 6), torch.arange(90) % 3))
    shown = ("input", "conv1 → relu", "conv2 → relu#2", "conv3 → relu()")
    assert result.shown == shown
    assert list(result.table()["station"]) == ["input", "relu", "relu#2", "relu()"]
    assert list(result.table()["completes"]) == ["", "conv1", "conv2", "conv3"]
    section = result.section()
    assert [row[1] for row in section.tables[0].rows] == list(shown)
    assert tuple(section.charts[0].stations) == shown
    console = Console(width=100, file=io.StringIO())
    console.print(result)
    assert all(name in console.file.getvalue() for name in shown)
    broken = replace(result, fit=replace(result.fit, half_life=math.inf))
    assert "half-life ∞" in str(broken)
    assert "half-life ∞" in str(broken.fit)


def test_many_classes_and_little_memory_have_four_folds():
    torch.manual_seed(0)
    y = torch.arange(240) % 60
    x = torch.randn(240, 30) + torch.randn(60, 30)[y]
    net = nn.Sequential(nn.Linear(30, 20), nn.Tanh(), nn.Linear(20, 20))
    assert ls.separation(net, (x, y)).settings["replicates"] == 4
    # Not counted beforehand, and wider than classes are many: the first batch does not decide.
    net[2], data = nn.Linear(20, 1001), list(zip(x, y, strict=True))
    for size in (8, 240):
        found = ls.separation(net, DataLoader(data, batch_size=size))
        assert found.settings["replicates"] == 8
    net[2] = nn.Linear(20, 20)
    few = y % 3
    table = 16 * 3 * 4 * (30 + 20 + 20)
    with pytest.warns(ls.LawscopeWarning, match="come from 4 folds"):
        found = ls.separation(net, [(x, few)], memory=table, strategy="two-pass")
    assert (found.settings["replicates"], found.settings["passes"]) == (4, 2)
