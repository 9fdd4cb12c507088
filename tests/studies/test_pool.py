"""Worker processes: one that dies is replaced, and none of them hears ctrl-C."""

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.context import SpawnProcess

import pytest

from lawscope.studies.pool import Done, Failed, Pool, Retried


class Suicide:
    """Ends its process, for good or only the first time."""

    def __init__(self, mark, always):
        self.mark, self.always = mark, always

    def __call__(self, report):
        if self.always or not self.mark.exists():
            self.mark.write_text("dead")
            os.kill(os.getpid(), signal.SIGKILL)
        return os.environ["OMP_NUM_THREADS"]


def until_over(pool):
    events = []
    while not (events and isinstance(events[-1], (Done, Failed))):
        events += pool.events(1.0)
    return events


def test_a_job_whose_process_dies_is_begun_once_more(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    pool = Pool(1)
    try:
        pool.submit(7, Suicide(tmp_path / "mark", always=False))
        assert until_over(pool) == [Retried(7), Done(7, "1")]
        pool.submit(8, Suicide(tmp_path / "mark", always=True))
        again, lost = until_over(pool)
        assert again == Retried(8)
        assert lost.job_id == 8
        assert "out of memory?" in lost.why
        assert pool.free == 1
    finally:
        pool.close()


ALL_WORKERS_INTERRUPTED = """
import multiprocessing, os, signal
from lawscope.studies.pool import Pool

pool = Pool(2)
for job_id in (1, 2):
    pool.submit(job_id, str)
heard = []
while len(heard) < 2:
    heard += pool.events(1.0)
for worker in multiprocessing.active_children():
    os.kill(worker.pid, signal.SIGINT)
pool.submit(3, str)
pool.submit(4, str)
while len(heard) < 4:
    heard += pool.events(1.0)
pool.close()
print([type(event).__name__ for event in heard])
"""


def note_the_end(report):
    """A job that leaves something to be put away when its process ends."""
    import atexit

    atexit.register(print, "put away", file=sys.stderr, flush=True)


def work_on(report):
    report("begun")
    signal.pause()


def test_idle_processes_end_by_themselves_and_those_at_work_are_ended(capfd, monkeypatch):
    # A busy machine may need longer to end a process that has imported torch.
    monkeypatch.setattr("lawscope.studies.pool.CLOSING_SECONDS", 60.0)
    pool = Pool(2)
    pool.submit(1, note_the_end)
    until_over(pool)
    pool.submit(2, work_on)
    while not pool.events(1.0):
        pass
    pool.submit(3, note_the_end)
    until_over(pool)
    at_work, idle = pool._workers
    pool.close()
    assert (at_work.process.exitcode, idle.process.exitcode) == (-signal.SIGTERM, 0)
    assert capfd.readouterr().err.count("put away") == 1  # that of the one at work is lost


def test_no_worker_hears_ctrl_c_not_even_the_first():
    # In a process of its own: what Python begins with the very first worker lets signals in.
    answer = subprocess.run(
        [sys.executable, "-c", ALL_WORKERS_INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert answer.stderr == ""
    assert answer.stdout == "['Done', 'Done', 'Done', 'Done']\n"


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_a_worker_begun_while_ctrl_c_arrives_is_ended_with_the_others(monkeypatch):
    begin = SpawnProcess.start

    def interrupted(process):
        begin(process)
        os.kill(os.getpid(), signal.SIGINT)  # kept back until the process is begun

    monkeypatch.setattr(SpawnProcess, "start", interrupted)
    pool = Pool(1)
    try:
        with pytest.raises(KeyboardInterrupt):
            pool.submit(1, str)
        (worker,) = multiprocessing.active_children()
        pool.close()
        assert not worker.is_alive()
    finally:
        for child in multiprocessing.active_children():
            child.kill()
