"""The choice of the learning rate, and the shared drawing of studies."""

import dataclasses
import math
import operator
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lawscope.laws.line import fit_line
from lawscope.studies.datasets import ImageData
from lawscope.studies.execute import execute
from lawscope.studies.figures import (
    colours,
    fitted,
    grid,
    law_grid,
    law_note,
    law_panel,
    note,
    overlay,
)
from lawscope.studies.lab import Lab
from lawscope.studies.panels import (
    FIRST_SEED,
    Panels,
    by_panel,
    choice,
    collect,
    compare,
    each_median,
    mean,
    measured,
    medians,
    middle,
    pick,
    presets,
    rank_correlation,
    spread,
    straightest,
    sweep,
    yes_or_no,
)
from lawscope.studies.plan import Network, Training
from lawscope.studies.study import Claim, NotTried
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
    for seed, chosen in enumerate(made["chosen"], FIRST_SEED):
        own = [run for run in made["runs"] if run["seed"] == seed]
        # two epochs fit nothing, so the most accurate is taken
        assert not any(run["fits"] for run in own)
        assert chosen["accuracy"] == max(run["accuracy"] for run in own)
        assert len(chosen["D"]) == 5


def test_measured_is_the_law_on_the_run(shelf):
    training = sweep(NET, [1e-2])[0]
    numbers, law = measured(Lab({}, shelf), training), Lab({}, shelf).separation(training)
    assert numbers["D"] == law.values.tolist()
    assert (numbers["r"], numbers["rho"]) == (law.fit.pearson, law.fit.rho)
    # On all of the data that there is: nothing is estimated.
    assert numbers["verdict"] == law.verdict
    assert law.population is None
    assert (numbers["D_interval"], numbers["interval"]) == (None, {})
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


def test_presets_change_the_settings_of_the_paper():
    assert presets({"epochs": 600, "seeds": 3}, smoke={"epochs": 2}) == {
        "paper": {"epochs": 600, "seeds": 3},
        "cpu": {"epochs": 600, "seeds": 3},
        "smoke": {"epochs": 2, "seeds": 3},
    }


def test_panels_are_the_cells_of_a_grid_with_their_candidates():
    def candidates(settings, depth):
        return sweep(Training(Network.of("feedforward", depth=depth)), [1e-3, 3e-3])

    panels = Panels(candidates, depth="depths")
    assert panels.cells({"depths": [4, 8]}) == [{"depth": 4}, {"depth": 8}]
    assert len(panels.plan({"depths": [4, 8]})) == 4


def test_a_sweep_has_every_rate_and_seed():
    assert [(t.recipe.lr, t.seed, t.recipe.seed) for t in sweep(NET, [0.1, 0.3], seeds=2)] == [
        (0.1, 10, 10), (0.3, 10, 10), (0.1, 11, 11), (0.3, 11, 11),
    ]  # fmt: skip


def test_numbers_by_panel_by_label_and_by_settings():
    rows = [{"fits": True, "r": -0.99}, {"fits": False, "r": -0.98}]
    panels = [{"depth": 8, "chosen": rows}]
    assert by_panel(panels, "{depth} layers", "r") == {"8 layers": [-0.99, None]}
    assert by_panel(panels, "", "r", fitting=False) == {"": [-0.99, -0.98]}
    assert pick(panels, depth=8) is panels[0]
    programs = [{"K": 3, "gap": 0.1}, {"K": 3, "gap": 0.2}, {"K": 4, "gap": 0}]
    read = collect("programs", "K = {K}", "gap")
    assert read({"programs": programs}) == {"K = 3": [0.1, 0.2], "K = 4": [0]}
    for absent in (lambda: by_panel([], "", "r"), lambda: read({"programs": []})):
        with pytest.raises(NotTried, match="this preset has no"):
            absent()
    with pytest.raises(NotTried, match="no panel depth 4"):
        pick(panels, depth=4)


def test_networks_are_compared_seed_by_seed():
    a = [{"seed": s, "r": -0.75, "fits": s != 1} for s in range(3)]
    b = [{"seed": s, "r": -0.25, "fits": True} for s in (2, 1, 0)]
    assert compare(a, b, "r", operator.sub) == [-0.5, None, -0.5]
    assert compare(a, b, "r", operator.truediv, fitting=False) == [3.0, 3.0, 3.0]


def test_numbers_over_seeds():
    assert middle([3.0, None, 1.0, 2.0]) == 2.0
    assert math.isnan(middle([None, math.nan]))
    assert mean([{"cosine": 0.25}, {"cosine": 0.75}], "cosine") == 0.5
    with pytest.raises(NotTried, match="a network has no cosine"):
        mean([{"cosine": 0.25}, {}], "cosine")
    assert spread([{"a": 0.25}, {"a": 0.75}], "a", 1, 100) == "50.0 [25.0, 75.0]"
    assert spread([{"a": 0.25}, {"a": None}], "a", 1) == "–"
    assert spread([{"a": 0.25}], "a", 1, 100, over=[{"a": 0.5}]) == "−25.0"


def test_answers():
    rises = yes_or_no(lambda x: x > 0)
    assert rises({"a": [1.0, 2.0]}) == "yes"
    assert rises(-1.0) == "no"
    assert rises({"a": [1.0, None, 2.0]}) == "in 2 of 3 seeds"
    several = {"a": [1.0, -2.0], "b": [1.0], "c": [None]}
    assert rises(several) == "yes in b; no in c; 1 of 2 seeds in a"
    many = {f"K = {k}, R = 2": [1.0] for k in range(8)} | {"K = 9, R = 2": [-1.0]}
    assert rises(many) == "yes in 8 of 9 panels; no in K = 9, R = 2"
    assert medians({"a": [1.0, 2.0, 9.0], "b": [4.0]}) == "2.00 to 4.00"
    assert medians({"a": [1.5]}) == "1.50"
    assert each_median()({"a": [1.0, 2.0, 9.0], "b": 4, "c": [-0.5]}) == "a: 2.00; b: 4; c: −0.500"


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
    assert axis.get_legend().get_title().get_text() == (
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


def test_a_note_writes_what_a_claim_measured():
    claim = Claim("at least ten times", "", lambda n: n["ratio"], lambda x: x >= 10)
    words = note("D of width 20 over width 100", claim, {"ratio": [15.0, 12.0, 18.0]})
    assert words == "D of width 20 over width 100: 15.0 [12.0, 18.0]"


def test_colours_are_distinct_however_many():
    assert len(set(colours(12))) == 12


def test_a_grid_labels_its_outside_and_hides_empty_places():
    figure = law_grid([[("a", [ROW]), ("b", [ROW, ROW])], [("c", [DIVERGED])]], "all")
    a, b, c, empty = figure.axes
    assert [axis.get_ylabel() != "" for axis in (a, b, c)] == [True, False, True]
    assert [axis.get_xlabel() != "" for axis in (a, b, c)] == [False, True, True]
    assert not empty.axison
    assert len(b.get_lines()) == 3  # the second seed behind the first
    assert figure.get_suptitle() == "all"


def test_a_grid_says_once_which_seed_is_which():
    def words(*networks):
        (legend,) = law_grid([[("a", networks), ("b", networks)]]).legends or [None]
        return [text.get_text() for text in legend.get_texts()] if legend else []

    plain = {**ROW, "D_interval": None}
    assert words(plain) == []
    assert words(plain, plain) == ["first seed, with its line", "further seeds"]
    assert words(ROW, ROW) == ["first seed, with its line", "further seeds", "interval of D"]


def test_a_long_row_of_panels_is_wrapped():
    figure = law_grid([[(str(i), [ROW]) for i in range(5)]])
    shape = figure.axes[0].get_gridspec().get_geometry()
    assert shape == (2, 3)
    assert [axis.get_title() for axis in figure.axes if axis.axison] == ["0", "1", "2", "3", "4"]


def test_words_of_a_panel_hide_no_points():
    for values in (ROW["D"], ROW["D"][::-1]):  # the law falls, or rises into the usual corner
        figure, ((axis,),) = grid(1, 1)
        law_panel(axis, {**ROW, "D": values, "D_interval": None})
        figure.draw_without_rendering()
        box = axis.get_legend().get_window_extent()
        points = axis.transData.transform(list(enumerate(values)))
        assert not any(box.contains(*point) for point in points)


def test_an_overlay_names_every_network_that_has_a_curve():
    _, axes = grid(1, 1)
    overlay(axes[0][0], [("4", ROW), ("8", ROW), ("20", DIVERGED)], "depth")
    assert [text.get_text() for text in axes[0][0].get_legend().get_texts()] == ["4", "8"]
