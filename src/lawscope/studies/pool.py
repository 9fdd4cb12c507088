"""Worker processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType

from lawscope.studies.crew import Event, Job, Lost, Retried, Told
from lawscope.studies.worker import serve

ATTEMPTS = 2
CLOSING_SECONDS = 2.0


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection
    task: tuple[int, Job] | None = None
    attempt: int = 1


class Pool:
    """At most ``size`` processes, begun when they are needed, of one thread each.

    A job whose process dies (out of memory, killed) is begun once more in a new one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._workers: list[_Worker] = []

    @property
    def free(self) -> int:
        """How many more jobs can begin now."""
        return self.size - sum(worker.task is not None for worker in self._workers)

    def submit(self, ticket: int, job: Job) -> None:
        """Begin a job in an idle process, or in a new one."""
        idle = [worker for worker in self._workers if worker.task is None]
        self._give(idle[0] if idle else self._begin(), (ticket, job), attempt=1)

    def events(self, timeout: float) -> Sequence[Event]:
        """What has happened, after at most ``timeout`` seconds."""
        busy = {w.connection: w for w in self._workers if w.task is not None}
        ready = wait(list(busy), timeout)
        return [event for end in ready for event in self._hear(busy[end])]  # type: ignore[index]

    def close(self) -> None:
        """End all processes, also those at work."""
        for worker in self._workers:
            if worker.task is not None:  # at work, it would stumble over a closed pipe
                worker.process.terminate()
            worker.connection.close()  # an idle one ends by itself, and puts away what it holds
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
            with _deaf_to_interrupts(), _without_main():
                process.start()
        except BaseException:
            if process.pid is None:
                self._workers.remove(worker)
            raise
        theirs.close()  # so that our end reports when the process is gone
        return worker

    def _give(self, worker: _Worker, task: tuple[int, Job], attempt: int) -> None:
        worker.task, worker.attempt = task, attempt
        with suppress(BrokenPipeError, ConnectionResetError):  # then the next recv tells
            worker.connection.send(task)

    def _hear(self, worker: _Worker) -> Iterator[Event]:
        try:
            event: Event = worker.connection.recv()
        except (EOFError, OSError):
            yield self._replace(worker)
            return
        if not isinstance(event, Told):
            worker.task = None
        yield event

    def _replace(self, worker: _Worker) -> Event:
        """A process is gone: begin its job again, or give up."""
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.join(CLOSING_SECONDS)
        assert worker.task is not None
        ticket = worker.task[0]
        if worker.attempt < ATTEMPTS:
            self._give(self._begin(), worker.task, worker.attempt + 1)
            return Retried(ticket)
        return Lost(ticket, _how_it_ended(worker.process.exitcode))


def usable_cores() -> int:
    """The cores this process may use; a container may allow fewer than the machine has."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    return max(1, min(cores, _quota(cores)))


def _quota(otherwise: int) -> int:
    """The container's share of cores (cgroup v2: ``<microseconds> <period>`` or ``max``)."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:  # noqa: PTH123
            share, period = file.read().split()
        return otherwise if share == "max" else -(-int(share) // int(period))
    except (OSError, ValueError):
        return otherwise


def _how_it_ended(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed twice (out of memory?); try fewer --jobs"
    return f"its process ended twice with exit code {code}"


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """A process begun inside never hears ctrl-C: the parent ends it. Ours comes afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # The first process of all begins this one on its way, and that lets interrupts in again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """A process begun inside does not run the user's script again.

    Jobs name studies and carry settings, nothing of ``__main__``; so a script without
    ``if __name__ == "__main__"``, a notebook or standard input will do.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
