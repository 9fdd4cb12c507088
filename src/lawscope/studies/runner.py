"""Who trains what, and when a study can be measured.

The runner is one loop in one process. It claims the trainings that are missing, hands stacks of
them to the crew, writes what comes back into the store, and has a study measured as soon as its
last training is there. Workers hold nothing: one that dies loses only what it was doing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lawscope.studies import entry
from lawscope.studies.crew import Crew, Done, Event, Job, Lost, Raised, Retried, Told
from lawscope.studies.display import Display
from lawscope.studies.jobs import Measure, Measured, Train
from lawscope.studies.plan import Training
from lawscope.studies.stacks import Stack, stacks_of
from lawscope.studies.store import Claim, Store

POLL_SECONDS = 0.5


@dataclass(eq=False)
class Undertaking:
    """A study on its way.

    Attributes:
        name: ``family/name``.
        settings: of its preset.
        needed: its trainings and what they begin from, by key.
        repaired: whether a damaged entry was already found while measuring it.
    """

    name: str
    settings: Mapping[str, Any]
    needed: Mapping[str, Training]
    repaired: bool = False


@dataclass(frozen=True)
class Failure:
    """Why a study could not be measured, and where (for ``--debug``)."""

    why: str
    trace: str = ""


class Runner:
    """Carries out undertakings.

    Args:
        store: where finished trainings are and go.
        trainers: the crew that trains.
        measurers: the crew that measures; on this machine the same.
        display: what is shown meanwhile.
        finish: told of each undertaking that is over, with its measurement or why there is none.
        cost: seconds of one training, by estimate.
    """

    def __init__(
        self,
        store: Store,
        trainers: Crew,
        measurers: Crew,
        display: Display,
        finish: Callable[[Undertaking, Measured | Failure], None],
        cost: Callable[[Training], float],
    ) -> None:
        self._store = store
        self._trainers = trainers
        self._measurers = measurers
        self._display = display
        self._finish = finish
        self._cost = cost
        self._tickets = itertools.count(1)
        self._open: list[Undertaking] = []
        self._waiting: list[Stack] = []
        self._elsewhere: list[Stack] = []  # another process is training these
        self._look_again = 0.0
        self._training: dict[int, tuple[Stack, list[Claim]]] = {}
        self._measuring: dict[int, Undertaking] = {}
        self._stored: set[str] = set()
        self._failed: dict[str, Failure] = {}

    def run(self, undertakings: Iterable[Undertaking]) -> None:
        """Train what is missing and measure everything."""
        self._open = list(undertakings)
        self._plan({key: t for study in self._open for key, t in study.needed.items()})
        try:
            while self._open or self._measuring:
                self._begin_measuring()
                self._begin_training()
                for event in self._events():
                    self._heed(event)
        finally:
            for _, claims in self._training.values():
                _release(claims)

    def _plan(self, trainings: Mapping[str, Training]) -> None:
        missing = [t for t in trainings.values() if not self._store.sound(t)]
        self._stored |= trainings.keys() - {t.key for t in missing}
        self._waiting += stacks_of(missing, self._trainers.size, self._cost)
        self._display.expect(sum(t.recipe.epochs for t in missing))

    def _begin_measuring(self) -> None:
        for study in list(self._open):
            failures = [self._failed[key] for key in study.needed if key in self._failed]
            if failures:
                self._open.remove(study)
                self._finish(study, failures[0])
            elif self._measurers.free and study.needed.keys() <= self._stored:
                self._open.remove(study)
                job = Measure(study.name, dict(study.settings), self._store.folder)
                ticket = self._submit(self._measurers, job, f"measuring {study.name}", None)
                self._measuring[ticket] = study

    def _begin_training(self) -> None:
        if self._elsewhere and time.monotonic() >= self._look_again:
            self._waiting += self._elsewhere
            self._elsewhere = []
            self._look_again = time.monotonic() + POLL_SECONDS
        for stack in list(self._waiting):
            if not self._trainers.free:
                break
            if self._ready(stack):
                self._waiting.remove(stack)
                self._begin(stack)
        self._display.waiting(sum(len(stack.trainings) for stack in self._elsewhere))

    def _ready(self, stack: Stack) -> bool:
        """Whether all it begins from is stored; a stack whose start failed fails with it."""
        lost = [self._failed[key] for key in stack.starts if key in self._failed]
        if lost:
            self._waiting.remove(stack)
            self._fail(stack, lost[0])
            return False
        return stack.starts.keys() <= self._stored

    def _begin(self, stack: Stack) -> None:
        """Claim what another process has not claimed or finished meanwhile, and train that."""
        ours, claims, theirs = [], [], []
        for training in stack.trainings:
            claim = self._store.claim(training.key)
            if claim is None:
                theirs.append(training)
            elif self._store.sound(training):
                claim.release()
                self._stored.add(training.key)
                self._display.expect(-training.recipe.epochs)
            else:
                self._store.discard_damaged(training)
                ours.append(training)
                claims.append(claim)
        if theirs:
            self._elsewhere.append(stack.only(theirs))
        if ours:
            stack = stack.only(ours)
            starts = tuple((t, self._store.read(t)) for t in stack.starts.values())
            job = Train(stack.trainings, starts)
            ticket = self._submit(self._trainers, job, stack.describe(), stack.epochs)
            self._training[ticket] = (stack, claims)

    def _submit(self, crew: Crew, job: Job, words: str, total: int | None) -> int:
        ticket = next(self._tickets)
        self._display.begin(ticket, words, total)
        crew.submit(ticket, job)
        return ticket

    def _events(self) -> list[Event]:
        if self._measurers is self._trainers:
            return list(self._trainers.events(POLL_SECONDS))
        half = POLL_SECONDS / 2
        return [*self._trainers.events(half), *self._measurers.events(half)]

    def _heed(self, event: Event) -> None:
        if isinstance(event, Told):
            self._display.advance(event.ticket, event.news)
        elif isinstance(event, Retried):
            self._display.say("A worker was lost; its work is begun again.")
        elif event.ticket in self._training:
            self._trained(event)
        elif event.ticket in self._measuring:
            self._measured(event)

    def _trained(self, event: Done | Raised | Lost) -> None:
        stack, claims = self._training.pop(event.ticket)
        try:
            if isinstance(event, Done):
                for packed in event.value:
                    self._store.write(packed)
                    self._stored.add(packed.record["key"])
        finally:
            _release(claims)
        self._display.end(event.ticket, stack.epochs if isinstance(event, Done) else 0)
        if isinstance(event, Raised) and len(stack.trainings) > 1:
            # One of them may be at fault: the others are trained without it.
            self._waiting[:0] = [stack.only([training]) for training in stack.trainings]
        elif isinstance(event, Raised | Lost):
            trace = event.trace if isinstance(event, Raised) else ""
            self._fail(stack, Failure(f"{stack.describe()}: {event.why}", trace))

    def _fail(self, stack: Stack, failure: Failure) -> None:
        self._failed.update((training.key, failure) for training in stack.trainings)

    def _measured(self, event: Done | Raised | Lost) -> None:
        study = self._measuring.pop(event.ticket)
        self._display.end(event.ticket)
        if isinstance(event, Done):
            self._finish(study, event.value)
            return
        damaged = {k: t for k, t in study.needed.items() if not self._store.sound(t)}
        if damaged and not study.repaired:
            study.repaired = True
            self._stored -= damaged.keys()
            self._plan(damaged)
            self._open.append(study)
            return
        self._finish(study, Failure(event.why, event.trace if isinstance(event, Raised) else ""))


def core_seconds(store: Store, undertaking: Undertaking) -> float:
    """What its trainings took, also those that were found in the store."""
    return sum(float(entry.read_record(store.place(key))["seconds"]) for key in undertaking.needed)


def _release(claims: Iterable[Claim]) -> None:
    for claim in claims:
        claim.release()
