"""``lawscope study …`` as a person uses it."""

import json
import os
from functools import partial

import pytest

from lawscope.studies.result import StudyResult


@pytest.fixture
def lawscope(toys, monkeypatch, call_lawscope):
    """Run the command in an empty folder; gives exit code, stdout and stderr."""
    monkeypatch.chdir(toys)
    return partial(call_lawscope, "study")


def test_run_show_figure_status_gc(lawscope, toys, inline_pool):
    code, out, err = lawscope("run", "toy/quick", "--preset", "smoke", "--jobs", 1)
    assert code == 0, err
    assert err == "1 study at smoke: about 6 s on two cores with an empty store.\n"
    assert "the loss is positive" in out
    assert "figure: lawscope-studies/toy/quick.smoke.png" in out
    assert "loss: " not in out

    code, out, err = lawscope("show", "toy/quick")
    assert code == 0, err
    assert "loss: " not in out
    assert "not tried" in out
    assert "loss: " in lawscope("show", "toy/quick", "--numbers")[1]

    code, out, err = lawscope("show", "toy/quick", "--json")
    document = json.loads(out)
    assert StudyResult.from_dict(document).verdicts["unicorns exist"] == "not tried"

    code, out, err = lawscope("judge", "lawscope-studies/toy/quick.smoke.json")
    assert code == 0, err
    assert "1 study, 3 claims: 3 not tried" in out

    code, out, err = lawscope("keep", "lawscope-studies/toy/quick.smoke.json", "--out", "kept")
    assert code == 0, err
    assert "summary: kept/toy.smoke.json" in out
    assert "loss: " in lawscope("show", "toy/quick", "--numbers", "--out", "kept")[1]

    for form, begin in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        code, out, err = lawscope("figure", "toy/quick", "-o", f"fig.{form}")
        assert code == 0, err
        assert (toys / f"fig.{form}").read_bytes().startswith(begin)

    code, out, _ = lawscope("status")
    assert "3 trainings" in out
    assert "0 are being trained now" in out
    assert "toy/quick (smoke): 3 of 3 trained; " in out

    assert "0 trainings and 0 leftovers removed" in lawscope("gc")[1]
    (toys / "lawscope-studies/toy/quick.smoke.json").unlink()
    use = next((toys / "store/uses").iterdir())
    use.write_text(json.dumps({**json.loads(use.read_text()), "planned": 0}))
    assert "3 trainings and 0 leftovers would be removed" in lawscope("gc", "--dry-run")[1]
    assert "3 trainings and 0 leftovers removed" in lawscope("gc")[1]
    assert "0 trainings, 0 bytes" in lawscope("status")[1]


def test_a_family_says_where_its_summary_lies(lawscope, toys, inline_pool):
    _, out, _ = lawscope("run", "toy", "--preset", "smoke", "--jobs", 1)
    path = out.rpartition("summary: ")[2].strip()
    assert json.loads((toys / path).read_text())["family"] == "toy"


def test_data_is_looked_for_where_one_says(lawscope, toys, inline_pool, monkeypatch):
    monkeypatch.setenv("LAWSCOPE_DATA", "elsewhere")
    (toys / "data").mkdir()
    arguments = ("toy/quick", "--preset", "smoke", "--jobs", 1, "--data-dir", "data")
    code, _, err = lawscope("run", *arguments)
    assert code == 0, err
    assert os.environ["LAWSCOPE_DATA"] == str(toys / "data")  # which workers inherit


def test_a_failed_study_is_said_the_others_go_on_and_the_code_is_1(
    lawscope, toys, inline_pool, monkeypatch
):
    monkeypatch.setattr(
        "lawscope.studies.runner.choose", lambda target: ["toy/broken", "toy/quick"]
    )
    code, out, err = lawscope("run", "toy", "--preset", "smoke", "--jobs", 1, "--json")
    assert code == 1
    broken, quick = json.loads(out)
    assert broken["status"] == "failed"
    assert quick["status"] == "done"
    assert err.endswith("lawscope: toy/broken: failed: ZeroDivisionError: nothing to divide by\n")
    assert (toys / "lawscope-studies/toy.smoke.json").exists()
    code, out, err = lawscope("run", "toy", "--preset", "smoke", "--jobs", 1, "--debug")
    assert code == 1
    assert 'raise ZeroDivisionError("nothing to divide by")' in err
    assert "1 study failed" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "toy/quik"), "did you mean toy/quick"),
        (("run", "toy/quick", "--preset", "cpus"), "did you mean cpu?"),
        (("run", "toy/quick", "--seeds", "0"), "--seeds 0 trains nothing; give at least 1"),
        (
            ("run", "peeled/balanced", "--seeds", "2"),
            "has no seeds to choose; leave out --seeds 2",
        ),
        (("run", "toy/quick", "--jobs", "0"), "--jobs 0 trains nothing; give at least 1"),
        (("run", "toy/quick", "--data-dir", "no"), "no, given by --data-dir, is not a folder"),
        (
            ("run", "toy/quick", "--on", "rey"),
            "--on rey is not known; choose local, ray, ray://auto",
        ),
        (("run", "toy/quick", "--out", "/proc/x"), "--out /proc/x cannot be written"),
        (("run", "toy/quick", "--store", "/proc/x"), "The store /proc/x cannot be written"),
        (("show", "toy/quick"), "There is no result of toy/quick in"),
        (("show", "toy/quick", "--preset", "nice"), "no preset 'nice'"),
        (("judge", "nothing.json"), "There are no results in nothing.json"),
        (("keep", "nothing.json"), "There are no results in nothing.json"),
        (("figure", "toy/quick", "-o", "fig.gif"), "must end in .pdf, .png or .svg"),
        (("figure", "toy/quick", "-o", "fig.pdf"), "There is no result of toy/quick"),
    ],
)
def test_mistakes_are_one_sentence_and_code_2(lawscope, arguments, sentence):
    code, out, err = lawscope(*arguments)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert err.startswith("lawscope: ")


def test_a_store_of_another_version(lawscope, toys):
    (toys / "store").mkdir()
    (toys / "store/lawscope-store.json").write_text('{"format": 7}')
    code, _, err = lawscope("status")
    assert code == 2
    assert "another version of lawscope (format 7" in err
