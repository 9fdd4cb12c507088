"""``lawscope elastic`` as a person uses it."""

import json
from functools import partial

import numpy as np
import pytest

import lawscope as ls


@pytest.fixture
def elastic(tmp_path, monkeypatch, call_lawscope):
    """Run the command in an empty folder; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return partial(call_lawscope, "elastic")


LITTLE = ("--samples", 10, "--repeats", 5)


def test_a_simulated_training_is_recorded_and_fitted(elastic):
    strengths = ("--alpha", "0.02", "--beta", "-0.01", "--noise", 1e-4)
    code, out, err = elastic(
        "simulate",
        "--model",
        "L",
        *strengths,
        "--times",
        500,
        *LITTLE,
        "--record",
        "run.lawscope.json",
    )
    assert code == 0, err
    assert "separable with probability 1.00" in " ".join(out.split())
    code, out, err = elastic("fit", "run.lawscope.json", "--out", "fit.html", "-o", "fit.pdf")
    assert code == 0, err
    assert "locally elastic" in out
    found = ls.load("fit.html")
    for name, truth in (("A", 10.0), ("B", -5.0)):
        low, high = found.intervals[name][-1]
        assert low < truth < high
        assert high - low < 0.5
    document = json.loads(elastic("fit", "run.lawscope.json", "--model", "I", "--json")[1])
    assert document["model"] == "I"
    run = ls.load("run.lawscope.json")
    np.savez("run.npz", steps=run.steps, means=run.means)
    assert json.loads(elastic("fit", "run.npz", "--json")[1])["A"] == found.to_dict()["A"]


def test_shares_of_wrong_labels_are_a_phase_diagram(elastic):
    code, out, err = elastic(
        "simulate",
        "--alpha",
        "1/sqrt(1+t)",
        "--label-noise",
        "0,0.9",
        "--times",
        "300",
        *LITTLE,
        "-o",
        "p.svg",
    )
    assert code == 0, err
    said = " ".join(out.split())
    assert "From a label noise of (K−1)/K = 0.667 on" in said
    document = json.loads(
        elastic("simulate", "--label-noise", "0,0.9", "--times", 300, *LITTLE, "--json")[1]
    )
    assert [row[0] for row in document["probability"]] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit", "gone.lawscope.json"), "gone.lawscope.json cannot be read"),
        (("fit", "gone.npz"), "There is no file gone.npz"),
        (("fit", "other.npz"), "cannot be read as an .npz with steps and means"),
        (("fit", "peel.lawscope.json"), "is a saved Peeled; give class means"),
        (("fit", "short.npz"), "give --window 29"),
        (("fit", "short.npz", "--window", 5, "--t0", "soon"), "give a number or auto"),
        (("fit", "short.npz", "--window", 5, "-o", "a.bmp"), "must end in .pdf, .png or .svg"),
        (("simulate", "--alpha", "__import__('os')"), "is not a formula of t"),
        (("simulate", "--alpha", "t.real"), "is not a formula of t"),
        (("simulate", "--alpha", "9**9**9**9*t"), "alpha is not a function of t"),
        (("simulate", "--alpha", "1/t"), "choose a later --start, or another function"),
        (("simulate", "--times", "1,x"), "is not a list of numbers"),
        (("simulate", "--classes", 1), "K=1 leaves nothing to tell apart"),
        (("simulate", "--noise", -1), "is a variance"),
        (("simulate", "--drift", "both"), "choose 'mean' or 'sample'"),
    ],
)
def test_mistakes_are_sentences(elastic, arguments, said):
    np.savez("other.npz", x=np.zeros(3))
    np.savez("short.npz", steps=np.arange(30), means=np.ones((30, 3, 3)) + np.eye(3))
    ls.peel([9, 1]).save("peel.lawscope.json")
    code, out, err = elastic(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
