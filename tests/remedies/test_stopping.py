"""The rule on made-up measurements, and that watching changes nothing about a training."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import lawscope as ls
from lawscope.remedies import stopping
from lawscope.remedies.stopping import StopWhenLawHolds
from lawscope.training.loop import train
from lawscope.training.recipe import Recipe
from lawscope.zoo.networks.feedforward import feedforward

HOLDS, NOT, UNKNOWN = "holds", "does not hold", "cannot be told"


def data():
    torch.manual_seed(0)
    y = torch.arange(120) % 4
    return torch.randn(120, 20) + torch.randn(4, 20)[y], y


def small():
    return feedforward(3, inputs=20, width=8, classes=4), data()


@pytest.fixture
def verdicts(monkeypatch):
    """Measurements that say what the test wants, in order; r falls by 0.001 each time."""

    def become(*sequence):
        left = list(enumerate(sequence))

        def measure(model, loader, **settings):
            index, verdict = left.pop(0)
            r = -0.985 - index / 1000
            fit = SimpleNamespace(pearson=r, rho=0.5)
            return SimpleNamespace(fit=fit, verdict=verdict, values=[2.0, 1.0])

        monkeypatch.setattr(stopping, "separation", measure)

    return become


def test_it_stops_when_the_law_held_at_each_of_the_last_measurements(verdicts):
    verdicts(HOLDS, NOT, HOLDS, HOLDS, UNKNOWN, HOLDS, HOLDS, HOLDS)
    stop = StopWhenLawHolds(*small(), every=10, window=3)
    stopped = [epoch for epoch in range(1, 81) if stop(epoch)]
    assert stopped == [80]
    assert stop.epoch == 80
    assert list(stop.history) == [10, 20, 30, 40, 50, 60, 70, 80]


def test_it_says_what_r_was_at_the_last_measurements(verdicts):
    verdicts(HOLDS, HOLDS, HOLDS)
    stop = StopWhenLawHolds(*small(), every=1, window=2)
    stop(1)
    assert "1 of 2 measurements" in stop.sentence
    stop(2)
    assert "r over the last 2 is -0.986 to -0.985" in stop.sentence
    assert "in effect, first at epoch 2" in stop.sentence
    stop(3)
    assert "r over the last 2 is -0.987 to -0.986" in stop.sentence


def test_the_samples_are_judged_and_an_estimate_is_made_only_when_asked_for():
    model, pair = small()
    for settings, asked in (({}, False), ({"uncertainty": "jackknife"}, True)):
        stop = StopWhenLawHolds(model, pair, every=1, **settings)
        stop(1)
        assert (stop.history[1].population is not None) == asked
        assert stop.history[1].verdict == ls.separation(model, pair).verdict


def test_it_and_its_line_say_in_a_line_what_they_are():
    model, batches = small()
    stop = StopWhenLawHolds(model, batches, every=1)
    assert repr(stop) == "<StopWhenLawHolds: The law has not been measured yet.>"
    stop(1)
    assert str(stop) == stop.sentence
    assert repr(stop.history[1].fit).startswith("<LineFit: line through ")
    assert len(repr(stop.history[1].fit).splitlines()) == 1


def test_it_can_report_without_stopping(verdicts):
    verdicts(NOT, HOLDS, HOLDS, NOT)
    said = []
    stop = StopWhenLawHolds(*small(), every=5, window=2, first=6, stop=False, report=said.append)
    assert not any(stop(epoch) for epoch in range(1, 26))
    assert stop.epoch == 20
    assert len(said) == 4
    assert "not in effect yet" in said[1]
    assert stop.table()["verdict"].tolist() == [NOT, HOLDS, HOLDS, NOT]
    ax = stop.plot()
    assert ax.get_lines()[0].get_ydata() == pytest.approx(stop.table()["r"])
    assert ax.get_title(loc="left").endswith("in effect from epoch 20")


def test_lawscopes_own_loop_ends_there(verdicts):
    verdicts(HOLDS, HOLDS)
    x, y = data()
    done = []
    stop = StopWhenLawHolds(*small(), every=2, window=2)

    def after(epoch):
        done.append(epoch)
        return stop(epoch)

    train(feedforward(3, inputs=20, classes=4), x, y, Recipe(epochs=50), after_epoch=after)
    assert done == [1, 2, 3, 4]


def test_watching_leaves_the_training_as_it_was():
    x, y = data()
    plain = feedforward(5, inputs=20, width=16, classes=4)
    watched = copy.deepcopy(plain)
    recipe = Recipe(lr=3e-3, epochs=6)
    train(plain, x, y, recipe)
    stop = StopWhenLawHolds(watched, (x, y), every=2, stop=False)
    train(watched, x, y, recipe, after_epoch=stop)
    assert list(stop.history) == [2, 4, 6]
    ours, theirs = watched.state_dict(), plain.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert stop.history[6].values == pytest.approx(ls.separation(watched, (x, y)).values)
    assert stop.history[2].values[-1] != stop.history[6].values[-1]


def test_what_cannot_be_asked_for():
    net, pair = small()
    with pytest.raises(ls.LawscopeError, match="at least 1"):
        StopWhenLawHolds(net, pair, every=0)
    with pytest.raises(ls.LawscopeError, match="used up"):
        StopWhenLawHolds(net, iter([]))
    assert "not been measured" in StopWhenLawHolds(net, pair).sentence


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"statoins": "layers"}, "did you mean stations"),
        ({"stations": "nowhere*"}, "nowhere"),
        ({"uncertainty": "jacknife"}, "uncertainty='jacknife'"),
        ({"mode": "test"}, "mode='test'"),
        ({"control": "fresh"}, "control='fresh'"),
        ({"loader": []}, "empty"),
        ({"loader": 7}, "cannot be iterated"),
        ({"loader": [data()[0]]}, "no labels"),
        ({"loader": (data()[0], 0 * data()[1])}, "one class"),
        ({"loader": (data()[0][:, :7], data()[1])}, "mat1 and mat2"),
    ],
)
def test_mistakes_are_found_before_the_training(settings, said):
    """Not after ``every`` epochs of it."""
    net, pair = small()
    with pytest.raises((ls.LawscopeError, RuntimeError), match=said):
        StopWhenLawHolds(net, **({"loader": pair} | settings))


def test_the_first_look_draws_no_random_numbers():
    net, pair = small()
    shuffled = DataLoader(TensorDataset(*pair), 30, shuffle=True)
    before = torch.get_rng_state()
    StopWhenLawHolds(net, shuffled, mode="train")
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    "wrong",
    [
        {"every": "3"}, {"every": None}, {"every": 2.5}, {"every": 0}, {"window": 1.5},
        {"window": 0}, {"first": "a"}, {"first": -1}, {"report": 5},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_sentences(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ls.LawscopeError, match=f"{name}={value!r}"):
        StopWhenLawHolds(*small(), **wrong)


@pytest.mark.parametrize("epoch", [None, "ten", 2.5, -1])
def test_an_epoch_that_is_none_is_a_sentence(epoch):
    with pytest.raises(ls.LawscopeError, match=f"epoch={epoch!r}"):
        StopWhenLawHolds(*small())(epoch)
