"""Class-stratified folds: which class and which fold a sample belongs to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

# Runs double once every fold holds (per class) 8, 32, 128 and 512 samples, so that folds of one
# class never differ by more than a quarter, and a small class is spread as widely as can be.
_FULL = np.array([0, 8, 32, 128, 512])
_RUN = np.array([1, 2, 4, 8, 16])


class GroupIndex:
    """Discovers classes as labels arrive and deals each class's samples out to folds in turn.

    A group is a (class, fold) pair with the number ``class position · folds + fold``, where the
    position is the order in which classes were first met. Groups therefore keep their numbers
    while new classes turn up. The samples of a class are dealt to the folds in turn, so folds are
    stratified by class whatever the order of the data: one by one at first, and in longer runs
    once a class is large, which keeps a batch within few groups. One fold is no folds.
    """

    def __init__(self, folds: int = 1) -> None:
        if folds < 1:
            raise ValueError(f"folds must be at least 1, got {folds}")
        self.folds = folds
        self.classes: list[int] = []
        self.position: dict[int, int] = {}
        self._seen: list[int] = []

    @property
    def groups(self) -> int:
        return len(self.classes) * self.folds

    def assign(self, labels: Tensor) -> Tensor:
        """Return the groups (B,) on the CPU of integer labels (B,); new classes are added."""
        # By NumPy: on a few hundred labels torch would spend its time on being called.
        array = labels.detach().to("cpu", torch.int64).numpy()
        present, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
        if new := [label for label in present.tolist() if label not in self.position]:
            self.adopt([*self.classes, *new])
        at = [self.position[label] for label in present.tolist()]
        positions = np.array(at, dtype=np.int64)
        if self.folds == 1:
            return torch.from_numpy(positions[inverse])
        # Number of a sample within its class: its rank in this batch, by a stable sort, and
        # those that came before.
        order = np.argsort(inverse, kind="stable")
        begin = np.array([self._seen[p] for p in at], dtype=np.int64) - (np.cumsum(counts) - counts)
        number = np.empty_like(array)
        number[order] = np.arange(len(array)) + np.repeat(begin, counts)
        for position, count in zip(at, counts.tolist(), strict=True):
            self._seen[position] += count
        stage = np.searchsorted(_FULL * self.folds, number, side="right") - 1
        fold = (number - _FULL[stage] * self.folds) // _RUN[stage] % self.folds
        return torch.from_numpy(positions[inverse] * self.folds + fold)

    def adopt(self, classes: Sequence[int], dealt: Sequence[int] | None = None) -> None:
        """Take over a class order, and how many samples of each class are dealt already."""
        known = self.classes if dealt is None else classes
        seen = dict(zip(known, self._seen if dealt is None else dealt, strict=True))
        self.classes = list(classes)
        self.position = {label: i for i, label in enumerate(classes)}
        self._seen = [seen.get(label, 0) for label in classes]

    def join(self, other: GroupIndex) -> None:
        """Add the classes that another index has met, and the samples it has dealt."""
        if other is self:
            return
        self.adopt([*self.classes, *(c for c in other.classes if c not in self.position)])
        for label, count in zip(other.classes, other._seen, strict=True):
            self._seen[self.position[label]] += count

    def restart(self) -> None:
        """Deal from the first fold again, for another pass over the same data."""
        self._seen = [0] * len(self.classes)
