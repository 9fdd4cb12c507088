"""The command as a person uses it: output, JSON, report, and every mistake as one sentence."""

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from lawscope.zoo.networks.feedforward import feedforward

NET = """
import torch
from lawscope.zoo.networks.feedforward import feedforward

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
    assert "layer4" in out
    # The network has learned nothing: that is said, and nothing advised.
    assert "The network classifies" in " ".join(out.split())
    assert "advice" not in out
    assert "report: lawscope-report/report.html" in out
    page = (tmp_path / "lawscope-report" / "report.html").read_text()
    assert "layer4.relu" in page
    saved = json.loads((tmp_path / "lawscope-report" / "run.lawscope.json").read_text())
    assert saved["results"]["separation"]["control"] is not None


def test_json_is_the_only_thing_on_stdout_and_has_its_schema(lawscope, tmp_path):
    code, out, _ = lawscope("scan", "net.py", "--json")
    assert code == 0
    document = json.loads(out)
    assert not (tmp_path / "lawscope-report").exists()
    assert set(document) == {"schema", "name", "results", "skipped", "settings", "provenance"}
    assert document["schema"] == "lawscope.report/1"
    assert set(document["results"]) == {"separation", "collapse", "symmetry"}
    assert set(document["skipped"]) == {"next_token", "elasticity", "alignment", "conservation"}
    law = document["results"]["separation"]
    assert law["schema"] == "lawscope.separation/2"
    assert {"stations", "values", "population", "verdict", "reason", "control"} <= set(law)
    assert len(law["values"]) == len(law["stations"]) == len(law["population"]["interval"]) == 5
    assert np.array(law["classwise"]).shape == (5, 4)


def test_json_with_out_writes_both(lawscope, tmp_path):
    code, out, _ = lawscope("scan", "net.py", "--json", "--out", "here", "--no-control")
    assert code == 0
    assert json.loads(out)["results"]["separation"]["control"] is None
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
        documents.append(json.loads(out)["results"]["separation"])
    assert sum(documents[0]["counts"]) == 203
    assert documents[0]["class_names"][0] == "T-shirt/top"
    assert documents[0]["values"] == documents[1]["values"] == documents[2]["values"]
    # The control is the untrained network of the callable, not that of the checkpoint.
    assert documents[0]["control"]["values"][1] != documents[0]["values"][1]


def test_stations_pooling_and_samples_of_the_targets_own_data(lawscope):
    code, out, _ = lawscope(
        "scan", "net.py", "--json", "--stations", "input,layer2.relu", "--samples", 30,
        "--uncertainty", "none", "--no-control",
    )  # fmt: skip
    assert code == 0
    law = json.loads(out)["results"]["separation"]
    assert law["stations"] == ["input", "layer2.relu"]
    assert sum(law["counts"]) == 30
    assert law["population"] is None


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
        values.append(json.loads(out)["results"]["separation"]["values"])
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    (tmp_path / "images" / "class0" / "bad.png").write_bytes(b"no image")
    code, _, err = lawscope("scan", "net.py", "--data", "images", "--json")
    assert code == 2
    assert "bad.png" in err


def test_demo_of_rare_classes_tells_a_story_and_writes_the_page(lawscope, tmp_path):
    small = ("--common", 60, "--rare", 2, "--depth", 3, "--epochs", 3, "--seeds", 2)
    code, out, err = lawscope("demo-imbalanced", *small, "--out", "d")
    assert code == 0, err
    told = " ".join(out.split())
    assert "60 training images each of T-shirt/top" in told
    assert told.index("Training 2 networks on the data as it is") < told.index("as it is 1.00")
    assert "report: d" in out
    assert (tmp_path / "d" / "report.html").exists()
    code, out, err = lawscope("demo-imbalanced", *small, "--json")
    assert json.loads(out)["counts"][-1] == 2
    assert "Training 2 networks" in err


def test_demo_trains_and_reports(lawscope, tmp_path):
    code, out, err = lawscope("demo", "--epochs", 3, "--per-class", 20, "--depth", 5, "--out", "d")
    assert code == 0, err
    assert "5-layer network" in out
    # Of all laws only that of text has nothing to measure.
    assert re.findall("^- (.+?):", out.partition("not measured")[2], re.MULTILINE) == [
        "Law of next-token prediction"
    ]
    # The whole training set was measured, of which nothing follows for other images.
    assert "population" not in out
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
    (folder / "leaving.py").write_text("import sys\nsys.exit(0)\n")
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
    (folder / "strange.py").write_text("model = dict\n")
    (folder / "deep.json").write_text("[" * 100_000)
    torch.save({k: v.to("meta") for k, v in weights.items()}, folder / "meta.pt")
    torch.save({k: v.to(torch.complex64) for k, v in weights.items()}, folder / "complex.pt")
    itself = {"epoch": 3}
    itself["model"] = itself
    torch.save(itself, folder / "itself.pt")
    known = ("--data", "fashion-mnist-10x10", "--samples", 60)
    return [
        (("scan", "missing.py"), "no file missing.py"),
        (("scan", "nonsense"), "neither a .py file nor package.module:callable"),
        (("scan", "no.such:thing"), "cannot be imported"),
        (("scan", "lawscope.zoo.networks.catalogue:nothing"), "has no 'nothing'"),
        (("scan", "broken.py"), "in line 1"),
        (("scan", "failing.py"), "my import"),
        (("scan", "leaving.py"), "SystemExit"),
        (("scan", "empty.py"), "does not define 'model'"),
        (("scan", "number.py"), "gives a int"),
        (("scan", "needs.py"), "needs the argument(s) width"),
        (("scan", "raising.py"), "RuntimeError: my forward"),
        (("scan", "nolabels.py", "--laws", "separation"), "yields no labels"),
        (("scan", "net.py", *known, "--checkpoint", "gone.pt"), "no file gone.pt"),
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
        (("scan", "net.py", *known, "--size", "9x9"), "The network raised RuntimeError: mat1"),
        (("scan", "net.py", *known, "--device", "cuda:7"), "--device cuda:7"),
        (("scan", "net.py", *known, "--stations", "layer2.rel"), "Near it: layer2.relu"),
        (("scan", "net.py", *known, "--out", "file/below"), "file/below"),
        (("scan", "net.py", *known, "--memory", "lots"), "not a size"),
        (("scan", "net.py", *known, "--scale", "0:2"), "choose -1:1, 0:1, none"),
        (("scan", "net.py", *known, "--mean", "0.5"), "--mean and --std go together"),
        (("scan", "net.py", *known, "--mean", "0,0", "--std", "1,1"), "does not fit 1 channel"),
        (("scan", "net.py", *known, "--mean", "a", "--std", "1"), "--mean a is not a number"),
        (("scan", "net.py", "--scale", "0:1"), "--scale is about --data"),
        (("scan", "net.py", "--split", "test"), "--split is about --data"),
        (("scan", "net.py", "--laws", "separate"), "Did you mean separation?"),
        (
            ("scan", "net.py", "--laws", "collapse", "--stations", "bloks"),
            "None of the laws measured (collapse) has the option --stations; leave it out, or "
            "measure separation too.",
        ),
        (("scan", "net.py", "--laws", "separation", "--head", "fc"), "measure collapse too"),
        (("scan", "net.py", "--loss", "hinge"), "choose cross-entropy, mse"),
        (("scan", "net.py", "--set", "separation.wieght=3"), "separation has no setting wieght="),
        (("scan", "net.py", "--set", "separtion.folds=3"), "Did you mean separation?"),
        (("scan", "net.py", "--set", "folds=3"), "not of the form law.setting=value"),
        (("scan", "net.py", "--threads", 99999999), "--threads 99999999 is more than"),
        (("scan", "x" * 300), "neither a .py file"),
        (("scan", "x" * 300 + ".py"), "File name too long"),
        (("scan", "strange.py"), "cannot be called without arguments"),
        (("scan", "net.py", "--checkpoint", "meta.pt"), "weight is without values"),
        (("scan", "net.py", "--checkpoint", "complex.pt"), "of another kind: layer1"),
        (("scan", "net.py", "--checkpoint", "itself.pt"), "itself.pt holds no weights by name"),
        (("show", "gone.json"), "gone.json cannot be read"),
        (("show", "notes.txt"), "notes.txt is not JSON"),
        (("show", "deep.json"), "deep.json is not JSON"),
        (("init", "net.py"), "net.py is there already"),
        (("init", "file/net.py"), "part of that path is a file"),
        (("stations", "raising.py"), "RuntimeError: my forward"),
        (("demo", "--optimizer", "magic"), "choose sgd, momentum, adam"),
        (("demo", "--seed", "99999999999999999999"), "--seed"),
        (("demo", "--threads", 99999999), "--threads 99999999 is more than"),
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
    assert "layer4" in out
    assert "file/below" in err


def test_debug_shows_the_traceback_wherever_it_stands(lawscope):
    from lawscope.errors import LawscopeError

    for arguments in (("--debug", "scan", "gone.py"), ("scan", "gone.py", "--debug")):
        with pytest.raises(LawscopeError, match=r"no file gone\.py"):
            lawscope(*arguments)


def test_a_locked_folder_is_a_sentence(lawscope, monkeypatch):
    """As Path.is_file() raises for whoever may not look into a folder."""

    def locked(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.is_file", locked)
    for arguments in (
        ("scan", "a.py"),
        ("scan", "net.py", "--checkpoint", "a"),
        ("peel", "--labels", "a"),
        ("scan", "gpt2", "--gguf", "a", "--text", "net.py"),
    ):
        code, _, err = lawscope(*arguments)
        assert code == 2
        assert "cannot be read (Permission denied)" in err


def test_so_is_one_inside_a_folder(lawscope, tmp_path, monkeypatch):
    (tmp_path / "images" / "cats").mkdir(parents=True)

    def locked(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.iterdir", locked)
    code, _, err = lawscope("depth", "--data", "images")
    assert (code, err) == (2, "lawscope: images: Permission denied.\n")


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_control_c_says_stopped(lawscope, tmp_path):
    (tmp_path / "slow.py").write_text(
        NET + "\nimport os, signal\ndef data():\n    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    assert lawscope("scan", "slow.py") == (130, "", "lawscope: Stopped.\n")


def test_a_closed_pipe_does_not_cost_the_files(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    command = f"{sys.executable} -m lawscope scan net.py | head -1"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "net.py\n"
    assert "Traceback" not in done.stderr
    names = sorted(path.name for path in (tmp_path / "lawscope-report").iterdir())
    assert names == ["report.html", "run.lawscope.json"]


def test_an_earlier_report_is_not_lost_without_a_word(lawscope, tmp_path):
    quick = ("scan", "net.py", "--no-control", "--laws", "collapse")
    assert lawscope(*quick)[2] == ""
    first = (tmp_path / "lawscope-report" / "report.html").read_text()
    code, out, err = lawscope(*quick)
    assert code == 0
    assert "report: lawscope-report-2/report.html" in out
    assert "lawscope-report holds an earlier report" in err
    assert (tmp_path / "lawscope-report" / "report.html").read_text() == first
    _, _, err = lawscope(*quick, "--out", "lawscope-report")
    assert "this replaces the report of" in err


def test_show_prints_what_was_saved(lawscope, tmp_path):
    _, printed, _ = lawscope("scan", "net.py", "--laws", "separation", "--out", "r")
    for name in ("run.lawscope.json", "report.html"):
        code, out, err = lawscope("show", f"r/{name}")
        assert code == 0, err
        assert printed.startswith(out.rstrip())
        _, out, _ = lawscope("show", f"r/{name}", "--json")
        assert json.loads(out) == json.loads((tmp_path / "r" / "run.lawscope.json").read_text())


def test_init_writes_what_can_be_scanned_and_stations_lists_it(lawscope, tmp_path):
    code, out, err = lawscope("init", "mine.py")
    assert code == 0, err
    assert "lawscope scan mine.py" in out
    code, out, err = lawscope("stations", "mine.py")
    assert code == 0, err
    assert "selected by" in out
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["input", *"0123456"]
    code, out, err = lawscope("stations", "net.py", "--data", "fashion-mnist-10x10")
    assert code == 0, err
    assert out.splitlines()[1].split()[:2] == ["input", "100"]
    code, out, err = lawscope("scan", "mine.py", "--json", "--no-control")
    assert code == 0, err
    assert sum(json.loads(out)["results"]["separation"]["counts"]) == 600


def test_how_pixels_were_scaled_is_said_beside_the_accuracy(lawscope):
    common = ("--data", "fashion-mnist-10x10", "--samples", 100, "--no-control")
    scales = {
        (): "pixels scaled to [−1, 1]",
        ("--scale", "0:1"): "pixels scaled to [0, 1]",
        ("--scale", "none"): "pixels scaled to [0, 255], as they are",
        ("--mean", "0.5", "--std", "0.5"): "then by mean 0.5 and std 0.5",
    }
    values = []
    for options, sentence in scales.items():
        code, out, err = lawscope("scan", "net.py", *common, *options, "--out", f"r{len(values)}")
        assert code == 0, err
        headline = " ".join(out.split("\n\n")[0].split())
        assert "accuracy" in headline
        assert sentence in headline
        document = json.loads(Path(f"r{len(values)}/run.lawscope.json").read_text())
        assert sentence in Path(f"r{len(values)}/report.html").read_text()
        values.append(document["results"]["separation"]["values"])
    assert values[3] == pytest.approx(values[0], rel=1e-5)  # (x − 1/2)/(1/2) = 2x − 1
    # D of the inputs does not know scale and shift; what the network makes of them does.
    assert all(v[0] == pytest.approx(values[0][0], rel=1e-4) for v in values)
    assert values[1][1:] != pytest.approx(values[0][1:], rel=1e-4)


def test_settings_of_one_law(lawscope):
    common = ("scan", "net.py", "--json", "--no-control", "--laws", "separation")
    _, plain, _ = lawscope(*common)
    code, out, err = lawscope(*common, "--set", "separation.uncertainty=none")
    assert code == 0, err
    assert json.loads(out)["results"]["separation"]["population"] is None
    assert json.loads(plain)["results"]["separation"]["population"] is not None
    assert set(json.loads(out)["results"]) == {"separation"}


def test_help_is_quick_and_imports_no_torch():
    command = [sys.executable, "-X", "importtime", "-m", "lawscope", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "scan" in done.stdout
    assert "demo" in done.stdout
    assert " torch\n" not in done.stderr
    assert any(_seconds([sys.executable, "-m", "lawscope", "--help"]) < 0.5 for _ in range(5))


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
    assert sum(json.loads(out)["results"]["separation"]["counts"]) == 40
    assert "hello" in err


def test_two_samples_per_class_cannot_be_told(lawscope):
    few = ("--data", "fashion-mnist-10x10", "--samples", 20, "--no-control")
    code, out, err = lawscope("scan", "net.py", *few, "--json")
    assert code == 0, err
    law = json.loads(out)["results"]["separation"]
    beyond = law["population"]
    assert beyond is None or beyond["verdict"] == "cannot be told"
    assert law["advice"] == []
