"""``lawscope charges``, and a loss that the target defines."""

import json

import pytest
from torch import nn

import lawscope as ls

NET = """
import torch
from torch import nn

torch.manual_seed(0)
y = torch.arange(60) % 3
x = torch.randn(60, 6)
data = [(x[:30], y[:30]), (x[30:], y[30:])]
model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
"""
LOSS = "loss = nn.functional.cross_entropy\n"


@pytest.fixture
def lawscope(tmp_path, monkeypatch, call_lawscope):
    monkeypatch.chdir(tmp_path)

    def call(command, source, *options):
        (tmp_path / "net.py").write_text(source)
        return call_lawscope(command, "net.py", "--threads", 1, *options)

    return call


def test_symmetries_charges_and_noise_of_a_file(lawscope):
    code, out, err = lawscope("charges", NET + LOSS)
    assert code == 0, err
    words = " ".join(out.split())
    assert "1 rescaling, 2 translations and 1 permutation" in words
    assert "3 charges with 11 numbers" in words  # 5 units, 5 columns of the head, its bias
    assert "surely away from noise equilibrium" in words
    code, out, err = lawscope("charges", NET)
    assert code == 0
    assert "from noise equilibrium" not in out
    assert "define 'loss' in the target, or pass --loss" in err


def test_json_is_one_document_with_the_same_numbers_as_in_python(lawscope):
    code, out, err = lawscope("charges", NET, "--loss", "cross-entropy", "--json")
    assert code == 0, err
    document = json.loads(out)
    names: dict = {}
    exec(NET, {}, names)  # the same network from the same seed
    expected = ls.noise_equilibrium(names["model"], names["data"], nn.functional.cross_entropy)
    assert document["noise_equilibrium"]["samples"] == 60
    found = document["noise_equilibrium"]["places"][0]["scale"]
    assert found == pytest.approx(expected.places[0].scale.tolist(), rel=1e-9)
    assert document["charges"]["schema"].startswith("lawscope.charges/")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (NET.replace("ReLU", "GELU") + LOSS, "no noise equilibrium: The network has no rescaling"),
        (NET + LOSS + "data = [x]\n", "no noise equilibrium: The data has no labels"),
    ],
)
def test_where_noise_drives_nothing_the_charges_are_given_all_the_same(lawscope, source, sentence):
    code, out, err = lawscope("charges", source)
    assert code == 0
    assert "charges with" in out
    assert sentence in " ".join(err.split())


def test_a_generator_serves_symmetries_and_noise(lawscope):
    once = "data = (pair for pair in [(x[:30], y[:30]), (x[30:], y[30:])])\n"
    code, out, err = lawscope("charges", NET + LOSS + once, "--json")
    assert code == 0, err
    assert json.loads(out)["noise_equilibrium"]["samples"] == 60


def test_a_loss_of_the_file_is_used_by_scan_and_a_value_left_by_training_is_not(lawscope):
    code, out, err = lawscope("scan", NET + LOSS, "--json", "--no-control")
    assert code == 0, err
    results = json.loads(out)["results"]
    assert "elasticity" in results
    assert results["conservation"]["charges"][0]["kind"] == "rescaling"
    assert results["symmetry"]["layers"][0]["mirror"] is not None
    left = "loss = nn.functional.cross_entropy(model(x), y)\n"
    for source in (NET, NET + left):
        code, out, err = lawscope("scan", source, "--json", "--no-control")
        assert code == 0, err
        report = json.loads(out)
        assert "elasticity" not in report["results"]
        assert "define 'loss' in the target" in report["skipped"]["elasticity"]


def test_the_command_line_goes_before_the_file(lawscope):
    broken = "def loss(output, labels):\n    raise RuntimeError('not this one')\n"
    code, out, err = lawscope("charges", NET + broken, "--loss", "cross-entropy", "--json")
    assert code == 0, err
    assert json.loads(out)["noise_equilibrium"] is not None
    code, _, err = lawscope("charges", NET + broken)
    assert "not this one" in err
