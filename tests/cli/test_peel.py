"""``lawscope peel`` as a person uses it."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lawscope.cli.peel import parse_counts


@pytest.fixture
def peel(tmp_path, monkeypatch, call_lawscope):
    """Run the command in an empty folder; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return partial(call_lawscope, "peel")


def test_table_and_advice(peel):
    code, out, err = peel("--counts", "5000x5,50x5")
    assert code == 0, err
    assert "collapsed" in out
    said = " ".join(out.split())
    assert "collapse from a ratio of 12.2 on; yours is 100." in said
    assert "more than 8.20 times" in said
    assert "E_W = 1 and E_H = 5 (E_W and E_H assumed)." in said
    assert "lawscope scan prints those of your network, for --weight-energy" in said
    assert "50 5 1.00 collapsed" in said


def test_energies_that_were_given_are_not_assumed(peel):
    given = ("--weight-energy", 1, "--feature-energy", 5)
    said = " ".join(peel("--counts", "5000x5,50x5", *given)[1].split())
    assert "for the energies E_W = 1 and E_H = 5. The smallest" in said
    said = " ".join(peel("--counts", "5000x5,50x5", *given[2:])[1].split())
    assert "E_W = 1 and E_H = 5 (E_W assumed)" in said
    for more in (("--classes", 10, "--majority", 5, "--sweep"), ("--counts", "1x3", "--q", 3)):
        assert "(E_W and E_H assumed)" in " ".join(peel(*more)[1].split())


def test_a_ratio_that_no_data_has_is_said_in_words(peel):
    large = ("--weight-energy", 5, "--feature-energy", 1000)
    said = " ".join(peel("--counts", "5000x5,50x5", *large)[1].split())
    assert "stay apart at every ratio up to a million and beyond; yours is 100." in said
    assert "e2" not in said  # the threshold is 10²⁹ and more
    said = " ".join(peel("--counts", "5000x5,50,40", "--feature-energy", 41)[1].split())
    assert "from a ratio of 1 420 on; yours is 125." in said


def test_a_missing_cosine_is_explained(peel):
    assert "no second classifier" not in peel("--counts", "5000x5,50x5")[1]
    said = " ".join(peel("--counts", "5000x5,50,40", "--feature-energy", 41)[1].split())
    assert "50 1 – separated" in said
    assert "A class alone in its size has no cosine (–), since there is no second" in said
    vanished = ("--counts", "1e12x3,1x3", "--feature-energy", 0.01)
    assert "Vanished classifiers are zero" in " ".join(peel(*vanished)[1].split())


def test_the_figure_is_drawn_or_refused_at_once(peel, tmp_path):
    code, _, err = peel("--counts", "5000x5,50x5", "-o", "cosines.pdf")
    assert code == 0, err
    assert (tmp_path / "cosines.pdf").read_bytes().startswith(b"%PDF")
    assert "must end in .pdf, .png or .svg" in peel("--counts", "5x2,1", "-o", "a.bmp")[2]


def test_json_has_the_promised_fields(peel):
    _, out, _ = peel("--classes", 10, "--majority", 5, "--ratio", 100, "--json")
    document = json.loads(out)
    names = "loss gap minority_cosine threshold vanishing oversampling_needed groups weight_energy"
    assert set(names.split()) <= set(document)
    assert {"count", "classes", "cosine", "phase"} <= set(document["groups"][0])
    assert document["minority_cosine"] == 1.0
    assert document["vanishing"] is None


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.txt", "named.npz", "named.npy"])
def test_labels_are_counted(peel, name):
    labels = np.repeat([3, 8, 9], [6, 6, 2])
    np.save("y.npy", labels)
    np.savez("y.npz", y=labels)
    np.savetxt("y.txt", labels, fmt="%d")
    Path("named.npz").write_bytes(Path("y.npy").read_bytes())
    Path("named.npy").write_bytes(Path("y.npz").read_bytes())
    _, out, err = peel("--labels", name, "--json")
    assert [(g["count"], g["classes"]) for g in json.loads(out)["groups"]] == [(6, 2), (2, 1)], err


def test_labels_that_are_nan_are_refused(peel):
    np.save("y.npy", np.array([0.0, 1.0, np.nan]))
    code, _, err = peel("--labels", "y.npy")
    assert code == 2
    assert "labels that are NaN" in err


def test_labels_in_words_are_lines_and_a_heading_is_no_class(peel):
    names = "polar bear\n" * 6 + "brown bear\n" * 6 + "\ncat\ncat\n"
    Path("names.txt").write_text(names, encoding="utf-8")
    _, out, err = peel("--labels", "names.txt", "--json")
    assert [(g["count"], g["classes"]) for g in json.loads(out)["groups"]] == [(6, 2), (2, 1)], err
    Path("y.csv").write_text("label\n" + "0\n1\n" * 5, encoding="utf-8")
    code, _, err = peel("--labels", "y.csv")
    assert code == 2
    assert "begins with 'label'" in err


def test_advice_after_oversampling_is_about_what_is_left(peel):
    split = ("--classes", 10, "--majority", 5, "--ratio", 100)
    assert "Oversample them more than 8.20 times to prevent it." in peel(*split)[1]
    said = " ".join(peel(*split, "--oversampling", 4)[1].split())
    assert "more than 2.05 times what they are now to prevent it." in said


def test_labels_of_a_dataset(peel):
    _, out, _ = peel("--data", "fashion-mnist-10x10", "--json")
    assert json.loads(out)["groups"][0]["classes"] == 10


def test_sweep_is_a_table_and_a_document(peel):
    _, out, err = peel("--classes", 10, "--majority", 5, "--sweep")
    assert "collapse from a ratio of 12.2." in " ".join(out.split()), err
    assert "−0.111" in out
    _, out, _ = peel("--classes", 10, "--majority", 5, "--sweep", "--json")
    document = json.loads(out)
    assert len(document["ratios"]) == 41
    assert document["threshold"] == pytest.approx(12.1924, rel=1e-4)


def test_another_norm_is_said_not_to_be_certified(peel):
    _, out, err = peel("--counts", "1x3", "--q", 3)
    assert "not certified" in out, err
    _, out, _ = peel("--counts", "1x3", "--q", 3, "--json")
    assert json.loads(out)["certified"] is False


def test_absurd_ratio_has_its_phase(peel):
    _, out, err = peel("--counts", "1e12x3,1x3", "--json")
    assert [g["phase"] for g in json.loads(out)["groups"]] == ["separated", "collapsed"], err
    _, out, err = peel("--counts", "1e12x3,1x3", "--feature-energy", 0.01, "--json")
    document = json.loads(out)
    assert document["groups"][1]["phase"] == "vanished", err
    assert document["minority_cosine"] == "NaN"
    assert document["vanishing"] < 1e12


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "in one way"),
        (("--counts", "5000x0,3x2"), "write it like 5000x5,50x5"),
        (("--counts", "nan,3"), "class 0 is nan"),
        (("--counts", "5,1", "--sweep"), "--sweep takes --classes and --majority"),
        (("--classes", 9, "--majority", 3, "--ratio", 2, "--sweep"), "no --ratio"),
        (("--counts", "5,1", "--q", 1), "above 1"),
        (("--counts", "5,1", "--q", 3, "--loss", "mse"), "not with mse"),
        (("--counts", "5,1", "--q", 3, "--oversampling", 2), "choose one"),
        (("--counts", "5,1", "--ratio", 3), "in one way"),
        (("--counts", "5000by5"), "write it like 5000x5,50x5"),
        (("--counts", "5000"), "two or more classes"),
        (("--counts", "5,0"), "leave empty classes out"),
        (("--classes", 10), "go together"),
        (("--classes", 10, "--majority", 10, "--ratio", 3), "leaves no minority"),
        (("--labels", "none.npy"), "There is no file none.npy"),
        (("--counts", "5,1", "--loss", "crossentropy"), "did you mean cross_entropy?"),
        (("--counts", "5,1", "--weight-energy", 0), "must be positive"),
        (("--counts", "5x99999999999999999999"), "write it like 5000x5,50x5"),
        (("--labels", "cut.npz"), "cut.npz cannot be read as labels"),
        (("--labels", "x" * 300), "File name too long"),
        (("--labels", "swapped.npz"), "has shape (2, 2)"),
        (("--labels", "swapped.npy"), "swapped.npy cannot be read as labels"),
        (("--classes", 10, "--majority", 5, "--ratio", 0.5), "give 1 or more"),
        (("--classes", 99999999, "--majority", 5, "--ratio", 2), "give at most 1000000"),
    ],
)
def test_mistakes_are_sentences(peel, arguments, said):
    Path("cut.npz").write_bytes(b"PK\x03\x04 cut")
    with Path("swapped.npz").open("wb") as file:
        np.save(file, np.zeros((2, 2)))
    with Path("swapped.npy").open("wb") as file:
        np.savez(file, labels=np.zeros(3))
    code, out, err = peel(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_many_sizes_are_shortened_and_their_threshold_left_for_python(peel):
    counts = ",".join(str(n) for n in range(1, 102))
    _, said, _ = peel("--counts", counts)
    assert "…" in said
    assert "The table has the 6 largest and 6 smallest of 101 sizes." in said
    assert len(said.splitlines()) < 40
    assert "With 101 different sizes the threshold takes minutes" in " ".join(said.split())
    document = json.loads(peel("--counts", counts, "--json")[1])
    assert document["threshold"] is None


def test_counts_are_single_ones_and_repeated_ones():
    assert parse_counts("5000x2,50") == [5000.0, 5000.0, 50.0]
