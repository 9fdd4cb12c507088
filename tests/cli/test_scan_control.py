"""The untrained control of the command is never the trained network."""

import json

import pytest
import torch

DATA = """
import torch
from lawscope.zoo.networks import feedforward

torch.manual_seed(0)
y = torch.arange(80) % 4
x = torch.randn(80, 100) + torch.randn(4, 100)[y]
data = (x, y)
net = feedforward(4)
"""
MAKERS = {
    "the same network": "def model(): return net",
    "a pair": "model = (net, data)\ndata = None",
    "the same weights in another network": (
        "def model():\n"
        "    made = feedforward(4)\n"
        "    made.load_state_dict(net.state_dict(keep_vars=True), assign=True)\n"
        "    return made"
    ),
    "the same network drawn anew": (
        "def model():\n"
        "    for layer in net.modules():\n"
        "        getattr(layer, 'reset_parameters', int)()\n"
        "    return net"
    ),
    "its own weights": (
        "def model():\n"
        "    made = feedforward(4)\n"
        "    made.load_state_dict(torch.load('w.pt'))\n"
        "    return made"
    ),
    "once only": (
        "made = []\ndef model():\n    assert not made\n    made.append(net)\n    return net"
    ),
    "anew": "def model(): return feedforward(4)",
}


@pytest.fixture
def scanned(tmp_path, monkeypatch, call_lawscope):
    """Scan a target made with one of the makers; gives the JSON document."""
    from lawscope.zoo.networks import feedforward

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(7)
    weights = {name: 3 * value for name, value in feedforward(4).state_dict().items()}
    torch.save(weights, "w.pt")

    def scan(maker, *options):
        (tmp_path / "net.py").write_text(DATA + maker)
        code, out, err = call_lawscope("scan", "net.py", "--json", "--threads", 1, *options)
        assert code == 0, err
        return json.loads(out)

    return scan


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_the_control_is_another_network_and_the_trained_one_is_measured(scanned, maker):
    document = scanned(maker, "--checkpoint", "w.pt")
    plain = scanned("model = net", "--checkpoint", "w.pt", "--no-control")
    assert document["separation"]["values"] == plain["separation"]["values"]
    assert document["control"]["values"][0] == pytest.approx(plain["separation"]["values"][0])
    assert document["control"]["values"][1:] != pytest.approx(plain["separation"]["values"][1:])
