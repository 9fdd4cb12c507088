"""The command as a person uses it: output, JSON, report, and every mistake as one sentence."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from lawscope.zoo.networks import feedforward

NET = """
import torch
from lawscope.zoo.networks import feedforward

def model():
    torch.manual_seed(0)
    return feedforward(5)

def data():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(80) % 4
    x = torch.randn(80, 100, generator=generator) + torch.randn(4, 100, generator=generator)[y]
    return [(x[i : i + 16], y[i : i + 16]) for i in range(0, 80, 16)]
"""


@pytest.fixture
def lawscope(tmp_path, monkeypatch, call_lawscope):
    """Run the command in a folder with a network; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    return call_lawscope


def test_scan_a_file(lawscope, tmp_path):
    code, out, err = lawscope("scan", "net.py")
    assert code == 0, err
    assert "layer4.relu" in out
    assert "advice" in out
    assert "report: lawscope-report/report.html" in out
    page = (tmp_path / "lawscope-report" / "report.html").read_text()
    assert "layer4.relu" in page
    saved = json.loads((tmp_path / "lawscope-report" / "run.json").read_text())
    assert saved["control"] is not None


def test_json_is_the_only_thing_on_stdout_and_has_its_schema(lawscope, tmp_path):
    code, out, _ = lawscope("scan", "net.py", "--json")
    assert code == 0
    document = json.loads(out)
    assert not (tmp_path / "lawscope-report").exists()
    assert set(document) == {
        "name", "separation", "control", "collapse", "skipped", "advice", "settings", "versions",
    }  # fmt: skip
    assert document["collapse"]["law"] == "collapse"
    assert document["skipped"] == {}
    law = document["separation"]
    assert set(law) == {
        "law", "stations", "values", "interval", "classwise", "classes", "class_names", "counts",
        "dims", "ranks", "fit", "reduction", "sensitivity", "least_sensitivity", "verdict",
        "reason", "advice", "granularity", "granularities", "settings", "warnings",
    }  # fmt: skip
    assert set(law["fit"]) == {
        "pearson", "rho", "half_life", "slope", "intercept", "residuals", "interval",
    }  # fmt: skip
    assert len(law["values"]) == len(law["stations"]) == len(law["interval"]) == 5
    assert np.array(law["classwise"]).shape == (5, 4)


def test_json_with_out_writes_both(lawscope, tmp_path):
    code, out, _ = lawscope("scan", "net.py", "--json", "--out", "here", "--no-control")
    assert code == 0
    assert json.loads(out)["control"] is None
    assert (tmp_path / "here" / "report.html").exists()


def test_package_callable_with_checkpoint_and_known_data(lawscope, tmp_path):
    torch.manual_seed(1)
    trained = feedforward(5)
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    torch.save({"epoch": 3, "state_dict": trained.state_dict()}, tmp_path / "w.pt")
    wrapped = {f"module.{k}": v for k, v in trained.state_dict().items()}
    torch.save(wrapped, tmp_path / "wrapped.pt")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").write_text("")
    (tmp_path / "project" / "nets.py").write_text(NET)
    common = ("--data", "fashion-mnist-10x10", "--samples", 203, "--json")
    documents = []
    for weights in ("w.safetensors", "w.pt", "wrapped.pt"):
        code, out, err = lawscope("scan", "project.nets:model", "--checkpoint", weights, *common)
        assert code == 0, err
        documents.append(json.loads(out))
    assert sum(documents[0]["separation"]["counts"]) == 203
    assert documents[0]["separation"]["class_names"][0] == "T-shirt/top"
    assert documents[0]["separation"]["values"] == documents[1]["separation"]["values"]
    assert documents[0]["separation"]["values"] == documents[2]["separation"]["values"]
    # The control is the untrained network of the callable, not that of the checkpoint.
    assert documents[0]["control"]["values"][1] != documents[0]["separation"]["values"][1]


def test_stations_pooling_and_samples_of_the_targets_own_data(lawscope):
    code, out, _ = lawscope(
        "scan", "net.py", "--json", "--stations", "input,layer2.relu", "--samples", 30,
        "--uncertainty", "none", "--no-control",
    )  # fmt: skip
    assert code == 0
    law = json.loads(out)["separation"]
    assert law["stations"] == ["input", "layer2.relu"]
    assert sum(law["counts"]) == 30
    assert law["interval"] is None


def test_npz_and_image_folders(lawscope, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (40, 10, 10), dtype=np.uint8), np.arange(40) % 4
    np.savez(tmp_path / "d.npz", x=x, y=y)
    for k in range(4):
        (tmp_path / "images" / f"class{k}").mkdir(parents=True)
        for i in np.flatnonzero(y == k):
            Image.fromarray(x[i]).save(tmp_path / "images" / f"class{k}" / f"{i:03}.png")
    values = []
    for data in ("d.npz", "images"):
        code, out, err = lawscope("scan", "net.py", "--data", data, "--json", "--no-control")
        assert code == 0, err
        values.append(json.loads(out)["separation"]["values"])
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    (tmp_path / "images" / "class0" / "bad.png").write_bytes(b"no image")
    code, _, err = lawscope("scan", "net.py", "--data", "images", "--json")
    assert code == 2
    assert "bad.png" in err


def test_demo_trains_and_reports(lawscope, tmp_path):
    code, out, err = lawscope("demo", "--epochs", 3, "--per-class", 20, "--depth", 5, "--out", "d")
    assert code == 0, err
    assert "5-layer network" in out
    assert (tmp_path / "d" / "report.html").exists()


def mistakes(folder):
    """(arguments, what the sentence says)."""
    torch.manual_seed(1)
    weights = feedforward(5).state_dict()
    save_file({**weights, "extra": torch.zeros(1)}, folder / "extra.safetensors")
    save_file(weights, folder / "whole.safetensors")
    (folder / "cut.safetensors").write_bytes((folder / "whole.safetensors").read_bytes()[:200])
    torch.save(weights, folder / "whole.pt")
    (folder / "cut.pt").write_bytes((folder / "whole.pt").read_bytes()[:500])
    (folder / "text.pt").write_text("hello")
    with (folder / "code.pt").open("wb") as file:
        pickle.dump(Evil(), file)
    torch.save(feedforward(9, width=7).state_dict(), folder / "other.pt")
    (folder / "broken.py").write_text("def model(:\n")
    (folder / "failing.py").write_text("raise RuntimeError('my import')\n")
    (folder / "empty.py").write_text("x = 1\n")
    (folder / "number.py").write_text("model = 7\ndata = []\n")
    (folder / "needs.py").write_text("def model(width): ...\n")
    (folder / "raising.py").write_text(
        NET + "\nimport torch.nn as nn\nclass Angry(nn.Module):\n"
        "    def forward(self, x): raise RuntimeError('my forward')\nmodel = Angry()\n"
    )
    (folder / "nolabels.py").write_text(NET + "\nimport torch\ndata = [torch.zeros(8, 100)]\n")
    (folder / "notes.txt").write_text("no data")
    np.savez(folder / "nokeys.npz", a=np.zeros(3))
    (folder / "cut.npz").write_bytes(b"PK\x03\x04 cut")
    (folder / "file").write_text("in the way")
    (folder / "hollow").mkdir()
    known = ("--data", "fashion-mnist-10x10", "--samples", 60)
    return [
        (("scan", "missing.py"), "no file missing.py"),
        (("scan", "nonsense"), "neither a .py file nor package.module:callable"),
        (("scan", "no.such:thing"), "cannot be imported"),
        (("scan", "lawscope.zoo.networks:nothing"), "has no 'nothing'"),
        (("scan", "broken.py"), "in line 1"),
        (("scan", "failing.py"), "my import"),
        (("scan", "empty.py"), "does not define 'model'"),
        (("scan", "number.py"), "gives a int"),
        (("scan", "needs.py"), "needs the argument(s) width"),
        (("scan", "raising.py"), "RuntimeError: my forward"),
        (("scan", "nolabels.py"), "yields no labels"),
        (("scan", "net.py", *known, "--checkpoint", "gone.pt"), "no checkpoint gone.pt"),
        (("scan", "net.py", *known, "--checkpoint", "cut.pt"), "cut.pt cannot be read as weights"),
        (("scan", "net.py", *known, "--checkpoint", "cut.safetensors"), "cannot be read"),
        (("scan", "net.py", *known, "--checkpoint", "text.pt"), "text.pt"),
        (("scan", "net.py", *known, "--checkpoint", "code.pt"), "does not execute"),
        (("scan", "net.py", *known, "--checkpoint", "extra.safetensors"), "1 unknown to the net"),
        (("scan", "net.py", *known, "--checkpoint", "other.pt"), "of another shape: layer1"),
        (("scan", "net.py", "--data", "fashion-mnst"), "did you mean fashion-mnist?"),
        (("scan", "net.py", "--data", "notes.txt"), "neither an .npz file nor a folder"),
        (("scan", "net.py", "--data", "nokeys.npz"), "nokeys.npz"),
        (("scan", "net.py", "--data", "cut.npz"), "cut.npz"),
        (("scan", "net.py", "--data", "hollow"), "hollow"),
        (("scan", "net.py", *known, "--split", "dev"), "choose train or test"),
        (("scan", "net.py", *known, "--size", "big"), "like 32x32"),
        (("scan", "net.py", *known, "--size", "9x9"), "The network or its data raised"),
        (("scan", "net.py", *known, "--device", "cuda:7"), "--device cuda:7"),
        (("scan", "net.py", *known, "--stations", "layer2.rel"), "Near it: layer2.relu"),
        (("scan", "net.py", *known, "--out", "file/below"), "file/below"),
        (("scan", "net.py", *known, "--memory", "lots"), "not a size"),
        (("demo", "--optimizer", "magic"), "choose sgd, momentum, adam"),
        (("demo", "--per-class", "9999"), "--per-class"),
    ]


class Evil:
    def __reduce__(self):
        return (print, ("executed!",))


def test_every_mistake_is_a_sentence_and_exit_code_2(lawscope, tmp_path):
    for arguments, sentence in mistakes(tmp_path):
        code, out, err = lawscope(*arguments)
        assert code == 2, (arguments, out, err)
        assert sentence in err, (arguments, err)
        assert "Traceback" not in err
        assert "executed!" not in out + err


def test_an_unwritable_place_does_not_cost_the_summary(lawscope, tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, out, err = lawscope("scan", "net.py", "--out", "file/below")
    assert code == 2
    assert "layer4.relu" in out
    assert "file/below" in err


def test_debug_shows_the_traceback_wherever_it_stands(lawscope):
    from lawscope.errors import LawscopeError

    for arguments in (("--debug", "scan", "gone.py"), ("scan", "gone.py", "--debug")):
        with pytest.raises(LawscopeError, match=r"no file gone\.py"):
            lawscope(*arguments)


def test_control_c_ends_quietly(lawscope, monkeypatch):
    monkeypatch.setattr("lawscope.cli.scan.scan_target", _interrupt)
    code, _, err = lawscope("scan", "net.py")
    assert code == 130
    assert "Traceback" not in err


def _interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def test_help_is_quick_and_imports_no_torch():
    command = [sys.executable, "-X", "importtime", "-m", "lawscope", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "scan" in done.stdout
    assert "demo" in done.stdout
    assert " torch\n" not in done.stderr
    best = min(_seconds([sys.executable, "-m", "lawscope", "--help"]) for _ in range(5))
    assert best < 0.5


def _seconds(command):
    """Processor time, which is the clock of a machine that has nothing else to do."""
    begun = os.times()
    subprocess.run(command, capture_output=True, check=True)
    ended = os.times()
    return ended.children_user + ended.children_system - begun.children_user - begun.children_system


def test_version_and_bare_command(lawscope):
    assert lawscope("--version")[1].startswith("lawscope 0.")
    code, out, err = lawscope()
    assert "demo" in out + err
    assert code in (0, 2)


@pytest.mark.parametrize(
    "data",
    [
        "(x, y)",
        "torch.utils.data.TensorDataset(x, y)",
        "[{'input': x, 'labels': y}]",
        "((x[i:i+9], y[i:i+9]) for i in range(0, 80, 9))",
    ],
)
def test_samples_of_every_form_of_data(lawscope, tmp_path, data):
    (tmp_path / "net.py").write_text(
        NET.replace("def data()", "def pairs()")
        + "\nbatches = pairs()\nx = torch.cat([b[0] for b in batches])\n"
        + f"y = torch.cat([b[1] for b in batches])\ndata = {data}\nprint('hello')\n"
    )
    code, out, err = lawscope("scan", "net.py", "--samples", 40, "--json", "--no-control")
    assert code == 0, err
    assert sum(json.loads(out)["separation"]["counts"]) == 40
    assert "hello" in err


def test_options_of_data_without_data_and_code_that_exits(lawscope, tmp_path):
    for option in (("--split", "test"), ("--size", "3x3")):
        code, _, err = lawscope("scan", "net.py", *option)
        assert (code, "about --data" in err) == (2, True)
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    code, _, err = lawscope("scan", "leaving.py")
    assert code == 2
    assert "SystemExit" in err


def test_two_samples_per_class_cannot_be_told(lawscope):
    code, out, _ = lawscope("demo", "--depth", 4, "--epochs", 1, "--per-class", 2, "--json")
    assert code == 0
    law = json.loads(out)["separation"]
    assert law["verdict"] == "cannot be told"
    assert "too few for an interval" in law["reason"]
    assert "nan" not in " ".join(law["advice"])
