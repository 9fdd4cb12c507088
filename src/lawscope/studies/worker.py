"""What runs inside a worker process. Light to import: torch comes with the first job."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from multiprocessing.connection import Connection

from lawscope.errors import LawscopeError
from lawscope.studies.crew import Done, Event, Job, Raised, Tell, Told

REPORT_SECONDS = 0.2
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def serve(connection: Connection) -> None:
    """Do jobs that come through ``connection`` until it closes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # what a study prints must not end up in the command's JSON
    for variable in ONE_THREAD:
        os.environ[variable] = "1"
    while True:
        try:
            ticket, job = connection.recv()
            connection.send(perform(ticket, job, seldom(_sender(connection, ticket))))
        except (EOFError, ConnectionError):  # the other end is gone
            return


def _sender(connection: Connection, ticket: int) -> Tell:
    return lambda news: connection.send(Told(ticket, news))


def perform(ticket: int, job: Job, tell: Tell) -> Event:
    """Do one job on one thread; an exception becomes an event."""
    try:
        import torch

        torch.set_num_threads(1)  # as many workers as cores: more threads would only wait
        return Done(ticket, job(tell))
    except Exception as error:
        kind = type(error).__name__
        why = str(error) if isinstance(error, LawscopeError) else f"{kind}: {error}"
        return Raised(ticket, why, traceback.format_exc(), kind)


def seldom(tell: Tell, seconds: float = REPORT_SECONDS) -> Tell:
    """The same, called at most every ``seconds``: networks can take a millisecond an epoch."""
    last = 0.0

    def told(news: int | str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= seconds:
            last = now
            tell(news)

    return told


def _end_with_parent() -> None:
    """A worker whose parent was killed must not train on."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
