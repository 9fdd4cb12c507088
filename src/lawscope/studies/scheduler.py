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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lawscope import __version__
from lawscope.studies.display import Display
from lawscope.studies.entry import DamagedEntryError, Packed
from lawscope.studies.job import Measure, Measured, Train
from lawscope.studies.plan import Training, each_once, lineage
from lawscope.studies.pool import Done, Event, Failed, Job, Progress, Retried, Workers
from lawscope.studies.store import Store

if TYPE_CHECKING:
    from filelock import FileLock

POLL_SECONDS = 0.5
MOST_NETWORKS = 16
# What a killed process loses at most, by the estimate of ``execute.estimate_seconds``.
MOST_SECONDS = 300.0
# Of a network that cannot be built here, so that its cost is not known.
UNKNOWN_SECONDS = 1.0


@dataclass(frozen=True)
class Stack:
    """Trainings of one shape that a worker trains together."""

    trainings: tuple[Training, ...]
    seconds: float

    @property
    def starts(self) -> dict[str, Training]:
        return {t.start.key: t.start for t in self.trainings if t.start is not None}

    @property
    def epochs(self) -> int:
        """Network-epochs: the unit of progress."""
        return sum(training.recipe.epochs for training in self.trainings)

    def describe(self) -> str:
        first = self.trainings[0]
        if len(self.trainings) == 1:
            return first.describe()
        return f"{len(self.trainings)} × {first.network.describe()}"

    def only(self, trainings: Iterable[Training]) -> Stack:
        kept = tuple(trainings)
        return Stack(kept, self.seconds * len(kept) / len(self.trainings))


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
        self._training: dict[int, tuple[Stack, list[FileLock]]] = {}
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
        try:
            while self._open or self._measuring:
                self._begin_measuring()
                self._begin_training()
                for event in self._events():
                    self._handle(event)
        finally:
            for _, locks in self._training.values():
                _release(locks)

    def _enqueue(self, keys: Iterable[str]) -> None:
        """Queue what the store does not have, or has damaged."""
        trainings = {key: self._wanted[key] for key in keys}
        missing = {key: t for key, t in trainings.items() if not self.store.has(t)}
        self._stored = (self._stored - missing.keys()) | (trainings.keys() - missing.keys())
        self._queue += stacks_of(missing.values(), self.trainers.size, self.cost)
        self.display.expect(sum(t.recipe.epochs for t in missing.values()))

    def _why_missing(self, needed: Mapping[str, Training]) -> Failure | None:
        """Why some of these cannot be had; an older entry may have the epochs needed here."""
        for key, training in needed.items():
            if key in self._failed and not self.store.has(training):
                return self._failed[key]
        return None

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
                job = Measure(study.name, dict(study.settings), self.store.folder)
                job_id = self._submit(self.measurers, job, f"measuring {study.name}", None)
                self._measuring[job_id] = study

    def _begin_training(self) -> None:
        if self._elsewhere and time.monotonic() >= self._look_again:
            self._queue += self._elsewhere
            self._elsewhere = []
            self._look_again = time.monotonic() + POLL_SECONDS
        for stack in list(self._queue):
            if not self.trainers.free:
                break
            if failure := self._why_missing(stack.starts):
                self._queue.remove(stack)
                self._fail(stack, failure)
            elif self._is_over(stack.starts):
                self._queue.remove(stack)
                self._begin(stack)
        self.display.waiting(sum(len(stack.trainings) for stack in self._elsewhere))

    def _begin(self, stack: Stack) -> None:
        """Lock what no other process trains or has finished meanwhile, and train that."""
        locks: list[FileLock] = []
        try:
            if ours := self._lock(stack, locks):
                stack = stack.only(ours)
                starts = tuple((t, self.store.read(t)) for t in stack.starts.values())
                job = Train(stack.trainings, starts)
                job_id = self._submit(self.trainers, job, stack.describe(), stack.epochs)
                self._training[job_id] = (stack, locks)
        except DamagedEntryError as error:
            _release(locks)
            self._repair_starts(stack, error)
        except BaseException:
            _release(locks)
            raise

    def _lock(self, stack: Stack, locks: list[FileLock]) -> list[Training]:
        """Return the trainings of a stack that are ours to do; their locks go to ``locks``."""
        ours, theirs = [], []
        for training in stack.trainings:
            lock = self.store.lock(training.key)
            if lock is None:
                theirs.append(training)
                continue
            locks.append(lock)
            if self.store.has(training):
                locks.pop().release()
                self._stored.add(training.key)
                self.display.expect(-training.recipe.epochs)
            else:
                # What an entry of other epochs keeps, some study needs: the new one keeps it too.
                ours.append(training.keeping(self.store.kept(training.key)))
                self.store.remove_damaged(training)
        if theirs:
            self._elsewhere.append(stack.only(theirs))
        return ours

    def _repair_starts(self, stack: Stack, error: DamagedEntryError) -> None:
        """What a stack begins from was damaged after it was planned: train that again, once."""
        again = stack.starts.keys() - self._repaired
        if not again:
            self._fail(stack, Failure(str(error)))
            return
        self._repaired |= again
        self._queue.append(stack)
        self._enqueue(again)

    def _submit(self, workers: Workers, job: Job, words: str, total: int | None) -> int:
        job_id = next(self._job_ids)
        self.display.begin(job_id, words, total)
        workers.submit(job_id, job)
        return job_id

    def _events(self) -> list[Event]:
        if self.measurers is self.trainers:
            return list(self.trainers.events(POLL_SECONDS))
        half = POLL_SECONDS / 2
        return [*self.trainers.events(half), *self.measurers.events(half)]

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
        stack, locks = self._training[event.job_id]
        try:
            failure = self._keep(stack, event.value) if isinstance(event, Done) else None
        finally:
            _release(locks)
            del self._training[event.job_id]
        self.display.end(event.job_id, stack.epochs if isinstance(event, Done) else 0)
        if isinstance(event, Failed):
            if len(stack.trainings) > 1:
                # One may be at fault, or all too large together: each is tried on its own.
                self._queue[:0] = [stack.only([training]) for training in stack.trainings]
                return
            failure = Failure(f"{stack.describe()}: {event.why}", event.trace)
        if failure is not None:
            self._fail(stack, failure)

    def _keep(self, stack: Stack, trained: Sequence[Packed]) -> Failure | None:
        """Store what a worker has trained; return why not, where it is not what was asked for."""
        if [packed.record["key"] for packed in trained] != [t.key for t in stack.trainings]:
            return Failure(
                f"{stack.describe()}: the worker has another version of lawscope than this process "
                f"({__version__}); install the same on every machine and give the command again"
            )
        for packed in trained:
            self.store.write(packed)
            self._stored.add(packed.record["key"])
        return None

    def _fail(self, stack: Stack, failure: Failure) -> None:
        self._failed.update((training.key, failure) for training in stack.trainings)

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


def _release(locks: Iterable[FileLock]) -> None:
    for lock in locks:
        lock.release()


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
    total = sum(costs[shape] * len(group) for shape, group in groups.items())
    stacks = [
        Stack(part, costs[shape] * len(part))
        for shape, group in groups.items()
        for part in _cut(group, costs[shape], total / jobs)
    ]
    return sorted(stacks, key=lambda stack: -stack.seconds)


def _seconds(training: Training, cost: Callable[[Training], float]) -> float:
    try:
        return max(cost(training), 1e-6)
    except Exception:  # one network that cannot be built must not stop the others
        return UNKNOWN_SECONDS


def _cut(group: list[Training], cost: float, share: float) -> list[tuple[Training, ...]]:
    """Nearly equal parts, none above the limits."""
    fair = max(1, math.ceil(round(share / cost, 6)))  # not one more for a rounding error
    safe = max(1, math.floor(MOST_SECONDS / cost))
    parts = math.ceil(len(group) / min(fair, safe, MOST_NETWORKS))
    return [tuple(group[part::parts]) for part in range(parts)]
