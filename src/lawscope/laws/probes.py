"""Which samples are probed: a few of a few classes, the same in every order and process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

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
        rows: dict[tuple[int, int], dict[int, int]] = {}  # by class, then by hash
        for row, (number, code) in enumerate(
            zip(numbers, hash_samples(batch).tolist(), strict=True)
        ):
            if keys[number] in wanted:
                rows.setdefault(keys[number], {}).setdefault(code, row)
        for key, seen in rows.items():
            held = self._held.get(key, {})
            self._held[key] = {
                code: held[code] if code in held else cut(batch, seen[code])
                for code in self._least({*held, *seen})
            }

    def merge(self, other: Probes) -> None:
        """Add what another process has kept."""
        self.counts += other.counts
        wanted = sorted({*self._held, *other._held})[: self.classes]
        both = {key: {**self._held.get(key, {}), **other._held.get(key, {})} for key in wanted}
        self._held = {
            key: {code: held[code] for code in self._least(held)} for key, held in both.items()
        }

    def found(self) -> dict[int, Sequence[Batch]]:
        """Return the probes of each class, classes and samples in a fixed order."""
        by_number = {number: held for (_, number), held in self._held.items()}
        return {n: [by_number[n][code] for code in sorted(by_number[n])] for n in sorted(by_number)}

    def _least(self, codes: Iterable[int]) -> list[int]:
        return sorted(codes)[: self.samples]
