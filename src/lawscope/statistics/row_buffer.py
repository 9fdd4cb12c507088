"""Rows of small batches, gathered until there are enough of them for one call."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

SLICE_NUMBERS = 2**17
SLICE_ROWS = 64

Rows = tuple[Tensor, ...]


class RowBuffer:
    """Joins small batches: a product of few rows spends its time on being called."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._parts: list[Rows] = []
        self._numbers = 0

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self._parts)

    def append(self, *columns: Tensor) -> list[Rows]:
        """Add rows, copied because a network may overwrite them; return all joined once full.

        A batch as large as the buffer comes back as it is where nothing came before it.
        """
        if columns[0].numel() >= self.capacity and not self._parts:
            return [columns]
        self._parts.append(tuple(column.clone() for column in columns))
        self._numbers += columns[0].numel()
        return self.flush() if self._numbers >= self.capacity else []

    def flush(self) -> list[Rows]:
        """Empty the buffer and return its rows, joined."""
        rows = self.rows()
        self._parts, self._numbers = [], 0
        return [] if rows is None else [rows]

    def rows(self) -> Rows | None:
        """Return the rows in the buffer, joined, and leave them there; None without any."""
        if not self._parts:
            return None
        if len(self._parts) > 1:
            self._parts = [tuple(torch.cat(column) for column in zip(*self._parts, strict=True))]
        return self._parts[0]


def split_rows(features: Tensor, *columns: Tensor) -> Iterator[Rows]:
    """Yield a batch in slices that are cheap to copy to float64: 1 MB, or 64 wide rows."""
    step = max(SLICE_ROWS, SLICE_NUMBERS // max(1, features.shape[1]))
    yield from zip(*(column.split(step) for column in (features, *columns)), strict=True)
