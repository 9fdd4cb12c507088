"""The story of the rare classes, against networks trained alone and the model asked directly."""

import json

import numpy as np
import pytest
import torch

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.remedies.rescue import _oversample, rescue_rare_classes
from lawscope.training.loop import train
from lawscope.training.recipe import Recipe
from lawscope.zoo.images.arrays import as_inputs
from lawscope.zoo.images.catalogue import load
from lawscope.zoo.images.sampling import balanced
from lawscope.zoo.networks.feedforward import feedforward

SMALL = {"common": 100, "few": 2, "depth": 3, "weight_decay": 0.05, "epochs": 30, "seeds": 2}


@pytest.fixture(scope="module")
def story():
    told = []
    return rescue_rare_classes(**SMALL, tell=told.append), told


def test_merged_rare_classes_come_back(story):
    found, told = story
    assert found.merged == ((5, 6, 7, 8, 9),) * 2
    names = [each.name for each in found.attempts]
    assert names == ["as it is", "at the model's rate", "equal shares"]
    before, after, _ = found.attempts
    assert min(before.cosine) > 0.9 > max(after.cosine)
    assert min(after.rare) > max(before.rare) + 0.2
    assert min(after.overall) > max(before.overall)
    assert sum("Sandal, Shirt, Sneaker, Bag and Ankle boot share" in each for each in told) == 2
    assert any(f"{found.least_rate:.3g} times as often" in each for each in told)


def test_the_rate_is_the_least_that_the_model_separates_at(story):
    found, _ = story
    energies = found.settings["energies"]
    counts = np.array([100.0] * 5 + [2.0] * 5)
    floor = 100 / ls.peel(counts, *energies).threshold
    assert found.least_rate == pytest.approx(1.005 * floor / 2)
    lifted = np.maximum(counts, 2 * found.least_rate)
    assert ls.peel(lifted, *energies).groups[-1].phase == "separated"


def test_every_number_is_that_of_a_network_trained_alone():
    """Two epochs, in which rounding has not grown yet."""
    short = SMALL | {"epochs": 2}
    found = rescue_rare_classes(**short)
    data = load("fashion-mnist-10x10")
    test, labels = as_inputs(data.x_test), data.y_test
    for seed in range(2):
        x, y = balanced(data.x_train, data.y_train, [100] * 5 + [2] * 5, seed)
        torch.manual_seed(seed)
        net = feedforward(3)
        recipe = Recipe("momentum", 0.1, 2, weight_decay=0.05, seed=seed)
        train(net, as_inputs(x), torch.from_numpy(y), recipe)
        right = net.eval()(test).argmax(dim=1).numpy() == labels
        assert found.attempts[0].overall[seed] == pytest.approx(right.mean(), abs=0.005)
        assert found.attempts[0].rare[seed] == pytest.approx(right[labels >= 5].mean(), abs=0.005)


def test_where_nothing_merged_nothing_is_oversampled_and_that_is_said():
    told = []
    short = SMALL | {"weight_decay": 0.0, "epochs": 10}
    found = rescue_rare_classes(**short, tell=told.append)
    assert len(found.attempts) == 1
    assert found.merged == ((), ())
    assert str(found).startswith("no classes share a classifier")
    assert any("keeps these classes apart without oversampling" in each for each in told)


@pytest.mark.parametrize("rate", [1.0, 1.3, 2.5, 7.0])
def test_rare_samples_are_repeated_in_turn_and_others_stay(rate):
    y = torch.tensor([0, 1, 0, 1, 1, 1, 0, 2, 0, 2])
    x = torch.arange(10.0)[:, None]
    drawn, labels = _oversample((x, y), np.array([1, 2]), rate)
    often = np.bincount(drawn.flatten().int().numpy(), minlength=10)
    assert (y[drawn.flatten().long()] == labels).all()
    assert (often[y.numpy() == 0] == 1).all()
    for label, size in ((1, 4), (2, 2)):
        mine = often[y.numpy() == label]
        assert mine.sum() == np.ceil(rate * size)
        assert np.ptp(mine) <= 1


def test_it_is_saved_as_a_page_and_comes_back(story, tmp_path):
    found, _ = story
    json.dumps(found.to_dict(), allow_nan=False)
    page = found.save(tmp_path / "report.html")
    assert ls.load(page) == found
    assert "Rare classes, before and after" in page.read_text(encoding="utf-8")
    assert found.table().shape == (6, 6)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"few": 100}, "5 rare classes of 100 samples beside 100 are not an imbalance"),
        ({"common": 600}, "few < common ≤ 500"),
        ({"rare_classes": 10}, "take 2 to 9 rare classes"),
        ({"seeds": 0}, "seeds=0 trains nothing"),
        ({"lr": 1e6}, "diverged at lr 1e\\+06"),
    ],
)
def test_settings_that_make_no_story_are_refused(changes, said):
    with pytest.raises(LawscopeError, match=said):
        rescue_rare_classes(**SMALL | changes)
