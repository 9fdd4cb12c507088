"""Workers on a Ray cluster: the same jobs, no shared disk needed.

Jobs carry all they need and return bytes, which the runner writes into its own store. Ray begins a
job again when the worker or the machine that had it is lost.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from lawscope.errors import LawscopeError
from lawscope.studies import pool
from lawscope.studies.pool import Event, Failed, Job, Progress, Retried

LOCAL, ANY, SCHEME = "ray", "ray://auto", "ray://"
CONNECT_SECONDS = 10.0
# Where Ray listens unless an address says otherwise.
CLIENT_PORT = 10001
RETRIES = 2
NEWS_SECONDS = 1.0


class RayWorkers:
    """The workers of a Ray cluster, by default one for each of its cores.

    ``"ray"`` starts a Ray on this machine that ends with the run; ``"ray://auto"`` takes the one
    that runs here; ``"ray://host:port"`` is one elsewhere (Ray Client).
    """

    def __init__(self, on: str, jobs: int | None) -> None:
        self._ray = ray = _import_ray()
        _connect(ray, on, jobs)
        self.size = jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._work = ray.remote(num_cpus=1, max_retries=RETRIES)(_work)
        self._board = ray.remote(num_cpus=0)(_Board).remote()
        self._running: dict[Any, int] = {}

    @property
    def free(self) -> int:
        return self.size - len(self._running)

    def submit(self, job_id: int, job: Job) -> None:
        self._running[self._work.remote(job_id, job, self._board)] = job_id

    def events(self, timeout: float) -> Sequence[Event]:
        if not self._running:
            time.sleep(timeout)
            return []
        try:
            running = list(self._running)
            self._ray.wait(running, timeout=timeout)
            ready, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
            return [*self._news(), *(self._outcome(reference) for reference in ready)]
        except ConnectionError as error:
            raise LawscopeError(
                "The connection to Ray is lost. What was trained is kept; give the same command "
                "again when the cluster is back."
            ) from error

    def close(self) -> None:
        with suppress(Exception):  # a cluster that is gone needs no goodbye
            for reference in self._running:
                self._ray.cancel(reference, force=True)
        self._ray.shutdown()

    def _news(self) -> list[Event]:
        try:
            news: list[Event] = self._ray.get(self._board.take.remote(), timeout=NEWS_SECONDS)
        except self._ray.exceptions.RayError:  # progress is a courtesy
            return []
        return news

    def _outcome(self, reference: Any) -> Event:
        job_id = self._running.pop(reference)
        errors = self._ray.exceptions
        try:
            event: Event = self._ray.get(reference)
        except errors.RayTaskError as error:
            return Failed(job_id, f"the cluster could not run it ({error.cause!r})", str(error))
        except errors.RayError as error:
            why = f"its worker was lost {RETRIES + 1} times ({type(error).__name__})"
            return Failed(job_id, why)
        return event


class _Board:
    """An actor to which workers pin their progress, and the runner reads it."""

    def __init__(self) -> None:
        self._begun: set[int] = set()
        self._retried: list[Event] = []
        self._news: dict[int, Event] = {}

    def begin(self, job_id: int) -> None:
        """Note that a worker begins a job, perhaps not the first one to do so."""
        if job_id in self._begun:
            self._retried.append(Retried(job_id))
        self._begun.add(job_id)

    def put(self, progress: Progress) -> None:
        self._news[progress.job_id] = progress

    def take(self) -> list[Event]:
        events = [*self._retried, *self._news.values()]
        self._retried, self._news = [], {}
        return events


def _work(job_id: int, job: Job, board: Any) -> Event:
    board.begin.remote(job_id)
    return pool.perform(job_id, job, board.put.remote, NEWS_SECONDS)


def check_place(on: str) -> None:
    """Refuse an ``on`` that does not say where to work."""
    if on in ("local", LOCAL, ANY):
        return
    with suppress(ValueError):
        place = urlsplit(str(on))
        if str(on).startswith(SCHEME) and place.hostname and place.port:
            return
    raise LawscopeError(
        f"on={on!r} is not known; choose local, ray, ray://auto or ray://host:port."
    )


def _import_ray() -> Any:
    # Before the import: a measurement of ours reports to nobody.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # who names a token wants it shown
    try:
        import ray
    except ImportError as error:
        raise LawscopeError(
            "Ray is not installed; get it with: pip install 'lawscope[cluster]'"
        ) from error
    return ray


def _connect(ray: Any, on: str, jobs: int | None) -> None:
    logging.getLogger("ray").setLevel(logging.ERROR)
    quiet = {"log_to_driver": False, "logging_level": "error"}
    where = on
    try:
        if on == LOCAL:
            cores = jobs or pool.usable_cores()
            ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
            return
        address = _known_here() if on == ANY else on
        where = on if address == on else f"{on}, which is {address}"
        _knock(address)
        if address.startswith(SCHEME):
            with warnings.catch_warnings(action="ignore"):  # our sentence says it
                ray.init(address=address)
        else:  # not by its address: only here does Ray look for the token of the cluster
            ray.init(address="auto", **quiet)
    except (OSError, RuntimeError, ValueError, SystemExit) as error:
        # Ray ends the program where it gives up; so may somebody else.
        if isinstance(error, SystemExit) and error.code == signal.SIGTERM:
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise LawscopeError(
            f"Ray cannot be reached at {where} ({reason}); check that the cluster runs there and "
            "that RAY_AUTH_TOKEN is its token if it asks for one, or work on this machine "
            "(on='local')."
        ) from error


def _known_here() -> str:
    """Find the cluster that Ray knows of: that of RAY_ADDRESS, or the one begun here last."""
    named = os.environ.get("RAY_ADDRESS", "")
    if named.startswith(SCHEME):
        return named
    # Ray offers no public way to ask, and waits many minutes for a cluster that is gone.
    from ray._private.services import canonicalize_bootstrap_address

    address: str | None = canonicalize_bootstrap_address("auto")
    if address is None:
        raise ConnectionError(f"RAY_ADDRESS is {named!r}, which is not a running cluster")
    return address


def _knock(address: str) -> None:
    """Fail soon where nobody answers at ``host:port`` or ``ray://host:port``."""
    place = urlsplit(address if "://" in address else f"//{address}")
    if place.hostname is None:
        raise ConnectionError("this is not an address")
    port = place.port or CLIENT_PORT
    socket.create_connection((place.hostname, port), timeout=CONNECT_SECONDS).close()
    # A port may be open and not speak gRPC, for which Ray waits minutes. Where it is to speak TLS
    # we have no certificates to greet it with.
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return
    import grpc  # comes with the client of Ray

    target = place.netloc if place.port else f"{place.netloc}:{port}"
    with grpc.insecure_channel(target) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=CONNECT_SECONDS)
        except grpc.FutureTimeoutError as error:
            raise TimeoutError(
                f"the port is open, and nothing that speaks gRPC answered in {CONNECT_SECONDS:g} s"
            ) from error
