"""``lawscope peel`` as a person uses it."""

import json
from functools import partial

import numpy as np
import pytest


@pytest.fixture
def peel(tmp_path, monkeypatch, call_lawscope):
    """Run the command in an empty folder; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return partial(call_lawscope, "peel")


def test_table_and_advice(peel):
    code, out, err = peel("--counts", "5000x5,50x5")
    assert code == 0, err
    assert "collapsed" in out
    assert "collapse from a ratio of 12.1924; yours is 100" in " ".join(out.split())
    assert "more than 8.2018 times" in " ".join(out.split())


def test_json_has_the_promised_fields(peel):
    _, out, _ = peel("--classes", 10, "--majority", 5, "--ratio", 100, "--json")
    document = json.loads(out)
    for name in (
        "loss", "gap", "minority_cosine", "threshold_ratio", "vanishing_ratio",
        "oversampling_needed",
    ):  # fmt: skip
        assert name in document
    assert set(document["groups"][0]) == {"count", "classes", "cosine", "phase"}
    assert document["minority_cosine"] == 1.0
    assert document["vanishing_ratio"] is None


@pytest.mark.parametrize("form", ["npy", "npz", "txt"])
def test_labels_are_counted(peel, form):
    labels = np.repeat([3, 8, 9], [6, 6, 2])
    if form == "npy":
        np.save("y.npy", labels)
    elif form == "npz":
        np.savez("y.npz", y=labels)
    else:
        np.savetxt("y.txt", labels, fmt="%d")
    _, out, err = peel("--labels", f"y.{form}", "--json")
    assert [(g["count"], g["classes"]) for g in json.loads(out)["groups"]] == [(6, 2), (2, 1)], err


def test_labels_of_a_dataset(peel):
    _, out, _ = peel("--data", "fashion-mnist-10x10", "--json")
    assert json.loads(out)["groups"][0]["classes"] == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "in one way"),
        (("--counts", "5,1", "--ratio", 3), "in one way"),
        (("--counts", "5000by5"), "write it like 5000x5,50x5"),
        (("--counts", "5000"), "two or more classes"),
        (("--counts", "5,0"), "leave empty classes out"),
        (("--classes", 10), "go together"),
        (("--classes", 10, "--majority", 10, "--ratio", 3), "choose between 1 and 9"),
        (("--labels", "none.npy"), "There is no file none.npy"),
        (("--counts", "5,1", "--loss", "crossentropy"), "did you mean cross_entropy?"),
        (("--counts", "5,1", "--weight-energy", 0), "must be positive"),
    ],
)
def test_mistakes_are_sentences(peel, arguments, said):
    code, out, err = peel(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
