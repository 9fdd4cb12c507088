"""Which worker trains what, and when a study can be measured.

The scheduler is one loop in one process. It locks the trainings that are missing, hands stacks of
them to workers, writes what comes back into the store, and has a study measured as soon as its last
training is there. Workers hold nothing: one that dies loses only its job.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lawscope import __version__
from lawscope.studies.display import Display
from lawscope.studies.entry import DamagedEntryError, Packed, pack, unpack
from lawscope.studies.figures import draw
from lawscope.studies.plan import Training, each_once, lineage
from lawscope.studies.pool import Done, Event, Failed, Progress, Report, Retried, Workers
from lawscope.studies.registry import find
from lawscope.studies.result import from_json, to_json
from lawscope.studies.store import Store

POLL_SECONDS = 0.5
MOST_NETWORKS = 16
# What a killed process loses at most, by the estimate of ``execute.estimate_seconds``.
MOST_SECONDS = 300.0
# Of a network that cannot be built here, so that its cost is not known.
UNKNOWN_SECONDS = 1.0

# Trainings of one shape that a worker trains together.
Stack = tuple[Training, ...]


@dataclass(frozen=True)
class Train:
    """The job to train a stack, which comes with what its networks begin from."""

    trainings: Stack
    starts: tuple[tuple[Training, Packed], ...] = ()

    def __call__(self, report: Report) -> list[Packed]:
        from lawscope.studies.execute import execute

        done = 0

        def tick(epochs: int) -> None:
            nonlocal done
            done += epochs
            report(done)

        starts = {training.key: unpack(packed, training) for training, packed in self.starts}
        return [pack(run) for run in execute(self.trainings, starts, tick)]


@dataclass(frozen=True)
class Measured:
    """What the measurement of a study gives; ``why`` there is no picture."""

    numbers: dict[str, Any]
    picture: bytes | None
    why: str
    seconds: float


@dataclass(frozen=True)
class Measure:
    """The job to measure a study whose trainings are all in the store."""

    name: str
    settings: Mapping[str, Any]
    store: Path

    def __call__(self, report: Report) -> Measured:
        from lawscope.studies.lab import Lab

        begun = time.perf_counter()
        study, store = find(self.name), Store(self.store)
        # As they will come back from the file, so that claims and figure are the same then.
        numbers = {
            protocol: from_json(to_json(study.measure(Lab(self.settings, store, report, protocol))))
            for protocol in study.protocols
        }
        picture, why = None, ""
        try:
            picture = draw(study.figure(numbers[study.protocols[0]]), "png")
        except Exception as error:  # a figure that fails must not cost the numbers
            why = f"{type(error).__name__}: {error}"
        return Measured(numbers, picture, why, time.perf_counter() - begun)


@dataclass(eq=False)
class PlannedStudy:
    """A study to be measured."""

    name: str
    settings: Mapping[str, Any]
    needed: Mapping[str, Training]
    repaired: bool = False


@dataclass(frozen=True)
class Failure:
    """Why a study could not be measured, and where (for debugging)."""

    why: str
    trace: str = ""


@dataclass(eq=False)
class Scheduler:
    """Trains and measures studies.

    ``finish`` is called for each study that is over, with its measurement or why there is none;
    ``cost`` estimates the seconds of one training.
    """

    store: Store
    trainers: Workers
    # On this machine the same.
    measurers: Workers
    display: Display
    finish: Callable[[PlannedStudy, Measured | Failure], None]
    cost: Callable[[Training], float]

    def __post_init__(self) -> None:
        self._job_ids = itertools.count(1)
        self._open: list[PlannedStudy] = []
        self._queue: list[Stack] = []
        # Another process is training these.
        self._elsewhere: list[Stack] = []
        self._look_again = 0.0
        # With the locks that are held meanwhile.
        self._training: dict[int, tuple[Stack, ExitStack]] = {}
        self._measuring: dict[int, PlannedStudy] = {}
        self._stored: set[str] = set()
        self._failed: dict[str, Failure] = {}
        # Starts that were found damaged and trained again.
        self._repaired: set[str] = set()
        # With all epochs that any study asks for.
        self._wanted: dict[str, Training] = {}

    def run(self, studies: Iterable[PlannedStudy]) -> None:
        """Train what is missing and measure everything."""
        self._open = list(studies)
        self._wanted = each_once(t for study in self._open for t in study.needed.values())
        self._enqueue(self._wanted)
        pools = dict.fromkeys((self.trainers, self.measurers))
        try:
            while self._open or self._measuring:
                self._begin_measuring()
                self._begin_training()
                for workers in pools:
                    for event in workers.events(POLL_SECONDS / len(pools)):
                        self._handle(event)
        finally:
            for _, locks in self._training.values():
                locks.close()

    def _enqueue(self, keys: Iterable[str]) -> None:
        """Queue what the store does not have, or has damaged."""
        trainings = {key: self._wanted[key] for key in keys}
        missing = {key: t for key, t in trainings.items() if not self.store.has(t)}
        self._stored = (self._stored - missing.keys()) | (trainings.keys() - missing.keys())
        self._queue += stacks_of(missing.values(), self.trainers.size, self.cost)
        self.display.expect(_epochs(missing.values()))

    def _why_missing(self, needed: Mapping[str, Training]) -> Failure | None:
        """Why some of these cannot be had; an older entry may have the epochs needed here."""
        failed = (key for key in needed if key in self._failed)
        return next((self._failed[k] for k in failed if not self.store.has(needed[k])), None)

    def _is_over(self, needed: Mapping[str, Training]) -> bool:
        """Whether none of these is still to be trained."""
        return needed.keys() <= self._stored | self._failed.keys()

    def _begin_measuring(self) -> None:
        for study in list(self._open):
            if failure := self._why_missing(study.needed):
                self._open.remove(study)
                self.finish(study, failure)
            elif self.measurers.free and self._is_over(study.needed):
                self._open.remove(study)
                job_id = next(self._job_ids)
                self._measuring[job_id] = study
                self.display.begin(job_id, f"measuring {study.name}", None)
                job = Measure(study.name, dict(study.settings), self.store.folder)
                self.measurers.submit(job_id, job)

    def _begin_training(self) -> None:
        if self._elsewhere and time.monotonic() >= self._look_again:
            self._queue += self._elsewhere
            self._elsewhere = []
            self._look_again = time.monotonic() + POLL_SECONDS
        for stack in list(self._queue):
            if not self.trainers.free:
                break
            starts = _starts_of(stack)
            if failure := self._why_missing(starts):
                self._queue.remove(stack)
                self._fail(stack, failure)
            elif self._is_over(starts):
                self._queue.remove(stack)
                self._begin(stack)
        self.display.waiting(sum(map(len, self._elsewhere)))

    def _begin(self, stack: Stack) -> None:
        """Lock what no other process trains or has finished meanwhile, and train that."""
        try:
            with ExitStack() as locks:
                stack = self._lock(stack, locks)
                if not stack:
                    return
                starts = tuple((t, self.store.read(t)) for t in _starts_of(stack).values())
                job_id = next(self._job_ids)
                self._training[job_id] = (stack, locks.pop_all())
            self.display.begin(job_id, _describe(stack), _epochs(stack))
            self.trainers.submit(job_id, Train(stack, starts))
        except DamagedEntryError as error:
            self._repair_starts(stack, error)

    def _lock(self, stack: Stack, locks: ExitStack) -> Stack:
        """Return the trainings of a stack that are ours to do, locked."""
        ours, theirs = [], []
        for training in stack:
            lock = self.store.lock(training.key)
            if lock is None:
                theirs.append(training)
                continue
            locks.callback(lock.release)
            if self.store.has(training):
                lock.release()
                self._stored.add(training.key)
                self.display.expect(-training.recipe.epochs)
            else:
                # What an entry of other epochs keeps, some study needs: the new one keeps it too.
                ours.append(training.keeping(self.store.kept(training.key)))
                self.store.remove_damaged(training)
        if theirs:
            self._elsewhere.append(tuple(theirs))
        return tuple(ours)

    def _repair_starts(self, stack: Stack, error: DamagedEntryError) -> None:
        """Train again, once, what a stack begins from, damaged after it was planned."""
        again = _starts_of(stack).keys() - self._repaired
        if not again:
            self._fail(stack, Failure(str(error)))
            return
        self._repaired |= again
        self._queue.append(stack)
        self._enqueue(again)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Progress):
            self.display.advance(event.job_id, event.news)
        elif isinstance(event, Retried):
            self.display.say("A worker was lost; its job is begun again.")
        elif event.job_id in self._training:
            self._finish_training(event)
        elif event.job_id in self._measuring:
            self._finish_measuring(event)

    def _finish_training(self, event: Done | Failed) -> None:
        stack, locks = self._training.pop(event.job_id)
        if isinstance(event, Done):
            with locks:
                self._keep(stack, event.value)
            self.display.end(event.job_id, _epochs(stack))
            return
        locks.close()
        self.display.end(event.job_id)
        if len(stack) > 1:
            # One may be at fault, or all too large together: each is tried on its own.
            self._queue[:0] = [(training,) for training in stack]
        else:
            self._fail(stack, Failure(f"{_describe(stack)}: {event.why}", event.trace))

    def _keep(self, stack: Stack, trained: Sequence[Packed]) -> None:
        """Store what a worker has trained; where it is not what was asked for, it has failed."""
        if [packed.record["key"] for packed in trained] != [t.key for t in stack]:
            why = (
                "the worker has another version of lawscope than this process "
                f"({__version__}); install the same on every machine and give the command again"
            )
            self._fail(stack, Failure(f"{_describe(stack)}: {why}"))
            return
        for packed in trained:
            self.store.write(packed)
            self._stored.add(packed.record["key"])

    def _fail(self, stack: Stack, failure: Failure) -> None:
        self._failed.update((training.key, failure) for training in stack)

    def _finish_measuring(self, event: Done | Failed) -> None:
        study = self._measuring.pop(event.job_id)
        self.display.end(event.job_id)
        if isinstance(event, Done):
            self.finish(study, event.value)
        elif event.kind == DamagedEntryError.__name__ and not study.repaired:
            study.repaired = True
            self._enqueue(study.needed)
            self._open.append(study)
        else:
            self.finish(study, Failure(event.why, event.trace))


def _starts_of(stack: Stack) -> dict[str, Training]:
    return {t.start.key: t.start for t in stack if t.start is not None}


def _epochs(trainings: Iterable[Training]) -> int:
    """Network-epochs: the unit of progress."""
    return sum(training.recipe.epochs for training in trainings)


def _describe(stack: Stack) -> str:
    one = len(stack) == 1
    return stack[0].describe() if one else f"{len(stack)} × {stack[0].network.describe()}"


def stacks_of(
    trainings: Iterable[Training], jobs: int, cost: Callable[[Training], float]
) -> list[Stack]:
    """Share trainings out so that all workers are busy, longest stack first.

    Trainings of equal shape are stacked, because a stack is faster than one by one. A stack takes
    at most the fair share of one worker, 16 networks and five minutes (a single network may take
    longer).
    """
    groups: dict[tuple[int, str], list[Training]] = {}
    for training in trainings:
        # Those that begin from others come after these.
        groups.setdefault((len(lineage(training)), training.shape), []).append(training)
    costs = {shape: _seconds(group[0], cost) for shape, group in groups.items()}
    share = sum(costs[shape] * len(group) for shape, group in groups.items()) / jobs
    stacks = [
        (costs[shape] * len(part), part)
        for shape, group in groups.items()
        for part in _cut(group, costs[shape], share)
    ]
    return [part for _, part in sorted(stacks, key=lambda each: -each[0])]


def _seconds(training: Training, cost: Callable[[Training], float]) -> float:
    try:
        return max(cost(training), 1e-6)
    except Exception:  # one network that cannot be built must not stop the others
        return UNKNOWN_SECONDS


def _cut(group: list[Training], cost: float, share: float) -> list[Stack]:
    """Nearly equal parts, none above the limits."""
    fair = max(1, math.ceil(round(share / cost, 6)))  # not one more for a rounding error
    safe = max(1, math.floor(MOST_SECONDS / cost))
    parts = math.ceil(len(group) / min(fair, safe, MOST_NETWORKS))
    return [tuple(group[part::parts]) for part in range(parts)]
