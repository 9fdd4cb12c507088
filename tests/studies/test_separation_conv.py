"""Convolutional, residual and text studies: run small, and claims judged both ways."""

import copy
import io
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.studies.figures import carries_verdict
from tests.studies.memory import Memory

from lawscope.errors import LawscopeError
from lawscope.studies import presence, registry, samples
from lawscope.studies.execute import execute
from lawscope.studies.lab import Lab
from lawscope.studies.plan import Data
from lawscope.studies.separation import convnets, resnet, text_encoder
from lawscope.studies.study import NOT_SHOWN, NOT_TRIED, PRESETS, SHOWN
from lawscope.training.recipe import Recipe
from lawscope.zoo.sst2 import Sentences

NAMES = ("convnets", "resnet", "text-encoder")


def made_up_sentences():
    words = ["dull bad poor film", "fine good great film"]
    labels = np.arange(80) % 2
    text = tuple(" ".join([words[k], *["very"] * (i % 7)]) for i, k in enumerate(labels))
    return Sentences(text, labels, text[:10], labels[:10], ("negative", "positive"))


@pytest.fixture
def sentences(monkeypatch):
    """Stands for SST-2, which a fresh clone does not have."""
    for cached in (samples._sst2, samples.samples_of):
        cached.cache_clear()
    monkeypatch.setattr(samples, "load_sst2", made_up_sentences)
    monkeypatch.delenv(text_encoder.VARIABLE, raising=False)
    yield
    for cached in (samples._sst2, samples.samples_of):
        cached.cache_clear()


@pytest.mark.usefixtures("sentences")
@pytest.mark.parametrize("name", NAMES)
def test_smoke_trains_measures_judges_and_draws(name):
    study = registry.find(f"separation/{name}")
    settings = study.settings["smoke"]
    shelf = Memory()
    numbers = study.measure(Lab(settings, shelf))
    numbers = json.loads(json.dumps(numbers, allow_nan=False))
    assert {training.key for training in study.plan(settings)} == set(shelf.runs)
    judged = study.judge(numbers)
    assert len(judged) == len(study.claims)
    assert {each.verdict for each in judged} <= {SHOWN, NOT_SHOWN, NOT_TRIED}
    picture = io.BytesIO()
    drawn = study.figure(numbers)
    drawn.savefig(picture, format="png", dpi=40)
    assert picture.getvalue().startswith(b"\x89PNG")
    assert carries_verdict(drawn)


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_json_with_a_plan_and_a_time(name, monkeypatch):
    monkeypatch.delenv(text_encoder.VARIABLE, raising=False)
    study = registry.find(f"separation/{name}")
    for preset in PRESETS:
        settings = json.loads(json.dumps(study.settings[preset]))
        assert [t.key for t in study.plan(settings)] == [
            t.key for t in study.plan(study.settings[preset])
        ]
        more = study.plan({**settings, "seeds": 2})
        assert len({t.key for t in more}) == 2 * len(study.plan({**settings, "seeds": 1}))
        assert study.minutes[preset] > 0
    assert all(t.recipe.epochs == 600 for t in convnets.plan(convnets.PAPER))
    assert all(t.data.per_class == 100 for t in resnet.plan(resnet.PAPER))


def row(r, rho=0.5, lr=1e-3, *, fits=True):
    return {
        "lr": lr, "seed": 0, "loss": 0.01, "accuracy": 1.0 if fits else 0.5, "test_accuracy": 0.8,
        "fits": fits, "D": [8.0, 4.0, 2.0, 1.0], "D_interval": None, "r": r, "rho": rho,
        "half_life": 1.0, "interval": {}, "verdict": "holds", "warnings": [],
    }  # fmt: skip


def verdicts(study, numbers):
    return [each.verdict for each in study.judge(numbers)]


def test_convnets_are_judged_panel_by_panel():
    panels = [
        {"dataset": dataset, "network": network, "chosen": [row(-0.98)], "runs": []}
        for dataset in ("fashion-mnist", "cifar10")
        for network in ("alexnet", "vgg")
    ]
    numbers = {"width": 8, "epochs": 40, "panels": panels}
    assert verdicts(convnets.STUDY, numbers) == [SHOWN] * 4
    bent = copy.deepcopy(numbers)
    bent["panels"][2]["chosen"] = [row(-0.96)]
    assert verdicts(convnets.STUDY, bent) == [SHOWN, SHOWN, NOT_SHOWN, SHOWN]
    unfitted = copy.deepcopy(numbers)
    unfitted["panels"][1]["chosen"] = [row(-0.99, fits=False)]
    assert verdicts(convnets.STUDY, unfitted) == [SHOWN, NOT_SHOWN, SHOWN, SHOWN]
    without_cifar = {**numbers, "panels": panels[:2]}
    assert verdicts(convnets.STUDY, without_cifar) == [SHOWN, SHOWN, NOT_TRIED, NOT_TRIED]
    assert "8 filters, 40 epochs" in convnets.figure(numbers).get_suptitle()


def residual_numbers(layers=-0.8, blocks=-0.99, two=0.8, three=0.7):
    rho = {"2-layer": two, "3-layer": three, "mixed": 0.75}
    return {
        "panels": [
            {"kind": kind, "stations": stations, "chosen": [row(r, rho[kind])], "runs": []}
            for stations, r in (("layers", layers), ("blocks", blocks))
            for kind in resnet.BLOCKS
        ]
    }


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [SHOWN, SHOWN, SHOWN, SHOWN]),
        ({"blocks": -0.96}, [NOT_SHOWN, NOT_SHOWN, SHOWN, SHOWN]),
        ({"layers": -0.995}, [SHOWN, SHOWN, NOT_SHOWN, SHOWN]),
        ({"two": 0.6}, [SHOWN, SHOWN, SHOWN, NOT_SHOWN]),
        ({"layers": 0.999}, [SHOWN, SHOWN, SHOWN, SHOWN]),
        ({"layers": None}, [SHOWN, SHOWN, NOT_SHOWN, SHOWN]),
    ],
)
def test_residual_claims_can_hold_and_fail(changed, expected):
    assert verdicts(resnet.STUDY, residual_numbers(**changed)) == expected


def test_a_residual_network_that_does_not_fit_shows_nothing():
    numbers = residual_numbers()
    for panel in numbers["panels"]:
        if panel["kind"] == "mixed":
            panel["chosen"][0]["fits"] = False
    assert verdicts(resnet.STUDY, numbers) == [SHOWN, NOT_SHOWN, NOT_SHOWN, SHOWN]


def test_text_claims_fail_where_one_network_has_the_law():
    panels = [
        {"pooling": pooling, "chosen": [row(r, lr=lr)]}
        for pooling in ("first", "mean")
        for lr, r in ((2e-5, -0.5), (5e-5, 0.3))
    ]
    numbers = {"encoder": "", "panels": panels}
    assert verdicts(text_encoder.STUDY, numbers) == [SHOWN, SHOWN]
    panels[1]["chosen"] = [row(-0.95)]
    assert verdicts(text_encoder.STUDY, numbers) == [NOT_SHOWN, SHOWN]


def test_an_encoder_that_did_not_learn_says_nothing_about_the_law():
    panels = [
        {"pooling": pooling, "chosen": [row(-0.1, fits=fits)]}
        for pooling, fits in (("first", True), ("first", False), ("mean", True))
    ]
    assert verdicts(text_encoder.STUDY, {"panels": panels}) == [NOT_SHOWN, SHOWN]


def test_an_encoder_named_in_the_environment_is_fine_tuned_but_not_in_smoke(monkeypatch):
    monkeypatch.setenv(text_encoder.VARIABLE, "/somewhere/my-bert")
    for settings in (text_encoder.CPU, text_encoder.PAPER):
        training = text_encoder.candidates(settings)[0]
        assert training.network.settings["folder"] == "/somewhere/my-bert"
        assert training.data.name == "sst2:/somewhere/my-bert"
        assert training.recipe.lr <= 5e-5
    assert text_encoder.candidates(text_encoder.SMOKE)[0].network.kind == "text-encoder"
    monkeypatch.delenv(text_encoder.VARIABLE)
    assert text_encoder.candidates(text_encoder.CPU)[0].network.kind == "text-encoder"
    paper = text_encoder.candidates(text_encoder.PAPER)[0]
    assert paper.network.settings["folder"] == "bert-base-cased"


@pytest.mark.usefixtures("sentences")
def test_sentences_are_drawn_by_class_and_padded():
    drawn = samples.samples_of(Data("sst2", size=16, per_class=20))
    assert drawn.x.shape == (40, 16)
    assert torch.bincount(drawn.y).tolist() == [20, 20]
    longer = samples.samples_of(Data("sst2", size=24, per_class=20))
    assert torch.equal(longer.x[:, :16], drawn.x)
    assert not longer.x[:, 16:].any()


@pytest.mark.usefixtures("sentences")
def test_padding_stays_out_of_the_mean_over_the_tokens():
    short, long = (
        text_encoder.candidates({**text_encoder.SMOKE, "length": length})[0] for length in (16, 24)
    )
    shelf = Memory()
    shelf.runs[long.key] = replace(shelf.run(short), training=long)
    a, b = (Lab({}, shelf).separation(t, stations="blocks") for t in (short, long))
    assert len(a.stations) == 4
    np.testing.assert_allclose(a.values, b.values, rtol=1e-4)


@pytest.mark.usefixtures("sentences")
def test_networks_handed_over_together_are_trained_as_if_alone():
    network = replace(
        text_encoder.candidates(text_encoder.SMOKE)[0],
        recipe=Recipe(epochs=2, lr=1e-3),
        checkpoints=(1,),
    )
    pair = [network, replace(network, seed=1)]
    alone = [execute([training], {})[0] for training in pair]
    for together, single in zip(execute(pair, {}), alone, strict=True):
        for epoch in (1, 2):
            theirs = single.weights[epoch]
            assert all(torch.equal(w, theirs[n]) for n, w in together.weights[epoch].items())


@pytest.mark.usefixtures("sentences")
def test_the_first_token_is_measured_after_the_blocks_only():
    training = text_encoder.candidates(text_encoder.SMOKE)[0]
    lab = Lab(text_encoder.SMOKE, Memory())
    names = text_encoder.block_outputs(lab, training)
    assert names == ["blocks.0", "blocks.1", "blocks.2"]
    assert np.isfinite(lab.separation(training, stations=names, pooling="first").values).all()


def test_without_sst2_the_study_is_told_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "SST-2.zip" in presence.absent(["sst2"])["sst2"]
    samples._sst2.cache_clear()
    with pytest.raises(LawscopeError, match="SST-2 is not on this machine"):
        samples.samples_of(Data("sst2"))


def test_the_studies_are_listed_without_torch():
    code = (
        "import sys; from lawscope.studies import registry; "
        f"[registry.find('separation/' + name) for name in {NAMES!r}]; "
        "print({'torch', 'matplotlib', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
