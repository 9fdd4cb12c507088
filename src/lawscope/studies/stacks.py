"""From the trainings that are missing to the stacks that workers train."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lawscope.studies.plan import Training, each_once

MOST_NETWORKS = 16
# What a killed process loses at most, by the estimate of ``execute.cost``.
MOST_SECONDS = 300.0
# Of a network that cannot be built here, so that its cost cannot be told.
UNKNOWN_SECONDS = 1.0


@dataclass(frozen=True)
class Stack:
    """Trainings of one shape that a worker trains together.

    Attributes:
        trainings: at least one.
        seconds: what they take on one core, by estimate.
    """

    trainings: tuple[Training, ...]
    seconds: float

    @property
    def starts(self) -> dict[str, Training]:
        """The finished trainings that these begin from, by key."""
        return {t.start.key: t.start for t in self.trainings if t.start is not None}

    @property
    def epochs(self) -> int:
        """Network-epochs: the unit of progress."""
        return sum(training.recipe.epochs for training in self.trainings)

    def describe(self) -> str:
        """A few words for the progress bar."""
        first = self.trainings[0]
        if len(self.trainings) == 1:
            return first.describe()
        options = ", ".join(f"{name} {value}" for name, value in first.network.options)
        return f"{len(self.trainings)} × {first.network.kind} ({options})"

    def only(self, trainings: Iterable[Training]) -> Stack:
        """The same stack with some of its trainings."""
        kept = tuple(trainings)
        return Stack(kept, self.seconds * len(kept) / len(self.trainings))


def with_starts(trainings: Iterable[Training]) -> dict[str, Training]:
    """The trainings and all they begin from, each once, by key; starts come first."""
    return each_once(each for training in trainings for each in _line(training))


def stacks_of(
    trainings: Iterable[Training], jobs: int, cost: Callable[[Training], float]
) -> list[Stack]:
    """Share trainings out so that all workers are busy, longest stack first.

    Trainings of equal shape are stacked, because a stack is faster than one by one. A stack takes
    at most the fair share of one worker, 16 networks and five minutes (a single network may take
    longer).

    Args:
        trainings: what is to be trained.
        jobs: number of workers.
        cost: seconds of one training on one core; where it raises, the worker that trains will
            say why.

    Returns:
        The stacks, those that take longest first.
    """
    groups: dict[tuple[int, str], list[Training]] = {}
    for training in trainings:
        groups.setdefault((_generation(training), training.shape), []).append(training)
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


def _line(training: Training) -> list[Training]:
    """What a training begins from, and what that begins from, the first of them first."""
    before = [] if training.start is None else _line(training.start)
    return [*before, training]


def _generation(training: Training) -> int:
    """0 for fresh weights, 1 for one that begins from such a training, and so on."""
    return len(_line(training)) - 1


def _cut(group: list[Training], cost: float, share: float) -> list[tuple[Training, ...]]:
    """Nearly equal parts, none above the limits."""
    fair = max(1, math.ceil(round(share / cost, 6)))  # not one more for a rounding error
    safe = max(1, math.floor(MOST_SECONDS / cost))
    parts = math.ceil(len(group) / min(fair, safe, MOST_NETWORKS))
    return [tuple(group[part::parts]) for part in range(parts)]
