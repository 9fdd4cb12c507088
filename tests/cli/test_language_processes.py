"""The answer of several processes is that of one."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.multiprocessing as mp
from tests.cli import language_folders as folders

from lawscope.cli.shared import find_place, join_processes
from lawscope.cli.text import TextRequest, scan_text


def requests(folder: Path) -> dict[str, TextRequest]:
    """Uneven shards; fewer batches than processes; a mistake that one process meets."""
    plain = TextRequest(str(folder / "own.py"), [folder / "long.txt"], window=32, tokens="all")
    return {
        "uneven": plain,
        "few": replace(plain, text=[folder / "short.txt"], batch_size=16),
        "nan": replace(
            plain, target=str(folder / "sick.py"), text=[folder / "long-q.txt"], control=False
        ),
    }


def prepare(folder: Path) -> None:
    (folder / "own.py").write_text(folders.OWN)
    (folder / "long.txt").write_text(folders.text(1200))
    (folder / "short.txt").write_text(folders.text(150))
    # NaN for a token that only the second batch of windows holds.
    words = "abc " * 64 + "abq " * 64 + "abc " * 640
    (folder / "long-q.txt").write_text(words)
    (folder / "sick.py").write_text(
        folders.OWN
        + "\nmade = model()\nmade.tokens.weight.data[ord('q')] = float('nan')\nmodel = made\n"
    )


def work(rank: int, world: int, folder: str, ports: list[int], answers: dict) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    for port, (name, request) in zip(ports, requests(Path(folder)).items(), strict=True):
        os.environ["MASTER_PORT"] = str(port)
        try:
            answers[rank, name] = scan_text(request).to_dict()
        except BaseException as error:
            answers[rank, name] = f"{type(error).__name__}: {error}"


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in held]
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


def test_shards_merge_to_the_answer_of_one_process(tmp_path):
    prepare(tmp_path)
    world = 3
    with mp.Manager() as manager:
        answers = manager.dict()
        mp.spawn(work, (world, str(tmp_path), free_ports(3), answers), nprocs=world)
        answers = dict(answers)
    for name in ("uneven", "few"):
        assert isinstance(answers[0, name], dict), answers[0, name]
        alone = scan_text(requests(tmp_path)[name]).to_dict()
        for rank in range(world):
            same(answers[rank, name]["results"]["next_token"], alone["results"]["next_token"])
        assert answers[0, name]["settings"]["processes"] == world
        batches = -(-alone["settings"]["windows"] // alone["settings"]["batch_size"])
        assert batches % world != 0
        assert (batches < world) == (name == "few")
    # What one process cannot do ends all of them, and the first one says it.
    for rank in range(world):
        assert answers[rank, "nan"].startswith(
            ("LawscopeError: Block", "OtherRankFailedError: Rank")
        )
        assert "NaN" in answers[rank, "nan"]


def test_one_process_needs_no_group(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "4")  # alone it is no sign of torchrun
    with join_processes():
        assert find_place() == (0, 1, 0)
        assert not torch.distributed.is_initialized()


def test_torchrun_prints_once_what_one_process_prints(tmp_path):
    prepare(tmp_path)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "lawscope", "scan", tmp_path / "own.py", "--text", tmp_path / "long.txt",
        "--window", "32", "--tokens", "all", "--json", "--out", tmp_path / "here",
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["settings"]["processes"] == 2
    alone = scan_text(requests(tmp_path)["uneven"]).to_dict()["results"]["next_token"]
    same(document["results"]["next_token"], alone)
    names = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert names == ["report.html", "run.lawscope.json"]
