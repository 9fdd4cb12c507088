"""The answer of several processes is that of one."""

import inspect
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from tests.cli import language_folders as folders

from lawscope.cli.app import run, scan
from lawscope.cli.shared import find_place, join_processes
from lawscope.cli.text import scan_text

WORLD = 3
ROOT = Path(__file__).parents[2]


def cases(folder: Path) -> dict[str, SimpleNamespace]:
    """Uneven shards; fewer batches than processes; a mistake that one process meets."""
    known = {name: each.default for name, each in inspect.signature(scan).parameters.items()}
    own, sick = str(folder / "own.py"), str(folder / "sick.py")
    asked = {
        "uneven": {"target": own, "text": [folder / "long.txt"]},
        "few": {"target": own, "text": [folder / "short.txt"], "batch_size": 16},
        "nan": {"target": sick, "text": [folder / "long-q.txt"], "control": False},
    }
    same = {"window": 32, "tokens": "all", "folder": None, "typed": ()}
    return {name: SimpleNamespace(**known | same | each) for name, each in asked.items()}


def command(folder: Path) -> list[str]:
    """The first case on the command line."""
    options = ("--window", "32", "--tokens", "all", "--json", "--out", folder / "here")
    target = ("lawscope", "scan", folder / "own.py", "--text", folder / "long.txt")
    return [str(word) for word in (*target, *options)]


def prepare(folder: Path) -> None:
    (folder / "own.py").write_text(folders.OWN)
    (folder / "long.txt").write_text(folders.text(500))
    (folder / "short.txt").write_text(folders.text(150))
    # NaN for a token that only the second batch of windows holds.
    words = "abc " * 64 + "abq " * 64 + "abc " * 640
    (folder / "long-q.txt").write_text(words)
    (folder / "sick.py").write_text(
        folders.OWN
        + "\nmade = model()\nmade.tokens.weight.data[ord('q')] = float('nan')\nmodel = made\n"
    )


def work(folder: str, *ports: str) -> None:
    """In every process of torchrun: each case in a group of its own, then the command itself."""
    given, answers = dict(os.environ), {}
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
    for port, (name, options) in zip(ports, cases(Path(folder)).items(), strict=True):
        os.environ["MASTER_PORT"] = port
        try:
            answers[name] = scan_text(options).to_dict()
        except BaseException as error:
            answers[name] = f"{type(error).__name__}: {error}"
    Path(folder, f"rank-{find_place()[0]}.json").write_text(json.dumps(answers))
    os.environ.update(given)
    sys.argv = command(Path(folder))
    run()


def free_ports(count: int) -> list[str]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [str(server.getsockname()[1]) for server in held]
    for server in held:
        server.close()
    return ports


def same(ours: dict, theirs: dict) -> None:
    """Equal to 1e-12, of the model and of its untrained twin."""
    for mine, alone in ((ours, theirs), (ours["control"], theirs["control"])):
        assert mine["n"] == alone["n"]
        for field in ("pr", "pr_adjusted", "pr_cv", "pr_onehot"):
            assert np.allclose(mine[field], alone[field], rtol=1e-12, atol=0), field
        for name, ends in mine["fit"]["interval"].items():
            if name in ("rho", "slope"):
                assert np.allclose(ends, alone["fit"]["interval"][name], rtol=0, atol=1e-12)


def test_shards_merge_to_the_answer_of_one_process_which_is_printed_once(tmp_path):
    prepare(tmp_path)
    launched = [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", str(WORLD), __file__, str(tmp_path), *free_ports(3),
    ]  # fmt: skip
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(launched, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads((tmp_path / f"rank-{r}.json").read_text()) for r in range(WORLD)]
    alone = {name: scan_text(cases(tmp_path)[name]).to_dict() for name in ("uneven", "few")}
    for name, expected in alone.items():
        assert isinstance(answers[0][name], dict), answers[0][name]
        for answer in answers:
            same(answer[name]["results"]["next_token"], expected["results"]["next_token"])
        assert answers[0][name]["settings"]["processes"] == WORLD
        batches = -(-expected["settings"]["windows"] // expected["settings"]["batch_size"])
        assert batches % WORLD != 0
        assert (batches < WORLD) == (name == "few")
    # What one process cannot do ends all of them, and the first one says it.
    for answer in answers:
        assert answer["nan"].startswith(("LawscopeError: Block", "OtherRankFailedError: Rank"))
        assert "NaN" in answer["nan"]
    document = json.loads(done.stdout)
    assert document["settings"]["processes"] == WORLD
    same(document["results"]["next_token"], alone["uneven"]["results"]["next_token"])
    names = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert names == ["report.html", "run.lawscope.json"]


def test_one_process_needs_no_group(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "4")  # alone it is not a sign of torchrun
    with join_processes():
        assert find_place() == (0, 1, 0)
        assert not torch.distributed.is_initialized()


if __name__ == "__main__":
    work(*sys.argv[1:])
