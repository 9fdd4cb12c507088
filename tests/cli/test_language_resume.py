"""An interrupted scan goes on where it was; what does not belong together is refused."""

import json
import os
import signal

import pytest

from lawscope.laws.next_token.observer import NextTokenObserver

COMMON = ("--window", 32, "--out", "here", "--json")
FILE = "unfinished.safetensors"


@pytest.fixture
def lawscope(tmp_path, monkeypatch, call_lawscope):
    monkeypatch.chdir(tmp_path)
    return call_lawscope


@pytest.fixture
def interrupted(lawscope, language_models, monkeypatch, tmp_path):
    """A scan that gets ctrl-C in the middle of its fourth batch."""
    place, seen = language_models, []
    end_batch = NextTokenObserver.end_batch

    def interrupting(self):
        seen.append(self)
        if len(seen) == 7:  # of the model; its untrained twin is the eighth
            os.kill(os.getpid(), signal.SIGINT)
        return end_batch(self)

    with monkeypatch.context() as patch:
        patch.setattr(NextTokenObserver, "end_batch", interrupting)
        code, out, err = lawscope("scan", place / "own.py", "--text", place / "text.txt", *COMMON)
    assert code == 130
    assert out == ""
    assert "Stopped after 4 batches" in err
    assert "--resume continues" in err
    assert len(seen) == 8
    assert (tmp_path / "here" / FILE).exists()
    return place


def test_it_gives_the_answer_of_an_uninterrupted_scan(lawscope, interrupted, tmp_path):
    arguments = ("scan", interrupted / "own.py", "--text", interrupted / "text.txt", *COMMON)
    code, out, err = lawscope(*arguments, "--resume")
    assert code == 0, err
    assert not (tmp_path / "here" / FILE).exists()
    resumed = json.loads(out)["results"]["next_token"]
    code, out, err = lawscope(*arguments)
    assert code == 0, err
    whole = json.loads(out)["results"]["next_token"]
    for ours, theirs in ((resumed, whole), (resumed["control"], whole["control"])):
        assert ours["n"] == theirs["n"]
        for name in ("pr", "pr_cv", "pr_onehot"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-12)


def test_without_resume_it_begins_again_and_says_so(lawscope, interrupted):
    arguments = ("scan", interrupted / "own.py", "--text", interrupted / "text.txt", *COMMON)
    code, _, err = lawscope(*arguments)
    assert code == 0
    assert "which --resume would continue; beginning again" in err
    code, _, err = lawscope(*arguments, "--resume")
    assert code == 0
    assert "nothing to resume" in err


def test_another_model_text_setting_or_damage_is_refused(lawscope, interrupted, tmp_path):
    place = interrupted
    own, text, kept = place / "own.py", place / "text.txt", tmp_path / "here" / FILE
    other = tmp_path / "own.py"
    other.write_text(own.read_text().replace("manual_seed(3)", "manual_seed(4)"))
    before = kept.read_bytes()
    flipped = bytearray(before)
    flipped[-100] ^= 1
    cases = [
        ((other, "--text", text), "with other weights", before),
        (
            (own, "--text", place / "other.txt"),
            "not what the interrupted measurement had read",
            before,
        ),
        ((own, "--text", text, "--folds", 4), "other settings", before),
        ((own, "--text", text, "--targets", "current"), "other settings", before),
        ((own, "--text", text, "--window", 16), "not what the interrupted measurement", before),
        ((own, "--text", text), "is damaged; delete it to begin again", before[:300]),
        ((own, "--text", text), "is damaged; delete it to begin again", bytes(flipped)),
    ]
    for arguments, words, content in cases:
        kept.write_bytes(content)
        code, out, err = lawscope("scan", *COMMON, *arguments, "--resume")
        assert (code, out) == (2, ""), arguments
        assert words in err
        assert kept.read_bytes() == content
    kept.rename(tmp_path / "here" / "unfinished-1of3.safetensors")
    code, _, err = lawscope("scan", own, "--text", text, *COMMON, "--resume")
    assert code == 2
    assert "was saved by 3 process" in err
