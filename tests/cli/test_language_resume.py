"""An interrupted scan goes on where it was; what does not belong together is refused."""

import json
import os
import signal

import pytest

from lawscope.cli.stopping import Stopping
from lawscope.laws.next_token_observer import NextTokenObserver

COMMON = ("--window", 32, "--out", "here", "--json")
FILE = "moments-1of1.safetensors"


@pytest.fixture
def lawscope(tmp_path, monkeypatch, call_lawscope):
    monkeypatch.chdir(tmp_path)
    return call_lawscope


@pytest.fixture
def interrupted(lawscope, language_models, monkeypatch):
    """A scan that gets ctrl-C in the middle of its fourth batch."""
    place, updates = language_models, []
    update = NextTokenObserver.update

    def interrupting(self, *args, **kwargs):
        updates.append(kwargs["first"])
        if len(updates) == 7:  # of the model; its untrained twin is the eighth
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(NextTokenObserver, "update", interrupting)
        code, out, err = lawscope("scan", place / "own.py", "--text", place / "text.txt", *COMMON)
    assert code == 130
    assert out == ""
    assert "Stopped after 4 of" in err
    assert "--resume continues" in err
    assert updates == [0, 0, 8, 8, 16, 16, 24, 24]
    return place


def numbers(document):
    """All but how long it took."""
    law = document["next_token"]
    for each in (law, law["control"]):
        each["settings"].pop("seconds")
    return document


def test_it_gives_the_answer_of_an_uninterrupted_scan(lawscope, interrupted, tmp_path):
    arguments = ("scan", interrupted / "own.py", "--text", interrupted / "text.txt", *COMMON)
    assert (tmp_path / "here" / FILE).exists()
    code, out, err = lawscope(*arguments, "--resume")
    assert code == 0, err
    assert not (tmp_path / "here" / FILE).exists()
    resumed = json.loads(out)
    code, out, err = lawscope(*arguments[:-1], "--json")
    assert code == 0, err
    _near(numbers(resumed), numbers(json.loads(out)))


def _near(ours, theirs):
    if isinstance(ours, dict):
        assert set(ours) == set(theirs)
        for key in ours:
            _near(ours[key], theirs[key])
    elif isinstance(ours, list):
        for one, other in zip(ours, theirs, strict=True):
            _near(one, other)
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    elif not isinstance(ours, str):  # sentences quote the numbers
        assert ours == theirs


def test_another_model_text_setting_or_damage_is_refused(lawscope, interrupted, tmp_path):
    place = interrupted
    own, text = place / "own.py", place / "text.txt"
    other = tmp_path / "own.py"
    other.write_text(own.read_text().replace("manual_seed(3)", "manual_seed(4)"))
    third = tmp_path / "third.py"
    third.write_text(own.read_text())
    before = (tmp_path / "here" / FILE).read_bytes()
    cases = [
        ((third, "--text", text), "of another model"),
        ((other, "--text", text), "the same model with other weights"),
        ((own, "--text", place / "other.txt"), "another text or other windows"),
        ((own, "--text", text, "--folds", 4), "other settings: folds 5 and now 4"),
        ((own, "--text", text, "--targets", "current"), "other settings: targets"),
    ]
    for arguments, words in cases:
        code, out, err = lawscope("scan", *arguments, *COMMON, "--resume")
        assert (code, out) == (2, "")
        assert words in err
        assert (tmp_path / "here" / FILE).read_bytes() == before
    code, _, err = lawscope("scan", own, "--text", text, *COMMON, "--window", 16, "--resume")
    assert code == 2
    assert "another text or other windows" in err
    (tmp_path / "here" / FILE).write_bytes(before[:300])
    code, _, err = lawscope("scan", own, "--text", text, *COMMON, "--resume")
    assert code == 2
    assert "delete it and start anew" in err
    (tmp_path / "here" / FILE).rename(tmp_path / "here" / "moments-1of3.safetensors")
    code, _, err = lawscope("scan", own, "--text", text, *COMMON, "--resume")
    assert code == 2
    assert "saved by 3 process" in err


def test_moments_are_saved_now_and_then(lawscope, language_models, monkeypatch, tmp_path):
    place, found = language_models, []
    monkeypatch.setattr("lawscope.cli.saved_moments.SAVE_SECONDS", -1.0)
    update = NextTokenObserver.update

    def watching(self, *args, **kwargs):
        found.append((tmp_path / "here" / FILE).exists())
        return update(self, *args, **kwargs)

    monkeypatch.setattr(NextTokenObserver, "update", watching)
    arguments = ("scan", place / "own.py", "--text", place / "text.txt", *COMMON, "--no-control")
    code, _, err = lawscope(*arguments, "--resume")
    assert code == 0, err
    assert "nothing to resume" in err
    assert found[0] is False
    assert all(found[1:])
    assert len(found) > 2


def test_stopping_waits_for_order_and_a_later_wish_does_not(monkeypatch):
    before = signal.getsignal(signal.SIGINT)  # deaf where the tests run in the background
    with Stopping() as stopping:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stopping.asked
        monkeypatch.setattr("lawscope.cli.stopping.AGAIN_SECONDS", -1.0)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
