"""Tiny studies, and a worker pool that does its work at once in this process."""

import os
import signal
import subprocess
import sys
from collections import deque
from functools import partial
from pathlib import Path

import pytest
from tests.studies.benches import Bench

from lawscope.studies.pool import perform
from lawscope.studies.store import Store

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"


@pytest.fixture
def toys(monkeypatch, tmp_path):
    """The family ``toy`` is registered; store and results go to a folder of the test."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("LAWSCOPE_STUDIES", "toy_studies")
    monkeypatch.setenv("LAWSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path


@pytest.fixture
def command(toys):
    """Begin ``lawscope study …`` in a process of its own."""
    begun = []

    def begin(*arguments):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(HERE)])}
        process = subprocess.Popen(
            [sys.executable, "-m", "lawscope", "study", *map(str, arguments)],
            cwd=toys, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            # Tests begun in the background of a script inherit a deaf ear for ctrl-C.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


class InlineWorkers:
    """Does one job each time it is asked for events, and remembers all it was given."""

    size = 2

    def __init__(self):
        self.queue = deque()
        self.jobs, self.by_id = [], {}

    @property
    def free(self):
        return self.size - len(self.queue)

    def submit(self, job_id, job):
        self.jobs.append(job)
        self.by_id[job_id] = job
        self.queue.append((job_id, job))

    def events(self, timeout):
        if not self.queue:
            return []
        job_id, job = self.queue.popleft()
        return [perform(job_id, job, lambda progress: None, 0.0)]

    def close(self):
        self.queue.clear()


@pytest.fixture
def inline():
    return InlineWorkers()


@pytest.fixture
def inline_pool(monkeypatch, inline):
    """Studies are run in this process, which sees what a test has patched."""
    monkeypatch.setattr("lawscope.studies.runner.Pool", lambda size: inline)


@pytest.fixture
def bench(toys, inline):
    return Bench(Store(toys / "store"), inline)
