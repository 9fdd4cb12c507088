"""Which samples are probed: a few of a few classes, the same in every order and process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from lawscope.capture.functional import cut
from lawscope.data.batches import Batch
from lawscope.data.row_hash import hash_rows, hash_samples


class Probes:
    """The samples with the least hashes of their content, of the classes with the least hashes.

    A sample that comes twice in a class is one probe.

    Args:
        samples: most of a class.
        classes: most classes.

    Attributes:
        counts: samples seen of every class.
    """

    def __init__(self, samples: int, classes: int) -> None:
        self.samples, self.classes, self.counts = samples, classes, Counter[int]()
        self._held: dict[tuple[int, int], dict[int, Batch]] = {}  # by hash and number of the class

    def update(self, batch: Batch, classes: Tensor) -> None:
        """Look at a batch of these classes, and keep what is among the least."""
        numbers = classes.tolist()
        self.counts.update(numbers)
        keys = {n: (int(hash_rows(torch.tensor([[n]]))), n) for n in set(numbers)}
        wanted = set(sorted({*self._held, *keys.values()})[: self.classes])
        self._held = {key: held for key, held in self._held.items() if key in wanted}
        for row, (number, code) in enumerate(
            zip(numbers, hash_samples(batch).tolist(), strict=True)
        ):
            if keys[number] not in wanted:
                continue
            held = self._held.setdefault(keys[number], {})
            if code not in held and (len(held) < self.samples or code < max(held)):
                held[code] = cut(batch, row)
                self._drop(held)

    def merge(self, other: Probes) -> None:
        """Add what another process has kept."""
        self.counts += other.counts
        wanted = sorted({*self._held, *other._held})[: self.classes]
        both = {key: {**self._held.get(key, {}), **other._held.get(key, {})} for key in wanted}
        for held in both.values():
            self._drop(held)
        self._held = both

    def found(self) -> dict[int, Sequence[Batch]]:
        """Return the probes of each class, classes and samples in a fixed order."""
        by_number = {number: held for (_, number), held in self._held.items()}
        return {n: [by_number[n][code] for code in sorted(by_number[n])] for n in sorted(by_number)}

    def _drop(self, held: dict[int, Batch]) -> None:
        for code in sorted(held)[self.samples :]:
            del held[code]
