"""The feed-forward studies of the separation family: run small, and claims judged both ways."""

import importlib
import io
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.stats import t
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score
from tests import oracles
from tests.studies.figures import carries_verdict
from tests.studies.memory import Memory

from lawscope.statistics.silhouette import silhouette
from lawscope.studies import registry, samples
from lawscope.studies.lab import Lab
from lawscope.studies.separation import classwise, depth, pca
from lawscope.studies.study import NOT_SHOWN, NOT_TRIED, PRESETS, SHOWN
from lawscope.zoo.arrays import Dataset

NAMES = (
    "optimizers datasets imbalance learning-rate depth width shape sample-size classwise test-data "
    "pca"
).split()


def study(name):
    return registry.find(f"separation/{name}")


def made_up_images(name):
    """Stands for MNIST and CIFAR-10, which a fresh clone does not have."""
    shape = (28, 28) if name == "mnist" else (32, 32, 3)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 120)
    pixels = rng.integers(0, 120, size=(1200, *shape)) + 12 * labels.reshape(-1, *[1] * len(shape))
    pixels = pixels.astype(np.uint8)
    return Dataset(name, pixels, labels, pixels[::6], labels[::6], tuple(map(str, range(10))))


@pytest.fixture
def no_downloads(monkeypatch):
    real = samples.load
    monkeypatch.setattr(
        samples, "load", lambda name: real(name) if "fashion" in name else made_up_images(name)
    )
    for cached in (samples._dataset, samples.samples_of):
        cached.cache_clear()
    yield
    for cached in (samples._dataset, samples.samples_of):
        cached.cache_clear()


@pytest.mark.usefixtures("no_downloads")
@pytest.mark.parametrize("name", NAMES)
def test_smoke_trains_measures_judges_and_draws(name):
    it = study(name)
    settings = it.settings["smoke"]
    said = []
    numbers = it.measure(Lab(settings, Memory(it.plan(settings)), said.append))
    numbers = json.loads(json.dumps(numbers, allow_nan=False))
    assert any("measuring" in sentence for sentence in said)
    judged = it.judge(numbers)
    assert len(judged) == len(it.claims)
    assert {each.verdict for each in judged} <= {SHOWN, NOT_SHOWN, NOT_TRIED}
    picture = io.BytesIO()
    drawn = it.figure(numbers)
    drawn.savefig(picture, format="png", dpi=40)
    assert picture.getvalue().startswith(b"\x89PNG")
    assert carries_verdict(drawn)


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_json_with_a_plan_and_a_time(name):
    it = study(name)
    for preset in PRESETS:
        settings = it.settings[preset]
        assert json.loads(json.dumps(settings)) == settings
        assert it.minutes[preset] > 0
        more = it.plan({**settings, "seeds": settings["seeds"] + 1})
        assert len(more) == len(it.plan(settings)) * (settings["seeds"] + 1) // settings["seeds"]
        assert len({training.key for training in more}) == len(more)


def keys(name, preset="cpu"):
    return {training.key for training in study(name).plan(study(name).settings[preset])}


@pytest.mark.parametrize(
    ("name", "preset", "shared"),
    [
        ("classwise", "cpu", 5),
        ("test-data", "cpu", 5),
        ("pca", "cpu", 5),
        ("imbalance", "cpu", 9),
        ("sample-size", "cpu", 3),
        ("width", "paper", 5),
        ("depth", "cpu", 6),
    ],
)
def test_studies_share_trainings_with_optimizers(name, preset, shared):
    assert len(keys(name, preset) & keys("optimizers", preset)) == shared


def test_datasets_and_depth_share_trainings():
    assert len(keys("datasets") & keys("depth")) == 12


def test_modules_of_studies_are_light():
    modules = ", ".join(f"lawscope.studies.separation.{name.replace('-', '_')}" for name in NAMES)
    heavy = "{'torch', 'matplotlib', 'pandas', 'numpy', 'scipy'}"
    code = f"import sys, {modules}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Claims on made-up numbers.


def row(r=-0.995, last=1.0, fits=True, **more):
    given = {"fits": fits, "accuracy": 1.0, "r": r, "rho": 0.82, "half_life": 3.5}
    return {**given, "D": [30.0, 5.0, last], "seed": 0, **more}


def panel(*rows, **where):
    return {**where, "chosen": list(rows), "runs": list(rows)}


def optimizers(r=-0.995, rho=0.82, deep=2.0, **more):
    cells = [(o, d) for o in ("sgd", "momentum", "adam") for d in (4, 8, 20)]
    return {
        "panels": [
            panel(row(r, deep if d == 20 else 1.0, rho=rho, **more), optimizer=o, depth=d)
            for o, d in cells
        ]
    }


def datasets(cifar=-0.99, mnist=-0.99):
    return {
        "panels": [
            panel(row(r), dataset=name, depth=4)
            for name, r in (("cifar10", cifar), ("mnist", mnist))
        ]
    }


def imbalance(r=-0.99, half_life=4.5, **more):
    cells = (("imbalanced", r, half_life), ("balanced", -0.5, 3.5))
    return {
        "panels": [
            panel(row(straightness, half_life=life, **more), classes=classes, depth=layers)
            for classes, straightness, life in cells
            for layers in (4, 8)
        ]
    }


def sample_size(r=-0.99, half_lives=(1.0, 2.0, 3.0, 2.9, 5.0), unfitted=None):
    sizes = (200, 500, 1000, 2000, 5000)
    cells = zip(sizes, half_lives, strict=True)
    return {
        "panels": [
            panel(row(r, fits=n != unfitted, half_life=life), samples=n) for n, life in cells
        ]
    }


def best(depth, *per_seed):
    return {"depth": depth, "per_seed": list(per_seed), "depths": [2, 4, 6, 8, 10, 12, 14]}


def depths(mnist=(6, 6, 6), fashion=(8, 8, 8), cifar=(12, 12, 12), lowest=(6, 8, 12)):
    names = ("mnist", "fashion-mnist", "cifar10")
    return {
        "best": {n: best(d[0], *d) for n, d in zip(names, (mnist, fashion, cifar), strict=True)},
        "best_by_lowest": {n: best(d, d) for n, d in zip(names, lowest, strict=True)},
    }


def width(narrow=20.0, wide=1.2):
    cells = ((20, narrow), (100, 1.0), (1000, wide))
    return {"panels": [panel(row(last=last), width=each) for each, last in cells]}


def shape(narrow_wide=2.0, mixed=2.0):
    cells = (("narrow-wide", narrow_wide), ("wide-narrow", 1.0), ("mixed", mixed))
    return {"panels": [panel(row(last=last), shape=each) for each, last in cells]}


def classes(straight=9, r=-0.999, error=1e-15, fits=(True,), lost=None):
    own = [{"r": -0.97 if k < straight else -0.9} for k in range(10)]
    if lost is not None:
        own[lost] = {"r": None}
    return {"chosen": [row(r, fits=each, classes=own, sum_error=error) for each in fits]}


def on_unseen(r=-0.95, last=3.0, fits=(True,)):
    return {"chosen": [row(fits=each) for each in fits], "tested": [row(r, last)] * len(fits)}


def silhouettes(*values, in_plane=(0.0, 0.5), fits=(True,)):
    looks = {"silhouette": list(values), "silhouette_in_plane": list(in_plane)}
    return {"chosen": [{**looks, "fits": each} for each in fits]}


Y, N, Q = SHOWN, NOT_SHOWN, NOT_TRIED


@pytest.mark.parametrize(
    ("name", "numbers", "verdicts"),
    [
        ("optimizers", optimizers(), [Y, Y, Y]),
        ("optimizers", optimizers(r=-0.985), [N, Y, Y]),
        ("optimizers", optimizers(fits=False), [N, N, Y]),
        ("optimizers", optimizers(r=None, rho=None), [N, N, Y]),
        ("optimizers", optimizers(rho=0.75), [Y, N, Y]),
        ("optimizers", optimizers(rho=0.86), [Y, N, Y]),
        ("optimizers", optimizers(deep=0.5), [Y, Y, N]),
        ("optimizers", {"panels": []}, [N, Q, Q]),
        ("datasets", datasets(), [Y, Y]),
        ("datasets", datasets(cifar=-0.97), [N, Y]),
        ("datasets", datasets(mnist=-0.97), [Y, N]),
        ("imbalance", imbalance(), [Y, Y]),
        ("imbalance", imbalance(r=-0.97), [N, Y]),
        ("imbalance", imbalance(half_life=3.0), [Y, N]),
        ("imbalance", imbalance(fits=False), [N, N]),
        ("learning-rate", {"panels": [panel(row(), row(), lr=0.1)]}, [Y]),
        ("learning-rate", {"panels": [panel(row(), row(-0.97), lr=0.1)]}, [N]),
        ("sample-size", sample_size(), [Y, Y]),
        ("sample-size", sample_size(r=-0.9), [N, Y]),
        ("sample-size", sample_size(half_lives=(3.0, 1.0, 2.0, 2.5, 2.2)), [Y, N]),
        ("sample-size", sample_size(unfitted=500), [N, N]),
        ("depth", depths(), [Y, Y, Y, Y, Y]),
        ("depth", depths(mnist=(10, 10, 10)), [N, Y, N, Y, Y]),
        ("depth", depths(cifar=(6, 12, 12), fashion=(6, 8, 8)), [Y, N, Y, Y, Y]),
        ("depth", depths(mnist=(6, 6, 10)), [Y, Y, N, Y, Y]),
        ("depth", depths(mnist=(6,), fashion=(8,), cifar=(12,)), [Y, Y, Q, Y, Y]),
        ("depth", depths(lowest=(8, 6, 12)), [Y, Y, Y, N, Y]),
        ("depth", depths(cifar=(14, 14, 14)), [Y, Y, Y, Y, N]),
        ("depth", depths(mnist=(2, 2, 2)), [Y, Y, Y, Y, N]),
        ("depth", depths(mnist=(None,)), [Q, Q, Q, Y, Q]),
        ("width", width(), [Y, Y]),
        ("width", width(narrow=9.0), [N, Y]),
        ("width", width(wide=3.1), [Y, N]),
        ("width", width(wide=0.3), [Y, N]),
        ("shape", shape(), [Y, Y]),
        ("shape", shape(narrow_wide=0.9), [N, Y]),
        ("shape", shape(mixed=0.9), [Y, N]),
        ("classwise", classes(), [Y, Y, Y]),
        ("classwise", classes(straight=7), [N, Y, Y]),
        ("classwise", classes(r=-0.96), [Y, N, Y]),
        ("classwise", classes(error=1e-6), [Y, Y, N]),
        ("classwise", classes(fits=[False]), [N, N, Y]),
        ("classwise", classes(fits=[True] * 3), [Y, Y, Y]),
        ("classwise", classes(fits=[True, False, False]), [N, N, Y]),
        ("classwise", classes(lost=9), [Y, N, Y]),
        ("test-data", on_unseen(), [Y, Y, Y]),
        ("test-data", on_unseen(r=-0.89), [N, Y, Y]),
        ("test-data", on_unseen(r=-0.999), [Y, N, Y]),
        ("test-data", on_unseen(last=0.9), [Y, Y, N]),
        ("test-data", on_unseen(fits=[False]), [N, N, N]),
        ("test-data", on_unseen(fits=[True] * 3), [Y, Y, Y]),
        ("test-data", on_unseen(fits=[True, False, True]), [N, N, N]),
        ("pca", silhouettes(0.1, 0.2, 0.4, 0.6), [Y, Y]),
        ("pca", silhouettes(0.1, 0.6, 0.4, 0.2), [N, Y]),
        ("pca", silhouettes(0.1, 0.2, 0.4, in_plane=(0.5, 0.1)), [Y, N]),
        ("pca", silhouettes(0.1, 0.2, 0.4, 0.6, fits=[True, False]), [N, N]),
    ],
)
def test_claims_can_be_shown_and_not_shown(name, numbers, verdicts):
    assert [each.verdict for each in study(name).judge(numbers)] == verdicts


def test_too_few_seeds_are_named_as_the_reason():
    one = depths(mnist=(6,), fashion=(8,), cifar=(12,))
    assert study("depth").judge(one)[2].why == "needs 3 seeds, has 1"


def test_presets_have_the_seeds_their_claims_ask_for():
    asked = 0
    for name in registry.choose("separation"):
        texts = [claim.text for claim in registry.find(name).claims]
        if any("≥ 3" in text or "at least three" in text for text in texts):
            asked += 1
            seeds = {p: registry.find(name).settings[p]["seeds"] for p in ("cpu", "paper")}
            assert min(seeds.values()) >= 3, name
    assert asked > 4


# What single studies compute by themselves.


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_silhouette_agrees_with_scikit_learn(offset):
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(4), (2, 30, 17, 40))
    features = rng.normal(size=(89, 5)) + 1.5 * rng.normal(size=(4, 5))[labels] + offset
    ours = silhouette(features, labels)
    assert ours == pytest.approx(silhouette_score(features, labels), rel=1e-6)


def test_silhouette_of_a_lone_sample_counts_as_zero_and_one_class_is_refused():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(9, 2)), np.array([0] * 4 + [1] * 4 + [2])
    assert silhouette(features, labels) == pytest.approx(silhouette_score(features, labels))
    with pytest.raises(ValueError, match="compares classes; got 1"):
        silhouette(features, np.zeros(9, dtype=int))


def test_plane_agrees_with_scikit_learn_up_to_signs():
    features = np.random.default_rng(1).normal(size=(50, 6)) @ np.diag([5, 3, 2, 1, 1, 1])
    theirs = PCA(n_components=2).fit_transform(features)
    ours = pca.plane(torch.from_numpy(features)).abs().numpy()
    assert ours == pytest.approx(np.abs(theirs), rel=1e-6)


def test_folds_leave_every_sample_out_once():
    y = torch.tensor([0] * 25 + [1] * 12)
    parts = [
        x.flatten().tolist() for x, _ in classwise.all_but_one_fold(torch.arange(37.0)[:, None], y)
    ]
    left_out = [set(range(37)) - set(part) for part in parts]
    assert sorted(i for fold in left_out for i in fold) == list(range(37))
    assert all(2 <= len([i for i in fold if i < 25]) <= 3 for fold in left_out)


def test_class_values_are_those_of_the_definition():
    """D^k of a class: SSw of that class alone against SSb of all, summed to D by n_k/n."""
    settings = study("classwise").settings["smoke"]
    training = study("classwise").plan(settings)[0]
    lab = Lab(settings, Memory([training]))
    run = lab.run(training)
    numbers = classwise.by_class(lab, run)
    with torch.no_grad():
        features = next(iter(run.network().children()))(run.samples.x)
    whole = oracles.fuzziness(features, run.samples.y)
    assert np.mean([each["D"][1] for each in numbers["classes"]]) == pytest.approx(whole, rel=1e-6)
    for each in numbers["classes"]:
        low, high = each["interval"]["r"]
        assert low <= high
        assert all(a < b for a, b in each["D_interval"])


def test_lowest_takes_fitting_candidates_first():
    runs = [
        {"seed": 0, "fits": True, "last": 2.0},
        {"seed": 0, "fits": True, "last": 3.0},
        {"seed": 0, "fits": False, "last": 1.0},
        {"seed": 1, "fits": False, "last": 4.0},
        {"seed": 1, "fits": False, "last": None},
    ]
    assert depth.lowest({"chosen": [{"seed": 0}, {"seed": 1}], "runs": runs}) == [2.0, 4.0]


def test_best_depth_has_the_standard_error_of_log_d():
    panels = [{"depth": 2, "D": [1.0, math.e**2]}, {"depth": 4, "D": [9.0, 9.0]}]
    found = depth.best_depth(panels, lambda each: each["D"])
    assert found["mean"] == pytest.approx([math.e, 9.0])
    assert found["error"] == pytest.approx([1.0, 0.0])
    nothing = depth.best_depth([{"depth": 2, "D": [None]}], lambda each: each["D"])
    assert nothing["depth"] is None
    assert depth.interval_arms(nothing) is None


def depth_figure(finals):
    """The figure of three seeds of two depths on one dataset, by their final D."""
    panels = [
        panel(*(row(last=last, seed=s) for s, last in enumerate(lasts)), dataset="mnist", depth=d)
        for d, lasts in finals.items()
    ]
    found = depth.best_depth(panels, depth.last_of_chosen)
    return depth.figure({"panels": panels, "best": {"mnist": found}})


def test_the_final_d_is_drawn_with_its_interval():
    finals = {2: [9.0, 8.0, 10.0], 4: [1.0, 3.0, 1.5]}
    (drawn,) = depth_figure(finals).axes[1].containers
    (bars,) = drawn[2]
    for (low, high), lasts in zip(bars.get_segments(), finals.values(), strict=True):
        logs = np.log(lasts)
        expected = t.interval(0.95, 2, loc=logs.mean(), scale=logs.std(ddof=1) / math.sqrt(3))
        assert np.log([low[1], high[1]]) == pytest.approx(expected)
    (alone,) = depth_figure({2: [9.0], 4: [1.0]}).axes[1].containers
    assert not alone.has_yerr


def test_the_time_of_a_study_stands_in_one_place():
    """``minutes``, which ``lawscope study list`` prints; docstrings that repeat it go stale."""
    for name in registry.choose("separation"):
        module = importlib.import_module(
            f"lawscope.studies.{name.replace('/', '.').replace('-', '_')}"
        )
        assert "minute" not in module.__doc__, name
