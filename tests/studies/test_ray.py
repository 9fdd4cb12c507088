"""The same study on Ray: a worker is lost in the middle, the study is not."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lawscope.errors import LawscopeError
from lawscope.studies import ray
from lawscope.studies.pool import Failed, Progress, Retried
from lawscope.studies.runner import run

HERE = Path(__file__).parent
# In a process of its own: Ray's own warnings are not ours to treat as errors.
STUDY_ON_RAY = """
import json, pathlib, sys
from lawscope.studies import runner
said, heard = [], {}
runner.Display.say = lambda self, sentence: said.append(sentence)

def advance(self, job_id, news):
    heard[job_id] = news
    if len(heard) == 2:
        pathlib.Path("both-train").touch()

runner.Display.advance = advance
result = runner.run("toy/slow", preset="paper", on="ray", jobs=2, out=sys.argv[1])
print(json.dumps({"status": result.status, "said": said, "heard": len(heard)}))
"""


def tasks_of(driver):
    """The workers of Ray that this driver's cluster has at work, by /proc."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            at_work = (place / "cmdline").read_bytes().startswith(b"ray::_work")
        except OSError:
            continue
        if at_work and driver in ancestors(int(place.name)):
            found.append(int(place.name))
    return found


def ancestors(pid):
    line = []
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            break
        pid = int(stat.rpartition(")")[2].split()[1])
        line.append(pid)
    return line


def test_a_worker_lost_in_mid_training_is_retried(toys):
    pytest.importorskip("ray", reason="needs lawscope[cluster]")
    path = os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE)])
    driver = subprocess.Popen(
        [sys.executable, "-c", STUDY_ON_RAY, str(toys / "out")], cwd=toys,
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 120
        while not (toys / "both-train").exists():
            assert driver.poll() is None, driver.communicate()
            assert time.monotonic() < end
            time.sleep(0.05)
        os.kill(tasks_of(driver.pid)[0], signal.SIGKILL)
        out, err = driver.communicate(timeout=180)
    finally:
        driver.kill()
        driver.communicate()
    assert driver.returncode == 0, err
    outcome = json.loads(out)
    assert outcome["status"] == "done"
    expected, *said = outcome["said"]
    assert expected.startswith("1 study at paper: about ")
    # Without a terminal, and on a slow machine, lines on progress stand beside it.
    assert said.count("A worker was lost; its job is begun again.") == 1
    assert outcome["heard"] >= 2
    assert len(list((toys / "store/entries").iterdir())) == 12
    assert (toys / "out/toy/slow.paper.json").exists()


def test_ray_absent_is_a_sentence_with_the_extra(toys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(LawscopeError, match=r"pip install 'lawscope\[cluster\]'"):
        run("toy/quick", preset="smoke", on="ray", out=toys / "out")


def test_an_address_where_nobody_answers_is_a_sentence(toys):
    pytest.importorskip("ray", reason="needs lawscope[cluster]")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        address = f"ray://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LawscopeError, match=f"Ray cannot be reached at {address}"):
            run("toy/quick", preset="smoke", on=address, out=toys / "out")


def test_an_address_that_stays_silent_is_given_up(monkeypatch):
    monkeypatch.setattr(ray, "CONNECT_SECONDS", 0.2)

    def silent(address, timeout):
        threading.Event().wait(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(LawscopeError, match=r"ray://10\.1\.2\.3:10001 \(timed out\)"):
        ray._connect(None, "ray://10.1.2.3:10001", None)


class Patience:
    """Stands for Ray: waits for ever for a cluster, or calls ``init``."""

    def __init__(self, init=None):
        self.init = init or (lambda **settings: pytest.fail("Ray would wait for ever"))


@pytest.mark.parametrize("known", ["RAY_ADDRESS", "RAY_ADDRESS with scheme", "ray_current_cluster"])
def test_a_known_cluster_that_is_gone_is_a_sentence(tmp_path, monkeypatch, known):
    services = pytest.importorskip("ray._private.services", reason="needs lawscope[cluster]")
    monkeypatch.setattr(services, "find_gcs_addresses", lambda: set())
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        if known == "ray_current_cluster":
            monkeypatch.setattr(services, "find_bootstrap_address", lambda folder: address)
        else:
            address = f"ray://{address}" if "scheme" in known else address
            monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(LawscopeError, match=f"ray://auto, which is .*{address[-5:]} .*refused"):
            ray._connect(Patience(), "ray://auto", None)


@pytest.mark.parametrize("on", ["ray://auto", "ray://{address}"])
def test_a_port_that_accepts_and_never_answers_is_given_up(monkeypatch, on):
    pytest.importorskip("ray", reason="needs lawscope[cluster]")
    monkeypatch.setattr(ray, "CONNECT_SECONDS", 0.5)
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    with socket.create_server(("", 0)) as mute:  # Ray looks for its own node at another address
        port = mute.getsockname()[1]
        address = f"127.0.0.1:{port}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(LawscopeError, match=f":{port} .*nothing that speaks gRPC answered"):
            ray._connect(Patience(), on.format(address=address), None)


def test_who_names_a_token_has_it_shown_to_the_cluster(monkeypatch):
    pytest.importorskip("ray", reason="needs lawscope[cluster]")
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    ray._import_ray()
    assert "RAY_AUTH_MODE" not in os.environ
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray._import_ray()
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    monkeypatch.delenv("RAY_AUTH_MODE")
    ray._import_ray()
    assert os.environ["RAY_AUTH_MODE"] == "token"


def test_no_cluster_at_all_is_a_sentence(monkeypatch):
    services = pytest.importorskip("ray._private.services", reason="needs lawscope[cluster]")
    monkeypatch.setattr(services, "find_gcs_addresses", lambda: set())
    monkeypatch.setattr(services, "find_bootstrap_address", lambda folder: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(LawscopeError, match=r"ray://auto \(Could not find any running Ray"):
        ray._connect(Patience(), "ray://auto", None)
    monkeypatch.setenv("RAY_ADDRESS", "local")
    with pytest.raises(LawscopeError, match="RAY_ADDRESS is 'local', which is not a"):
        ray._connect(Patience(), "ray://auto", None)


def test_where_ray_ends_the_program_we_say_why_unless_somebody_else_ends_it():
    def exit_with(code):
        return Patience(lambda **settings: sys.exit(code))

    with pytest.raises(LawscopeError, match=r"reached at ray \(no raylet\)"):
        ray._connect(exit_with("no raylet"), "ray", 1)
    with pytest.raises(SystemExit):
        ray._connect(exit_with(signal.SIGTERM), "ray", 1)


@pytest.mark.parametrize(
    "on", ["ray://", "ray://host", "ray://host:many", "http://host:1", "", None, 3]
)
def test_what_is_no_address_is_a_sentence(on):
    with pytest.raises(LawscopeError, match="choose local, ray, ray://auto or ray://host:port"):
        ray.check_place(on)


def test_the_board_tells_of_progress_and_of_jobs_begun_again():
    board = ray._Board()
    board.begin(1)
    board.put(Progress(1, 10))
    board.put(Progress(1, 20))
    assert board.take() == [Progress(1, 20)]
    assert board.take() == []
    board.begin(1)
    assert board.take() == [Retried(1)]


class Remote:
    """Stands for a handle of an actor: every method has ``.remote``."""

    def __init__(self, board):
        for name in ("begin", "put"):
            method = getattr(board, name)
            setattr(self, name, type("Method", (), {"remote": staticmethod(method)}))


def test_an_exception_on_the_cluster_comes_back_as_an_event():
    def fail(tell):
        tell("dividing")
        return 1 / 0

    board = ray._Board()
    event = ray._work(3, fail, Remote(board))
    assert isinstance(event, Failed)
    assert event.why == "ZeroDivisionError: division by zero"
    assert board.take() == [Progress(3, "dividing")]
