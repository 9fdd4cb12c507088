"""The choice of the learning rate, and the shared drawing of studies."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lawscope.laws.line import fit_line
from lawscope.studies.datasets import ImageData
from lawscope.studies.execute import execute
from lawscope.studies.figures import fitted, grid, law_grid, law_note, law_panel, overlay
from lawscope.studies.lab import Lab
from lawscope.studies.panels import choice, measured, rank_correlation, straightest, sweep
from lawscope.studies.plan import Network, Training
from lawscope.training.recipe import Recipe

NET = Training(
    Network.of("feedforward", depth=5), Recipe(epochs=2), ImageData(per_class=20), checkpoints=(0,)
)


@pytest.fixture(scope="module")
def shelf():
    runs = {r.training.key: r for r in execute(sweep(NET, [1e-4, 1e-2], seeds=2), {})}
    return SimpleNamespace(runs=runs, run=lambda training: runs[training.key])


def test_choice_takes_the_straightest_of_each_seed_and_keeps_all(shelf):
    trainings = sweep(NET, [1e-4, 1e-2], seeds=2)
    made = choice(Lab({}, shelf), trainings)
    assert [(run["lr"], run["seed"]) for run in made["runs"]] == [
        (t.recipe.lr, t.seed) for t in trainings
    ]
    for seed, chosen in enumerate(made["chosen"]):
        own = [run for run in made["runs"] if run["seed"] == seed]
        # two epochs fit nothing, so the most accurate is taken
        assert not any(run["fits"] for run in own)
        assert chosen["accuracy"] == max(run["accuracy"] for run in own)
        assert len(chosen["D"]) == len(chosen["D_interval"]) == 5


def test_measured_is_the_law_on_the_run(shelf):
    training = sweep(NET, [1e-2])[0]
    numbers, law = measured(Lab({}, shelf), training), Lab({}, shelf).separation(training)
    assert numbers["D"] == law.values.tolist()
    assert numbers["interval"]["r"] == list(law.fit.interval["pearson"])
    untrained = measured(Lab({}, shelf), training, epoch=0)
    unseen = measured(Lab({}, shelf), training, split="test")
    assert numbers["D"][0] == untrained["D"][0] != unseen["D"][0]
    assert numbers["D"][-1] not in (untrained["D"][-1], unseen["D"][-1])


def test_a_diverged_training_is_measured_as_such_and_never_preferred(shelf):
    trainings = sweep(NET, [1e-4, 1e-2])
    good = shelf.run(trainings[0])
    spoilt = {
        epoch: {
            name: torch.full_like(w, math.nan) if w.is_floating_point() else w
            for name, w in state.items()
        }
        for epoch, state in good.weights.items()
    }
    bad = dataclasses.replace(good, weights=spoilt, loss=math.nan, accuracy=0.0)
    broken = SimpleNamespace(run=lambda t: bad if t.recipe.lr == 1e-2 else good)
    made = choice(Lab({}, broken), trainings)
    assert made["runs"][1]["verdict"] == "diverged"
    assert made["runs"][1]["loss"] is None
    assert made["chosen"][0]["lr"] == 1e-4


def run(r, last=1.0, fits=True, accuracy=1.0):
    return {"r": r, "D": [9.0, last], "fits": fits, "accuracy": accuracy}


@pytest.mark.parametrize(
    ("runs", "index"),
    [
        ([run(-0.9), run(-0.99), run(-0.95)], 1),
        ([run(-0.9), run(-0.99, fits=False)], 0),
        ([run(-1.0, 2.0), run(-1.0 + 1e-15, 1.0)], 1),
        ([run(-0.9, fits=False, accuracy=0.5), run(0.3, fits=False, accuracy=0.8)], 1),
        ([run(None), run(-0.2)], 1),
        ([run(None, fits=False, accuracy=None), run(0.9, fits=False, accuracy=0.1)], 1),
    ],
)
def test_straightest(runs, index):
    assert straightest(runs) is runs[index]


def test_rank_correlation_needs_an_order():
    assert rank_correlation([1, 2, 3, 4], [4.0, 3.0, 2.0, 1.0]) == -1.0
    for a, b in (([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [5, 5, 5])):
        with pytest.raises(ValueError, match="three pairs"):
            rank_correlation(a, b)


# Drawing.

ROW = {
    "D": [30.0, 9.0, 4.0, 1.0],
    "D_interval": [[25.0, 35.0], [8.0, 10.0], [3.0, 5.0], [None, 2.0]],
    "r": -0.9951,
    "rho": 0.33,
    "interval": {"r": [-0.999, -0.99], "rho": [0.3, 0.36]},
    "verdict": "holds",
    "fits": True,
    "accuracy": 1.0,
}
DIVERGED = {**ROW, "D": None, "D_interval": None, "r": None, "rho": None, "verdict": "diverged"}


def test_fitted_is_the_line_of_the_law():
    line = fit_line(np.array(ROW["D"]))
    assert fitted(ROW["D"]) == pytest.approx(line.predict(np.arange(4.0)))


def test_a_panel_shows_points_line_interval_and_numbers():
    _, axes = grid(1, 1)
    axis = axes[0][0]
    law_panel(axis, ROW, "title")
    points, line = axis.get_lines()
    assert points.get_ydata().tolist() == ROW["D"]
    assert line.get_ydata().tolist() == pytest.approx(fitted(ROW["D"]))
    assert len(axis.collections) == 3  # one end is missing, so is its bar
    assert axis.get_yscale() == "log"
    assert axis.texts[0].get_text() == (
        "r = −0.995 [−0.999, −0.990]\nρ = 0.330 [0.300, 0.360]\nthe law holds"
    )


def test_a_panel_says_what_is_missing():
    assert law_note(DIVERGED) == "the training diverged"
    assert law_note({**DIVERGED, "verdict": "cannot be told"}) == "no line: D has no log"
    assert "fits 50.0 % of" in law_note({**ROW, "fits": False, "accuracy": 0.5})
    _, axes = grid(1, 1)
    law_panel(axes[0][0], DIVERGED)
    law_panel(axes[0][0], {**ROW, "D": [3.0, None, 0.0, 1.0], "D_interval": None})
    (points,) = axes[0][0].get_lines()
    assert points.get_xdata().tolist() == [0, 3]


def test_a_grid_labels_its_outside_and_hides_empty_places():
    figure = law_grid([[("a", [ROW]), ("b", [ROW, ROW])], [("c", [DIVERGED])]], "all")
    a, b, c, empty = figure.axes
    assert [axis.get_ylabel() != "" for axis in (a, b, c)] == [True, False, True]
    assert [axis.get_xlabel() != "" for axis in (a, b, c)] == [False, True, True]
    assert not empty.axison
    assert len(b.get_lines()) == 3  # the second seed behind the first
    assert figure.get_suptitle() == "all"


def test_an_overlay_names_every_network_that_has_a_curve():
    _, axes = grid(1, 1)
    overlay(axes[0][0], [("4", ROW), ("8", ROW), ("20", DIVERGED)], graded=True)
    assert [text.get_text() for text in axes[0][0].get_legend().get_texts()] == ["4", "8"]
