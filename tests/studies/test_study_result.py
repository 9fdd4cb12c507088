"""Results: from numbers to files and back, nothing changed but what is rounded on purpose."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import lawscope as ls
from lawscope.cli.study import _print_results
from lawscope.errors import LawscopeError
from lawscope.studies import result as saved
from lawscope.studies.registry import find
from lawscope.studies.result import StudyResult, from_json, to_json, without_numbers
from lawscope.studies.study import Claim, Question

NUMBERS = {"loss": [0.123456789, 2.0], "D": [3.0, 1.0], "nothing": math.nan, "note": "fine"}


def result_of(name="toy/quick", preset="cpu", date="2024-05-01T10:00:00Z", numbers=NUMBERS):
    study = find(name)
    settings = study.settings[preset]
    by_protocol = {"network": numbers}
    return saved.judge(StudyResult(name, preset, settings, by_protocol, 12.34, date))


@pytest.fixture
def result(toys):
    return result_of()


def test_to_dict_is_json_and_from_dict_takes_it_back(result):
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    again = StudyResult.from_dict(document)
    assert again.numbers["network"]["loss"] == NUMBERS["loss"]
    assert math.isnan(again.numbers["network"]["nothing"])
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
    assert list(result.table()["verdict"]) == ["holds", "does not hold", "not tried"]
    assert result.table()["measured"][0] == 0.123456789
    assert result.verdicts["the loss is positive"] == "holds"
    assert isinstance(result.plot(), Figure)


def test_a_result_without_numbers_says_why(toys):
    empty = without_numbers("toy/quick", "cpu", {}, "not tried", "MNIST is not here.")
    assert {claim.column.why for claim in empty.claims} == {"MNIST is not here."}
    with pytest.raises(LawscopeError, match=r"no figure: MNIST is not here\."):
        empty.plot()


def test_save_and_load_the_latest_or_the_preset_asked_for(toys):
    saved.save(result_of(preset="smoke"), toys, b"picture")
    saved.save(result_of(date="2024-05-02T10:00:00Z"), toys, None)
    assert (toys / "toy/quick.smoke.png").read_bytes() == b"picture"
    assert saved.load("toy/quick", toys).preset == "cpu"
    assert saved.load("toy/quick", toys, "smoke").preset == "smoke"
    saved.save(result_of(preset="smoke"), toys, None)
    assert not (toys / "toy/quick.smoke.png").exists()
    # A summary may be newer than the result of the study alone, and a smoke run shows nothing.
    saved.save_family([result_of(date="2024-05-03T10:00:00Z")], toys / "toy.json")
    saved.save(result_of(preset="smoke", date="2024-05-04T10:00:00Z"), toys, None)
    assert saved.load("toy/quick", toys).date == "2024-05-03T10:00:00Z"


def test_a_study_is_a_result_like_any_other(result, toys):
    assert str(result) == "toy/quick (cpu): 3 claims: 1 holds, 1 does not hold, 1 not tried"
    assert repr(result) == f"<StudyResult: {result}>"
    assert "no unicorn was found" in result._repr_html_()
    assert result.to_dict()["schema"] == "lawscope.study/1"
    for path in (result.save(toys / "a.json"), result.save(toys / "a.html")):
        assert ls.load(path) == result
    assert result.save(toys / "a.md").read_text().startswith("# toy/quick")
    failed = without_numbers("toy/quick", "cpu", {}, "failed", "nothing\nworks")
    assert str(failed) == "toy/quick (cpu): failed: nothing works"
    assert "nothing works" in failed._repr_html_()


def test_a_folder_may_be_text(result, toys):
    assert ls.load(saved.save(result, str(toys))) == result
    assert ls.studies.load("toy/quick", out=str(toys)) == result
    with pytest.raises(LawscopeError, match="no result of toy/quick in nowhere"):
        ls.studies.load("toy/quick", out="nowhere")


def test_files_without_a_schema_are_read(result, toys):
    path = saved.save(result, toys)
    document = json.loads(path.read_text().replace('"NaN"', '"nan"'))
    del document["schema"]
    path.write_text(json.dumps(document))
    assert saved.load("toy/quick", toys) == result
    saved.save_family([result], toys / "toy.json")
    with pytest.raises(LawscopeError, match=r"several studies; read one with lawscope\.studies"):
        ls.load(toys / "toy.json")


def test_a_result_of_nothing_but_brackets_is_a_sentence(tmp_path):
    path = tmp_path / "quick.json"
    path.write_text("[" * 100_000)
    with pytest.raises(LawscopeError, match="nested too deeply"):
        saved.load_results(path)


def test_the_summary_of_a_family_is_compact_rounded_and_readable(toys):
    path = saved.summary_file(toys, "toy/quick", "cpu")
    saved.save_family([result_of(), result_of("toy/two-words")], path)
    document = json.loads(path.read_text())
    assert path.name == "toy.json"
    assert document["family"] == "toy"
    assert document["studies"][0]["numbers"]["network"]["loss"] == [0.123457, 2.0]
    assert len(path.read_text().splitlines()) == 4
    read = saved.load("toy/two-words", toys)
    assert read.name == "toy/two-words"
    assert read.versions["lawscope"]
    assert read.verdicts == result_of().verdicts


def test_a_result_is_put_into_the_summary_of_its_family(toys):
    path = saved.summary_file(toys, "toy/quick", "cpu")
    old = [result_of(), result_of("toy/two-words")]
    saved.save_family(old, path)
    new = replace(result_of(date="2024-06-01T10:00:00Z"), versions={"torch": "9"})
    assert saved.keep([new], toys) == [path]
    document = json.loads(path.read_text())
    assert document["versions"] == {"torch": "9"}
    assert [study["date"][:7] for study in document["studies"]] == ["2024-06", "2024-05"]
    first, second = saved.load_results(path)
    assert (first.versions, second.versions) == ({"torch": "9"}, old[1].versions)


def test_a_study_that_could_not_be_run_again_keeps_its_result(toys):
    saved.keep([result_of(), result_of("toy/two-words")], toys)
    untried = without_numbers("toy/quick", "cpu", {}, "not tried", "MNIST is not here.")
    (path,) = saved.keep([untried, without_numbers("toy/slow", "cpu", {}, "failed", "x")], toys)
    assert [r.status for r in saved.load_results(path)] == ["done", "failed", "done"]
    assert saved.judge(untried) == untried


def test_a_file_whose_sentences_cannot_be_judged_stays_as_it_is(toys):
    path = saved.save(result_of(), toys)
    document = json.loads(path.read_text())
    document["numbers"]["network"] = {"other": 1}
    path.write_text(json.dumps(document))
    assert [result.status for result in saved.judge_file(path)] == ["failed"]
    assert json.loads(path.read_text()) == document
    with pytest.raises(LawscopeError, match=r"numbers of toy/quick are not whole"):
        saved.load("toy/quick", toys).plot()


def test_a_result_is_judged_by_what_its_own_run_departed_in(toys, monkeypatch):
    path = saved.save(result_of(), toys)
    study = find("toy/quick")
    today = {**study.settings, "cpu": {**study.settings["cpu"], "epochs": 1}}
    later = replace(study, departures={"cpu": "one epoch"}, settings=today)
    monkeypatch.setattr(saved, "find", lambda name: later)
    (again,) = saved.judge_file(path)
    assert again.verdicts["the loss is negative"] == "does not hold"
    for result in (replace(again, settings=today["cpu"]), replace(again, departure=None)):
        new = saved.judge(result)
        assert new.departure == "one epoch"
        assert new.verdicts["the loss is negative"] == "open"


def test_the_summary_of_each_preset_has_a_file_of_its_own(toys):
    for day, preset in enumerate(("cpu", "smoke", "paper"), 1):
        result = result_of(preset=preset, date=f"2024-05-0{day}T10:00:00Z")
        saved.save_family([result], saved.summary_file(toys, "toy/quick", preset))
    assert saved.load("toy/quick", toys).preset == "paper"
    for preset in ("smoke", "cpu", "paper"):
        assert saved.load("toy/quick", toys, preset).preset == preset


@pytest.mark.parametrize("summary", [True, False])
def test_stored_numbers_are_judged_again_by_the_claims_of_today(toys, monkeypatch, summary):
    if summary:
        path = toys / "toy.json"
        saved.save_family([result_of(), result_of("toy/two-words")], path)
    else:
        path = saved.save(result_of(), toys)
    study = find("toy/quick")
    asked = Question("how large?", lambda n: n["loss"][0], lambda loss: f"{loss:g}")
    turned = Claim("the loss is below 1", "1", lambda n: n["loss"][0], lambda loss: loss < 1)
    changed = replace(study, claims=(turned,), questions=(asked,))
    monkeypatch.setattr("toy_studies.toy.quick.STUDY", changed)
    judged = saved.judge_file(path)[0]
    read = saved.load_results(path)[0]
    assert read.verdicts == judged.verdicts == {"the loss is below 1": "holds"}
    assert read.questions[0].verdict == "0.123457"
    assert read.numbers["network"]["loss"][1] == 2.0
    assert read.date == "2024-05-01T10:00:00Z"
    with pytest.raises(LawscopeError, match=r"no results in .*other\.json"):
        saved.judge_file(toys / "other.json")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"studies": []}',
        '{"family": "toy", "versions": {}, "studies": [{}]}',
        '{"family": "toy", "versions": {}, "studies": [5]}',
        '{"family": "toy", "versions": {}, "studies": 5}',
        '{"family": "toy", "versions": {}, "studies": [{"name": "toy/quick"}]}',
    ],
)
def test_a_damaged_summary_is_a_sentence_with_its_name(toys, text):
    (toys / "toy.json").write_text(text)
    with pytest.raises(LawscopeError, match=r"toy\.json is not a.* result"):
        saved.load("toy/quick", toys)


@pytest.mark.parametrize(
    "changed", [{"settings": [1]}, {"seconds": "long"}, {"versions": 3}, {"date": None}]
)
def test_a_result_of_other_types_is_a_sentence_with_its_name(toys, changed):
    path = saved.save(result_of(), toys)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(LawscopeError, match=r"quick\.cpu\.json is not a whole result"):
        saved.load("toy/quick", toys)


@pytest.mark.parametrize("changed", [{"name": "toy/gone"}, {"preset": "smock"}])
def test_a_result_of_another_version_is_a_sentence_with_its_name(toys, changed):
    path = saved.save(result_of(), toys)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(
        LawscopeError, match=r"quick\.cpu\.json is of .* which this version .* does not"
    ):
        saved.load_results(path)
    with pytest.raises(LawscopeError, match="is a folder; name the results in it"):
        saved.load_results(path.parent)


def test_results_that_may_not_be_read_are_a_sentence(toys, monkeypatch):
    saved.save(result_of(), toys)

    def denied(path, **options):
        raise PermissionError(13, "Permission denied")

    for name in ("read_text", "exists"):
        monkeypatch.setattr(Path, name, denied)
    with pytest.raises(LawscopeError, match=r"quick\.cpu\.json may not be read"):
        saved.load("toy/quick", toys, "cpu")


def test_no_result_damaged_results_and_unknown_studies_are_sentences(toys):
    with pytest.raises(LawscopeError, match=r"no result of toy/quick in .*run the study first"):
        saved.load("toy/quick", toys)
    with pytest.raises(LawscopeError, match="There is no study 'toy/quik'"):
        saved.load("toy/quik", toys)
    path = saved.save(result_of(), toys)
    for text in ("{", "[]", '{"name": "toy/quick"}'):
        path.write_text(text)
        with pytest.raises(LawscopeError, match=r"quick\.cpu\.json is not a.* result"):
            saved.load("toy/quick", toys)


def test_terminal_shows_claims_numbers_and_figure(result, toys, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    saved.save(result, toys, b"picture")
    _print_results([result], toys, numbers=True)
    text = capsys.readouterr().out
    assert "the loss is positive" in text
    assert "0.123" in text
    assert "does not hold" in text
    assert "no unicorn was found" in text
    assert "D: 2.00 [1.00, 3.00]" in text
    assert "quick.cpu.png" in text
