"""``lawscope depth`` as a person uses it."""

import json
from functools import partial

import numpy as np
import pytest

from lawscope.cli.depth import parse_depths

QUICK = ("--depths", "2,4", "--seeds", 2, "--width", 12, "--epochs", 5, "--lr", 0.01)


@pytest.fixture
def depth(tmp_path, monkeypatch, call_lawscope):
    """Run the command in a folder with data; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    np.savez("mine.npz", x=rng.normal(size=(60, 5)) + 3 * np.eye(3, 5)[y], y=y)
    np.savez("same.npz", x=np.eye(3, 5)[y], y=y)
    return partial(call_lawscope, "depth")


def test_table_sentence_and_figure(depth, tmp_path):
    code, out, err = depth("--data", "mine.npz", *QUICK, "-o", "depth.pdf")
    assert code == 0, err
    assert "Depth for mine" in out
    assert "12 held-out samples" in " ".join(out.split())
    assert {"layers", "D", "training", "held", "enough"} <= set(out.replace(",", " ").split())
    assert (tmp_path / "depth.pdf").read_bytes().startswith(b"%PDF")


def test_json_is_the_only_thing_on_stdout(depth):
    code, out, _ = depth("--data", "mine.npz", *QUICK, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["depths"] == [2, 4]
    assert np.array(document["values"]).shape == (2, 2)
    assert document["best"] in document["candidates"]
    assert np.array(document["held_out"]).shape == (2, 2)
    assert document["enough"] == min(document["accurate"])
    assert document["settings"]["held_out"] == 12


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--data", "mine.npz", "--depths", "two"), "write it like 2,4,8"),
        (("--data", "mine.npz", "--depths", "6-2"), "two or more different"),
        (("--data", "mine.npz", "--depths", "2,²"), "write it like 2,4,8"),
        (("--data", "mine.npz", "--seeds", "1"), "at least 2"),
        (("--data", "mine.npz", "--lr", "0"), "lr=0.0 does not train; give a number above 0"),
        (("--data", "mine.npz", "--lr", "-1"), "lr=-1.0 does not train"),
        (("--data", "mine.npz", "--lr", "nan"), "lr=nan does not train"),
        (("--data", "mine.npz", "--epochs", "0"), "epochs=0 would not train"),
        (("--data", "mine.npz", "--width", "0"), "width=0 leaves no room"),
        (("--data", "same.npz", "--epochs", "1"), "D = 0 at every layer"),
        (("--data", "mine.npz", "-o", "depth.bmp"), "must end in .pdf, .png or .svg"),
        (("--data", "mine.np"), "nor a file"),
        (("--data", "mine.npz", "--size", "big"), "like 32x32"),
    ],
)
def test_mistakes_are_one_sentence(depth, arguments, said):
    code, out, err = depth(*arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert not out


def test_depths_are_single_ones_and_ranges():
    assert parse_depths("2-4,8") == [2, 3, 4, 8]


@pytest.mark.parametrize("kind", [">f4", np.longdouble])
def test_numbers_that_torch_does_not_have_are_read(depth, kind):
    with np.load("mine.npz") as mine:
        np.savez("other.npz", x=mine["x"].astype("f4").astype(kind), y=mine["y"])
        np.savez("plain.npz", x=mine["x"].astype("f4"), y=mine["y"])
    found = [depth("--data", name, *QUICK, "--json") for name in ("other.npz", "plain.npz")]
    assert [code for code, _, _ in found] == [0, 0]
    assert len({str(json.loads(out)["values"]) for _, out, _ in found}) == 1
