"""Rows that wait until there are enough of them to be worth a call."""

from __future__ import annotations

from torch import Tensor

from lawscope.statistics.feature_block import BLOCK_BYTES, FeatureBlock

Part = tuple[Tensor, Tensor]  # features (n, d), group of each row (n,)


class WaitingRows:
    """Gathers small batches in one block, which is handed out when it is full and used again.

    Between two batches the network has taken the caches for itself, so that a statistic on a few
    hundred rows waits for its own code and tables longer than it computes. A copy of the rows
    costs less. Batches of half a block and more are handed on as they are.

    Args:
        room: bytes of features that may wait.

    Example:
        >>> import torch
        >>> waiting = WaitingRows(room=24)
        >>> one, group = torch.ones(1, 2), torch.tensor([0])
        >>> [len(waiting.add(one, group)) for _ in range(3)], len(waiting.drain())
        ([0, 0, 1], 0)
    """

    def __init__(self, room: int = BLOCK_BYTES) -> None:
        self.room = room
        self._block: FeatureBlock | None = None

    def add(self, features: Tensor, rows: Tensor) -> list[Part]:
        """Take a batch in, and hand out what is due; it is valid until the next call."""
        batch, dim = features.shape
        capacity = self.room // max(1, dim * features.element_size())
        if 2 * batch > capacity:
            return [*self.drain(), (features, rows)]
        due: list[Part] = []
        if self._block is not None and not self._block.takes(features):
            due, self._block = self.drain(), None  # a block of its own: what is due stays valid
        if self._block is None:
            self._block = FeatureBlock.like(features, capacity)
        self._block.add(features, rows)
        if self._block.filled + batch > capacity:
            due += self.drain()
        return due

    def drain(self) -> list[Part]:
        """Hand out everything that waits; it is valid until the next call."""
        block = self._block
        if block is None or not block.filled:
            return []
        end, block.filled = block.filled, 0
        return [(block.features[:end], block.rows[:end])]
