"""Who trains what, and when a study can be measured.

The runner is one loop in one process. It claims the trainings that are missing, hands stacks of
them to the crew, writes what comes back into the store, and has a study measured as soon as its
last training is there. Workers hold nothing: one that dies loses only what it was doing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from lawscope import __version__
from lawscope.studies.crew import Crew, Done, Event, Job, Lost, Raised, Retried, Told
from lawscope.studies.display import Display
from lawscope.studies.entry import DamagedEntryError, Packed
from lawscope.studies.jobs import Measure, Measured, Train
from lawscope.studies.plan import Training, each_once
from lawscope.studies.stacks import Stack, stacks_of
from lawscope.studies.store import Claim, Store
from lawscope.studies.undertaking import Failure, Undertaking

POLL_SECONDS = 0.5


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
        self._mended: set[str] = set()  # starts that were damaged once in this run
        self._failed: dict[str, Failure] = {}
        self._wanted: dict[str, Training] = {}  # with all epochs that any study asks for

    def run(self, undertakings: Iterable[Undertaking]) -> None:
        """Train what is missing and measure everything."""
        self._open = list(undertakings)
        self._wanted = each_once(t for study in self._open for t in study.needed.values())
        self._plan(self._wanted)
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

    def _train_again(self, keys: Iterable[str]) -> None:
        """Plan anew those whose entries are not sound any more."""
        again = {key: self._wanted[key] for key in keys}
        self._stored -= again.keys()
        self._plan(again)

    def _lost(self, needed: Mapping[str, Training]) -> list[Failure]:
        """Why some of these cannot be had.

        A training that failed is no loss where an older entry has the epochs that are needed here.
        """
        failed = [(self._failed[key], t) for key, t in needed.items() if key in self._failed]
        return [why for why, training in failed if not self._store.sound(training)]

    def _settled(self, needed: Mapping[str, Training]) -> bool:
        """Whether none of these is still to be trained."""
        return needed.keys() <= self._stored | self._failed.keys()

    def _begin_measuring(self) -> None:
        for study in list(self._open):
            if failures := self._lost(study.needed):
                self._open.remove(study)
                self._finish(study, failures[0])
            elif self._measurers.free and self._settled(study.needed):
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
        if lost := self._lost(stack.starts):
            self._waiting.remove(stack)
            self._fail(stack, lost[0])
            return False
        return self._settled(stack.starts)

    def _begin(self, stack: Stack) -> None:
        """Claim what another process has not claimed or finished meanwhile, and train that."""
        claims: list[Claim] = []
        try:
            if ours := self._claim(stack, claims):
                stack = stack.only(ours)
                starts = tuple((t, self._store.read(t)) for t in stack.starts.values())
                job = Train(stack.trainings, starts)
                ticket = self._submit(self._trainers, job, stack.describe(), stack.epochs)
                self._training[ticket] = (stack, claims)
        except DamagedEntryError as error:
            _release(claims)
            self._mend_starts(stack, error)
        except BaseException:
            _release(claims)
            raise

    def _claim(self, stack: Stack, claims: list[Claim]) -> list[Training]:
        """The trainings of a stack that are ours to do; their claims are added to ``claims``."""
        ours, theirs = [], []
        for training in stack.trainings:
            claim = self._store.claim(training.key)
            if claim is None:
                theirs.append(training)
                continue
            claims.append(claim)
            if self._store.sound(training):
                claims.pop().release()
                self._stored.add(training.key)
                self._display.expect(-training.recipe.epochs)
            else:
                # What an entry of other epochs keeps, some study needs: the new one keeps it too.
                ours.append(training.keeping(self._store.kept(training)))
                self._store.discard_damaged(training)
        if theirs:
            self._elsewhere.append(stack.only(theirs))
        return ours

    def _mend_starts(self, stack: Stack, error: DamagedEntryError) -> None:
        """What a stack begins from was damaged after it was planned: train that again, once."""
        starts = {key: t for key, t in stack.starts.items() if key not in self._mended}
        if not starts:
            self._fail(stack, Failure(str(error)))
            return
        self._mended |= starts.keys()
        self._waiting.append(stack)
        self._train_again(starts.keys())

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
        stack, claims = self._training[event.ticket]
        try:
            failure = self._keep(stack, event.value) if isinstance(event, Done) else None
        finally:
            _release(claims)
            del self._training[event.ticket]
        self._display.end(event.ticket, stack.epochs if isinstance(event, Done) else 0)
        if isinstance(event, Raised | Lost):
            if len(stack.trainings) > 1:
                # One may be at fault, or all too large together: each is tried on its own.
                self._waiting[:0] = [stack.only([training]) for training in stack.trainings]
                return
            trace = event.trace if isinstance(event, Raised) else ""
            failure = Failure(f"{stack.describe()}: {event.why}", trace)
        if failure is not None:
            self._fail(stack, failure)

    def _keep(self, stack: Stack, trained: Sequence[Packed]) -> Failure | None:
        """Store what a worker has trained; why not, where it is not what was asked for."""
        if [packed.record["key"] for packed in trained] != [t.key for t in stack.trainings]:
            return Failure(
                f"{stack.describe()}: the worker has another version of lawscope than this process "
                f"({__version__}); install the same on every machine and give the command again"
            )
        for packed in trained:
            self._store.write(packed)
            self._stored.add(packed.record["key"])
        return None

    def _fail(self, stack: Stack, failure: Failure) -> None:
        self._failed.update((training.key, failure) for training in stack.trainings)

    def _measured(self, event: Done | Raised | Lost) -> None:
        study = self._measuring.pop(event.ticket)
        self._display.end(event.ticket)
        if isinstance(event, Done):
            self._finish(study, event.value)
            return
        damaged = [key for key, t in study.needed.items() if not self._store.sound(t)]
        # What was damaged then may be whole by now: another process has trained it again.
        seen = isinstance(event, Raised) and event.kind == DamagedEntryError.__name__
        if (damaged or seen) and not study.repaired:
            study.repaired = True
            self._train_again(damaged)
            self._open.append(study)
            return
        self._finish(study, Failure(event.why, event.trace if isinstance(event, Raised) else ""))


def _release(claims: Iterable[Claim]) -> None:
    for claim in claims:
        claim.release()
