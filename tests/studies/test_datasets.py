"""What is not on this machine costs the studies that need it, and no others."""

import pytest

from lawscope.studies.datasets import ImageData, SentenceData, find_absent, load_sentences
from lawscope.studies.runner import Runner
from lawscope.studies.store import Store


@pytest.fixture
def sentences(tmp_path, monkeypatch):
    """SST-2 of four sentences in a data directory that has nothing else."""
    folder = tmp_path / "data"
    (folder / "sst2").mkdir(parents=True)
    for name in ("train.tsv", "dev.tsv"):
        (folder / "sst2" / name).write_text("sentence\tlabel\ngood film\t1\nbad film\t0\n")
    monkeypatch.setenv("LAWSCOPE_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LAWSCOPE_ENCODER", raising=False)
    load_sentences.cache_clear()
    yield folder
    load_sentences.cache_clear()


def test_an_absent_encoder_is_said_with_how_to_get_it(sentences):
    missing = find_absent([SentenceData(), SentenceData("bert-base-cased"), ImageData()])
    assert list(missing) == ["sst2:bert-base-cased"]
    assert "download its Hugging Face folder" in missing["sst2:bert-base-cased"]
    (sentences / "bert-base-cased").mkdir()
    (sentences / "bert-base-cased/config.json").write_text("{}")
    assert find_absent([SentenceData("bert-base-cased")]) == {}


def test_a_study_that_fine_tunes_an_absent_encoder_is_not_tried_the_others_are(sentences, tmp_path):
    runner = Runner(Store(tmp_path / "store"), tmp_path / "out", "paper")
    begun = runner.plan(["separation/text-encoder", "separation/learning-rate"])
    assert [study.name for study in begun] == ["separation/learning-rate"]
    result = runner.results["separation/text-encoder"]
    assert result.status == "not tried"
    assert "there is no encoder 'bert-base-cased'" in result.why
