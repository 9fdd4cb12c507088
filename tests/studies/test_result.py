"""Results: from numbers to files and back, nothing changed but what is rounded on purpose."""

import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from lawscope.errors import LawscopeError
from lawscope.report.study_text import print_result
from lawscope.studies import saved
from lawscope.studies.registry import find
from lawscope.studies.result import StudyResult, from_json, to_json, without_numbers

NUMBERS = {"loss": [0.123456789, 2.0], "D": [3.0, 1.0], "nothing": math.nan, "note": "fine"}


def result_of(name="toy/quick", preset="smoke", date="2024-05-01T10:00:00Z", numbers=NUMBERS):
    study = find(name)
    settings = study.settings[preset]
    return StudyResult(name, preset, settings, numbers, tuple(study.judge(numbers)), 12.34, date)


@pytest.fixture
def result(toys):
    return result_of()


def test_to_dict_is_json_and_from_dict_takes_it_back(result):
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    again = StudyResult.from_dict(document)
    assert again.numbers["loss"] == NUMBERS["loss"]
    assert math.isnan(again.numbers["nothing"])
    assert again.claims == result.claims
    assert again.to_dict() == result.to_dict()


def test_numpy_and_nested_values_become_plain():
    value = {4: np.float32(0.5), "a": (np.int64(3), np.array([[1.0, np.inf]])), "b": np.bool_(True)}
    plain = to_json(value)
    assert plain == {"4": 0.5, "a": [3, [[1.0, "inf"]]], "b": True}
    assert type(plain["b"]) is bool
    assert from_json(plain)["a"][1] == [[1.0, math.inf]]


def test_what_is_no_json_value_is_a_sentence():
    with pytest.raises(LawscopeError, match="measured a object; its numbers must be JSON"):
        to_json({"a": object()})


def test_table_verdicts_and_plot(result):
    assert list(result.table()["verdict"]) == ["shown", "not shown", "not tried"]
    assert result.table()["measured"][0] == 0.123456789
    assert result.verdicts["the loss is positive"] == "shown"
    assert isinstance(result.plot(), Figure)


def test_a_result_without_numbers_says_why(toys):
    empty = without_numbers(
        find("toy/quick"), name="toy/quick", preset="cpu", settings={}, status="not tried",
        why="MNIST is not here.", date="2024-05-01T10:00:00Z",
    )  # fmt: skip
    assert {claim.why for claim in empty.claims} == {"MNIST is not here."}
    with pytest.raises(LawscopeError, match=r"no figure: MNIST is not here\."):
        empty.plot()


def test_save_and_load_the_latest_or_the_preset_asked_for(toys):
    saved.save(result_of(), toys, b"picture")
    saved.save(result_of(preset="cpu", date="2024-05-02T10:00:00Z"), toys, None)
    assert (toys / "toy/quick.smoke.png").read_bytes() == b"picture"
    assert saved.load("toy/quick", toys).preset == "cpu"
    assert saved.load("toy/quick", toys, "smoke").preset == "smoke"
    saved.save(result_of(), toys, None)
    assert not (toys / "toy/quick.smoke.png").exists()


def test_the_summary_of_a_family_is_compact_rounded_and_readable(toys):
    path = saved.save_family([result_of(), result_of("toy/two-words")], toys)
    assert path == toys / "toy.smoke.json"
    document = json.loads(path.read_text())
    assert document["family"] == "toy"
    assert document["studies"][0]["numbers"]["loss"] == [0.123457, 2.0]
    assert len(path.read_text().splitlines()) == 4
    read = saved.load("toy/two-words", toys)
    assert read.name == "toy/two-words"
    assert read.versions["lawscope"]
    assert read.verdicts == result_of().verdicts


def test_the_summary_of_another_preset_leaves_that_of_cpu_alone(toys):
    kept = saved.save_family([result_of(preset="cpu")], toys)
    before = kept.read_bytes()
    saved.save_family([result_of(preset="smoke", date="2024-05-02T10:00:00Z")], toys)
    saved.save_family([result_of(preset="paper", date="2024-05-03T10:00:00Z")], toys)
    assert kept == toys / "toy.json"
    assert kept.read_bytes() == before
    assert saved.load("toy/quick", toys).preset == "paper"
    for preset in ("smoke", "cpu", "paper"):
        assert saved.load("toy/quick", toys, preset).preset == preset


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"studies": []}',
        '{"versions": {}, "studies": [{}]}',
        '{"versions": {}, "studies": [5]}',
        '{"versions": {}, "studies": 5}',
        '{"versions": {}, "studies": [{"name": "toy/quick"}]}',
    ],
)
def test_a_damaged_summary_is_a_sentence_with_its_name(toys, text):
    (toys / "toy.json").write_text(text)
    with pytest.raises(LawscopeError, match=r"toy\.json is not a.* result"):
        saved.load("toy/quick", toys)


@pytest.mark.parametrize("changed", [{"settings": [1]}, {"seconds": "long"}, {"versions": 3}])
def test_a_result_of_other_types_is_a_sentence_with_its_name(toys, changed):
    path = saved.save(result_of(), toys)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(LawscopeError, match=r"quick\.smoke\.json is not a whole result"):
        saved.load("toy/quick", toys)


def test_results_that_may_not_be_read_are_a_sentence(toys, monkeypatch):
    saved.save(result_of(), toys)

    def denied(path, **options):
        raise PermissionError(13, "Permission denied")

    for name in ("read_text", "exists"):
        monkeypatch.setattr(Path, name, denied)
    with pytest.raises(LawscopeError, match=r"quick\.smoke\.json may not be read"):
        saved.load("toy/quick", toys, "smoke")


def test_an_unknown_mode_is_a_sentence(toys):
    with pytest.raises(LawscopeError, match="--mode bogus is not known; choose eval or train"):
        saved.load("toy/quick", toys, mode="bogus")


def test_no_result_damaged_results_and_unknown_studies_are_sentences(toys):
    with pytest.raises(LawscopeError, match=r"no result of toy/quick in .*study run toy/quick"):
        saved.load("toy/quick", toys)
    with pytest.raises(LawscopeError, match="There is no study 'toy/quik'"):
        saved.load("toy/quik", toys)
    path = saved.save(result_of(), toys)
    for text in ("{", "[]", '{"name": "toy/quick"}'):
        path.write_text(text)
        with pytest.raises(LawscopeError, match=r"quick\.smoke\.json is not a.* result"):
            saved.load("toy/quick", toys)


def test_terminal_shows_claims_numbers_and_figure(result):
    console = Console(width=100, file=io.StringIO())
    print_result(result, find("toy/quick"), console, figure=Path("out/quick.png"), numbers=True)
    text = console.file.getvalue()
    assert "the loss is positive" in text
    assert "0.123" in text
    assert "not shown" in text
    assert "KeyError('unicorns')" in text
    assert "D: 3.00, 1.00" in text
    assert "figure: out/quick.png" in text
