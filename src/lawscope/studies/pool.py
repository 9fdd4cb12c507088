"""Worker processes on this machine, and what the runner asks of workers anywhere.

Our own small pool, because the executors of concurrent.futures and loky break as a whole when one
process is killed: here a killed process loses only its job, which is begun again. Workers also
report progress, never hear ctrl-C, and end with their parent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Any, Protocol

from lawscope.errors import LawscopeError

CLOSING_SECONDS = 2.0
REPORT_SECONDS = 0.2
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Notes on kernels that are not installed would come in between the progress bars.
QUIET = {"TRANSFORMERS_VERBOSITY": "error"}

# How a job reports: network-epochs done so far, or a few words.
Report = Callable[[int | str], None]
# Work that can be sent to another process, as can its value; does the same if it is done twice.
Job = Callable[[Report], Any]


@dataclass(frozen=True)
class Progress:
    """A job reports how far it is."""

    job_id: int
    news: int | str


@dataclass(frozen=True)
class Done:
    """A job is finished."""

    job_id: int
    value: Any


@dataclass(frozen=True)
class Failed:
    """A job raised an exception or lost its workers: why, where, and the exception's type."""

    job_id: int
    why: str
    trace: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Retried:
    """The worker of a job was lost; another one has begun it again."""

    job_id: int


Event = Progress | Done | Failed | Retried


class Workers(Protocol):
    """What does jobs, on this machine or on a cluster: ``free`` more can begin now.

    ``events`` returns what has happened after at most ``timeout`` seconds; ``close`` ends all
    workers, also busy ones.
    """

    size: int

    @property
    def free(self) -> int: ...
    def submit(self, job_id: int, job: Job) -> None: ...
    def events(self, timeout: float) -> Sequence[Event]: ...
    def close(self) -> None: ...


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection
    task: tuple[int, Job] | None = None
    retried: bool = False

    def send(self, task: tuple[int, Job], retried: bool = False) -> None:
        self.task, self.retried = task, retried
        # Where the process is gone, the next recv says so.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(task)


class Pool:
    """At most ``size`` processes, begun when they are needed, of one thread each.

    A job whose process dies (out of memory, killed) is begun once more in a new one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._workers: list[_Worker] = []

    @property
    def free(self) -> int:
        return self.size - sum(worker.task is not None for worker in self._workers)

    def submit(self, job_id: int, job: Job) -> None:
        idle = [worker for worker in self._workers if worker.task is None]
        (idle[0] if idle else self._begin()).send((job_id, job))

    def events(self, timeout: float) -> Sequence[Event]:
        busy = {w.connection: w for w in self._workers if w.task is not None}
        return [self._receive(busy[end]) for end in wait(list(busy), timeout)]  # type: ignore[index]

    def close(self) -> None:
        for worker in self._workers:
            # A busy one would stumble over the closed pipe; an idle one ends by itself.
            if worker.task is not None:
                worker.process.terminate()
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(CLOSING_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers.clear()

    def _begin(self) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(theirs,), name="lawscope worker", daemon=True
        )
        worker = _Worker(process, ours)
        # Before it begins, since ctrl-C may be heard through another thread: close() ends all that
        # are known.
        self._workers.append(worker)
        try:
            with _deaf_and_without_main():
                process.start()
        except BaseException:
            if process.pid is None:
                self._workers.remove(worker)
            raise
        # So that our end reports when the process is gone.
        theirs.close()
        return worker

    def _receive(self, worker: _Worker) -> Event:
        try:
            event: Event = worker.connection.recv()
        except (EOFError, OSError):
            return self._replace(worker)
        if not isinstance(event, Progress):
            worker.task = None
        return event

    def _replace(self, worker: _Worker) -> Event:
        """Begin the job of a process that is gone again, or give up."""
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.join(CLOSING_SECONDS)
        assert worker.task is not None
        job_id = worker.task[0]
        if not worker.retried:
            self._begin().send(worker.task, retried=True)
            return Retried(job_id)
        if worker.process.exitcode == -signal.SIGKILL:
            return Failed(
                job_id,
                "its process was killed twice (out of memory?); try fewer jobs, or more memory",
            )
        return Failed(job_id, f"its process ended twice with exit code {worker.process.exitcode}")


def serve(connection: Connection) -> None:
    """Do jobs that come through ``connection`` until it closes; runs in a worker process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # What a study prints must not end up in the command's JSON.
    os.dup2(2, 1)
    os.environ.update({**dict.fromkeys(ONE_THREAD, "1"), **QUIET})
    with suppress(EOFError, ConnectionError):
        while True:
            job_id, job = connection.recv()
            connection.send(perform(job_id, job, connection.send, REPORT_SECONDS))


def perform(job_id: int, job: Job, send: Callable[[Progress], Any], every: float) -> Event:
    """Do one job on one thread; an exception becomes an event.

    Progress is sent every few seconds: a network can take a millisecond an epoch.
    """
    last = 0.0

    def report(news: int | str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every:
            last = now
            send(Progress(job_id, news))

    try:
        import torch

        # As many workers as cores: more threads would only wait.
        torch.set_num_threads(1)
        return Done(job_id, job(report))
    except Exception as error:
        kind = type(error).__name__
        why = str(error) if isinstance(error, LawscopeError) else f"{kind}: {error}"
        return Failed(job_id, why, traceback.format_exc(), kind)


def usable_cores() -> int:
    """Return the cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _end_with_parent() -> None:
    """End this worker when its parent is killed: it must not train on."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _deaf_and_without_main() -> Iterator[None]:
    """Keep ctrl-C and the user's script from processes begun inside.

    The parent ends them, and jobs need nothing of the script. Our own ctrl-C comes afterwards.
    """
    # The first process of all begins this one on its way, and that lets interrupts in again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
