"""Running studies: from a name to results on disk."""

import json
from dataclasses import replace

import numpy as np
import pytest

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.studies.registry import find
from lawscope.studies.runner import run, run_many
from lawscope.studies.store import Store
from lawscope.studies.study import AUTHORS, NETWORK, Check, Claim


def test_run_from_python_with_two_processes(toys):
    result = ls.studies.run("toy/quick", preset="smoke", jobs=2, out=toys / "out")
    assert set(result.verdicts.values()) == {"not tried"}
    assert "smoke runs show only" in result.claims[0].column.why
    assert (toys / "out/toy/quick.smoke.json").exists()
    assert (toys / "out/toy/quick.smoke.png").read_bytes().startswith(b"\x89PNG")
    assert result.seconds > 0
    assert len(result.numbers["network"]["D"]) == 3
    assert len(Store().entries()) == 3


def test_both_protocols_measure_the_same_networks_in_one_run(toys, inline_pool, monkeypatch):
    both = replace(find("toy/quick"), protocols=(AUTHORS, NETWORK))
    monkeypatch.setattr("toy_studies.toy.quick.STUDY", both)
    monkeypatch.setattr("lawscope.studies.scheduler.find", lambda name: both)
    result = run("toy/quick", preset="cpu", jobs=1, out=toys / "out")
    authors, network = result.numbers["authors"], result.numbers["network"]
    assert authors["loss"] == network["loss"]
    # The input is the same, the first layer has BatchNorm.
    assert authors["D"][0] == pytest.approx(network["D"][0], rel=1e-12)
    assert authors["D"][1] != pytest.approx(network["D"][1], rel=1e-6)
    assert {tuple(claim.columns) for claim in result.claims} == {("authors", "network")}
    again = ls.studies.load("toy/quick", toys / "out")
    assert again.numbers["authors"]["D"] == authors["D"]
    assert again.verdicts == result.verdicts


def test_a_claim_that_raises_fails_the_study_and_keeps_its_numbers(toys, inline_pool, monkeypatch):
    wrong = Claim("it holds", "yes", lambda n: n["no such number"], lambda v: v > 0)
    study = replace(find("toy/quick"), claims=(wrong,))
    monkeypatch.setattr("toy_studies.toy.quick.STUDY", study)
    (result,) = run_many("toy/quick", preset="smoke", jobs=1, out=toys / "out")
    assert result.status == "failed"
    assert "the claim 'it holds' could not be judged: KeyError" in result.why
    kept = json.loads((toys / "out/toy/quick.smoke.json").read_text())
    assert len(kept["numbers"]["network"]["loss"]) == 3
    with pytest.raises(LawscopeError, match="toy/quick failed: the claim"):
        run("toy/quick", preset="smoke", jobs=1, out=toys / "out")


def test_a_failed_check_is_seen_and_is_not_a_claim(toys, inline_pool, monkeypatch):
    check = Check("1 + 1 = 3", lambda n: 1 + 1, lambda v: v == 3)
    study = replace(find("toy/quick"), checks=(check,))
    monkeypatch.setattr("toy_studies.toy.quick.STUDY", study)
    result = run("toy/quick", preset="smoke", jobs=1, out=toys / "out")
    assert result.status == "failed check"
    assert "1 + 1 = 3" in result.why
    assert len(result.verdicts) == 3


def test_seeds_are_what_was_asked_for(toys, inline_pool):
    result = run("toy/quick", preset="smoke", seeds=np.int64(3), jobs=1, out=toys / "out")
    assert result.settings["seeds"] == 3
    assert len(result.numbers["network"]["loss"]) == 2 * 3 + 1


def test_an_absent_dataset_is_not_tried_and_one_that_fails_stops_nobody(
    toys, inline_pool, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(toys / "cache"))
    monkeypatch.delenv("LAWSCOPE_DATA", raising=False)

    def offline(*arguments, **options):
        raise OSError("its address is silent")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    chosen = ["toy/broken", "toy/far-away", "toy/quick"]
    monkeypatch.setattr("lawscope.studies.runner.choose", lambda target: chosen)
    broken, far, quick = run_many("toy", preset="smoke", jobs=1, out=toys / "out")
    assert broken.status == "failed"
    assert broken.why == "ZeroDivisionError: nothing to divide by"
    assert far.status == "not tried"
    assert "put its four idx files" in far.why
    assert set(far.verdicts.values()) == {"not tried"}
    assert quick.status == "done"
    summary = json.loads((toys / "out/toy.smoke.json").read_text())
    assert [study["status"] for study in summary["studies"]] == ["failed", "not tried", "done"]
    assert not (toys / "out/toy/far-away.smoke.json").exists()


def test_a_study_without_the_preset_fails_and_stops_nobody(toys, inline_pool, monkeypatch):
    lacking = replace(find("toy/quick"), settings={"cpu": {}})
    monkeypatch.setattr("toy_studies.toy.broken.STUDY", lacking)
    chosen = ["toy/broken", "toy/quick"]
    monkeypatch.setattr("lawscope.studies.runner.choose", lambda target: chosen)
    broken, quick = run_many("toy", preset="smoke", jobs=1, out=toys / "out")
    assert broken.status == "failed"
    assert broken.why == "plan: KeyError: 'smoke'"
    assert quick.status == "done"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"preset": "fast"}, "no preset 'fast'"),
        ({"seeds": 0}, "seeds=0 .*give at least 1"),
        ({"jobs": 0}, "jobs=0 .*give at least 1"),
        ({"seeds": "3"}, "seeds='3' is not a whole number"),
        ({"seeds": 2.5}, "seeds=2.5 is not a whole number"),
        ({"jobs": 1.5}, "jobs=1.5 is not a whole number"),
        ({"preset": None}, "no preset None; choose smoke, cpu, paper"),
        ({"on": "mars"}, "on='mars' is not known"),
        ({"on": None}, "on=None is not known"),
        ({"out": "/proc/results"}, "out=/proc/results cannot be written"),
    ],
)
def test_bad_settings_are_sentences(toys, options, sentence):
    with pytest.raises(LawscopeError, match=sentence):
        run("toy/quick", **{"preset": "smoke", "out": toys / "out", **options})


def test_a_damaged_summary_is_said_before_anything_is_trained(toys):
    (toys / "out").mkdir()
    (toys / "out/toy.smoke.json").write_text("{")
    with pytest.raises(LawscopeError, match=r"toy\.smoke\.json is not a readable result"):
        run_many("toy", preset="smoke", jobs=1, out=toys / "out")
    assert Store().entries() == []


def test_an_unknown_study_is_a_sentence(toys):
    with pytest.raises(LawscopeError, match="did you mean toy/quick"):
        run("toy/quik")
