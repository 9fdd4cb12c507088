"""The study of text encoders and its sentences."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.studies import stand_ins
from tests.studies.memory import Memory

from lawscope.errors import LawscopeError
from lawscope.studies import datasets
from lawscope.studies.datasets import SentenceData
from lawscope.studies.execute import execute
from lawscope.studies.lab import Lab
from lawscope.studies.separation import text_encoder
from lawscope.studies.study import FAILS, HOLDS
from lawscope.training.recipe import Recipe

SETTINGS = text_encoder.STUDY.settings


@pytest.fixture
def sentences(monkeypatch):
    """Stands for SST-2, which a fresh clone does not have."""
    stand_ins.stand_in(monkeypatch)
    monkeypatch.delenv(text_encoder.VARIABLE, raising=False)
    yield
    datasets.samples_of.cache_clear()


def judge(numbers):
    return text_encoder.STUDY.judge({"authors": numbers}).claims[0]


def network(pooling, r, *, fits=True):
    return {"pooling": pooling, "chosen": [{"lr": 2e-5, "seed": 0, "fits": fits, "r": r}]}


def test_the_claim_is_about_pretrained_weights_that_fit():
    panels = [network("first", -0.5), network("mean", 0.3)]
    for encoder in ("bert-base-cased", "all-MiniLM-L6-v2"):
        assert judge({"encoder": encoder, "panels": panels}).verdict == HOLDS
    straight = [*panels, network("mean", -0.95)]
    assert judge({"encoder": "bert-base-cased", "panels": straight}).verdict == FAILS
    unfitted = [network("first", -0.95, fits=False), *panels[1:]]
    assert "fits" in judge({"encoder": "bert-base-cased", "panels": unfitted}).column.why
    assert "not BERT" in judge({"encoder": "", "panels": panels}).column.why


def test_an_encoder_named_in_the_environment_is_fine_tuned_but_not_in_smoke(monkeypatch):
    monkeypatch.setenv(text_encoder.VARIABLE, "/somewhere/my-bert")
    for settings in (SETTINGS["cpu"], SETTINGS["paper"]):
        training = text_encoder.candidates(settings)[0]
        assert training.network.settings["folder"] == "/somewhere/my-bert"
        assert training.data == SentenceData("/somewhere/my-bert", settings["length"], 500)
        assert training.recipe.lr <= 5e-5
    assert text_encoder.candidates(SETTINGS["smoke"])[0].network.kind == "text-encoder"
    monkeypatch.delenv(text_encoder.VARIABLE)
    assert text_encoder.candidates(SETTINGS["cpu"])[0].network.kind == "text-encoder"
    paper = text_encoder.candidates(SETTINGS["paper"])[0]
    assert paper.network.settings["folder"] == "bert-base-cased"


@pytest.mark.usefixtures("sentences")
def test_sentences_are_drawn_by_class_and_padded():
    drawn = SentenceData(length=16, per_class=20).load()
    assert drawn.x.shape == (40, 16)
    assert torch.bincount(drawn.y).tolist() == [20, 20]
    longer = SentenceData(length=24, per_class=20).load()
    assert torch.equal(longer.x[:, :16], drawn.x)
    assert not longer.x[:, 16:].any()


@pytest.mark.usefixtures("sentences")
def test_padding_stays_out_of_the_mean_over_the_tokens():
    short, long = (
        text_encoder.candidates({**SETTINGS["smoke"], "length": length})[0] for length in (16, 24)
    )
    shelf = Memory()
    shelf.runs[long.key] = replace(shelf.run(short), training=long)
    a, b = (Lab({}, shelf).separation(t, stations="blocks") for t in (short, long))
    assert len(a.stations) == 4
    np.testing.assert_allclose(a.values, b.values, rtol=1e-4)


@pytest.mark.usefixtures("sentences")
def test_networks_handed_over_together_are_trained_as_if_alone():
    network = replace(
        text_encoder.candidates(SETTINGS["smoke"])[0],
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
    training = text_encoder.candidates(SETTINGS["smoke"])[0]
    lab = Lab(SETTINGS["smoke"], Memory())
    names = text_encoder.find_outputs(lab, training)
    assert names == ["blocks.0", "blocks.1", "blocks.2"]
    assert np.isfinite(lab.separation(training, stations=names, pooling="first").values).all()


def test_without_sst2_a_sentence_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    datasets.load_sentences.cache_clear()
    assert "SST-2.zip" in datasets.find_absent([SentenceData()])["sst2"]
    with pytest.raises(LawscopeError, match="SST-2 is not on this machine"):
        SentenceData().load()
