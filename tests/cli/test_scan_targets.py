"""What targets of people do to a scan: a sentence or a measurement, never a traceback."""

import json

import numpy as np
import pytest
import torch

NET = """
import torch
from torch import nn

torch.manual_seed(0)
y = torch.arange(80) % 4
x = torch.randn(80, 100) + torch.randn(4, 100)[y]
data = (x, y)

def net(last=4):
    layers = nn.Linear(100, 9), nn.ReLU(), nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, last)
    return nn.Sequential(*layers)

model = net()
"""
RAISING = """
def data():
    yield x[:20], y[:20]
    raise OSError("disk gone")
"""
META = """
with torch.device("meta"):
    model = net()
"""
LEAVING = """
class Leaving(nn.Module):
    def forward(self, x):
        raise SystemExit(7)

model = nn.Sequential(*net(), Leaving())
"""
LEAVING_DATA = """
def data():
    yield x[:20], y[:20]
    raise SystemExit("enough")
"""
TWO_HEADS = """
class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fine, self.coarse = net(9), nn.Linear(9, 4), nn.Linear(9, 4)

    def forward(self, x):
        h = self.body(x).relu()
        return self.fine(h), self.coarse(h)

model = TwoHeads()
"""
ONCE = """
data = ((x[i : i + 20], y[i : i + 20]) for i in range(0, 80, 20))
"""


@pytest.fixture
def scanned(tmp_path, monkeypatch, call_lawscope):
    """Scan a target; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def scan(target, *options):
        (tmp_path / "net.py").write_text(NET + target)
        return call_lawscope("scan", "net.py", "--threads", 1, *options)

    return scan


@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        (RAISING, (), "raised OSError: disk gone"),
        (RAISING, ("--samples", 40), "raised OSError: disk gone"),
        (META, (), "on the meta device"),
        (LEAVING, (), "ended the program (SystemExit: 7)"),
        (LEAVING_DATA, (), "ended the program (SystemExit: enough)"),
        (LEAVING_DATA, ("--samples", 40), "ended the program (SystemExit: enough)"),
        (TWO_HEADS, ("--head", "corse"), "no module --head corse. Near it: coarse"),
        ("", ("--text", "t.txt", "--head", "a"), "--head is about labelled data"),
    ],
)
def test_a_target_that_cannot_be_measured_is_a_sentence(scanned, target, options, sentence):
    code, _, err = scanned(target, "--json", *options)
    assert (code, sentence in err) == (2, True), err
    assert "Traceback" not in err


def test_a_checkpoint_without_names_is_a_sentence(scanned):
    torch.save({0: torch.zeros(3), 1: torch.zeros(2)}, "numbers.pt")
    code, _, err = scanned("", "--checkpoint", "numbers.pt")
    assert code == 2
    assert "numbers.pt holds no weights by name; its entries are: 0, 1" in err


def test_data_read_once_has_a_control_too(scanned):
    """Both networks see the batches in one pass."""
    laws = ("--json", "--laws", "collapse")
    once, often = (
        scanned(target, *laws) for target in (ONCE, ONCE.replace("(", "[", 1)[:-2] + "]")
    )
    assert once[0] == often[0] == 0, once[2]
    once, often = (json.loads(out)["results"]["collapse"] for _, out, _ in (once, often))
    assert once["control"]["nc1"] == often["control"]["nc1"]


def test_one_of_two_heads(scanned):
    code, out, err = scanned(TWO_HEADS, "--json", "--head", "coarse", "--no-control")
    assert code == 0, err
    assert json.loads(out)["results"]["collapse"]["head"]["name"] == "coarse"
    code, out, err = scanned(TWO_HEADS, "--json", "--no-control")
    assert code == 0, err
    assert "--head fine" in json.loads(out)["skipped"]["collapse"]


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float64"])
def test_data_comes_in_the_precision_of_the_network(scanned, kind):
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 4
    np.savez("d.npz", x=rng.normal(size=(80, 100)) + rng.normal(size=(4, 100))[labels], y=labels)
    options = ("--data", "d.npz", "--json", "--no-control", "--uncertainty", "none")
    code, out, err = scanned(f"model = model.to(torch.{kind})", *options)
    assert code == 0, err
    _, plain, _ = scanned("", *options)
    values, expected = (json.loads(o)["results"]["separation"]["values"] for o in (out, plain))
    assert values == pytest.approx(expected, rel=0.05)


def test_the_demo_knows_its_modes_before_it_trains(call_lawscope, monkeypatch):
    monkeypatch.setattr("lawscope.training.loop.train", None)
    code, _, err = call_lawscope("demo", "--mode", "foo")
    assert code == 2
    assert "--mode foo is not known; choose eval or train" in err


MAKERS = {
    "the same network": "def model(): return made_once",
    "a pair": "model = (made_once, data)\ndata = None",
    "the same weights in another network": (
        "def model():\n"
        "    made = net()\n"
        "    made.load_state_dict(made_once.state_dict(keep_vars=True), assign=True)\n"
        "    return made"
    ),
    "the same network drawn again": (
        "def model():\n"
        "    for layer in made_once.modules():\n"
        "        getattr(layer, 'reset_parameters', int)()\n"
        "    return made_once"
    ),
    "its own weights": (
        "def model():\n"
        "    made = net()\n"
        "    made.load_state_dict(torch.load('w.pt'))\n"
        "    return made"
    ),
    "once only": (
        "made = []\ndef model():\n    assert not made\n    made.append(0)\n    return made_once"
    ),
    "again": "def model(): return net()",
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_the_control_is_never_the_trained_network(scanned, maker):
    torch.manual_seed(7)
    shapes = {"0": (9, 100), "2": (9, 9), "4": (4, 9)}
    weights = {f"{k}.weight": torch.randn(shape) for k, shape in shapes.items()}
    torch.save({**weights, **{f"{k}.bias": torch.zeros(s[0]) for k, s in shapes.items()}}, "w.pt")
    options = ("--json", "--checkpoint", "w.pt")
    code, out, err = scanned("made_once = net()\n" + maker, *options)
    assert code == 0, err
    plain = json.loads(scanned("", *options, "--no-control")[1])["results"]["separation"]["values"]
    law = json.loads(out)["results"]["separation"]
    assert law["values"] == plain
    assert law["control"]["values"][0] == pytest.approx(plain[0])
    assert law["control"]["values"][1:] != pytest.approx(plain[1:])
