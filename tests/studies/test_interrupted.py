"""A study that is killed, stopped or begun twice loses nothing and does nothing twice."""

import json
import os
import re
import signal
import time
from pathlib import Path


def stored(toys):
    return {path.name for path in (toys / "store/entries").glob("*")}


def wait_for(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def workers_of(process):
    """Processes begun by this one that are still there, by /proc."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            parent = re.search(r"PPid:\s+(\d+)", status.read_text())
        except OSError:
            continue
        if parent and int(parent[1]) == process.pid:
            found.append(int(status.parent.name))
    return found


def alive(pid):
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_killed_at_any_moment_it_goes_on_where_it_was(command, toys):
    arguments = ("run", "toy/slow", "--preset", "cpu", "--out", toys / "out", "--jobs", 2)
    killed = command(*arguments)
    wait_for(lambda: len(stored(toys)) >= 2)
    workers = workers_of(killed)
    assert len(workers) >= 2
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = stored(toys)
    written = {
        key: (toys / "store/entries" / key / "run.json").stat().st_mtime_ns for key in before
    }
    assert 2 <= len(before) < 12
    wait_for(lambda: not any(alive(pid) for pid in workers), seconds=10)
    again = command(*arguments)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert len(stored(toys)) == 12
    for key, moment in written.items():
        assert (toys / "store/entries" / key / "run.json").stat().st_mtime_ns == moment
    assert (toys / "out/toy/slow.cpu.json").exists()


def test_two_processes_do_the_work_once(command, toys):
    results = []
    for name in ("a", "b"):
        arguments = ("--preset", "smoke", "--out", toys / name, "--jobs", 1, "--json")
        results.append(command("run", "toy/slow", *arguments))
    documents = []
    for process in results:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert err == "1 study at smoke: about 6 s on two cores with an empty store.\n"
        documents.append(json.loads(out))
    assert documents[0]["numbers"] == documents[1]["numbers"]
    # An entry that was trained twice would have been said on standard error.
    assert len(stored(toys)) == 12
    assert list((toys / "store/unfinished").iterdir()) == []


def test_ctrl_c_ends_within_seconds_and_says_how_to_go_on(command, toys):
    stopped = command("run", "long/endless", "--out", toys / "out", "--jobs", 2)
    wait_for(lambda: len(stored(toys)) >= 1)
    workers = workers_of(stopped)
    begun = time.monotonic()
    for pid in [stopped.pid, *workers]:  # as a terminal does, to all of them
        os.kill(pid, signal.SIGINT)
    _, err = stopped.communicate(timeout=30)
    assert time.monotonic() - begun < 6
    assert stopped.returncode == 130
    assert "Traceback" not in err
    assert "go on with: lawscope study run long/endless --out" in err
    wait_for(lambda: not any(alive(pid) for pid in workers), seconds=10)
