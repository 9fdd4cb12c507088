"""Features kept as they are, in blocks large enough for quick products."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from lawscope.statistics.feature_block import BLOCK_BYTES, FeatureBlock

FIRST_BATCHES = 8  # that the first block has room for when nobody knows how many will come


class HeldFeatures:
    """Batches of features with their groups, copied into blocks as they come in.

    Small batches share a block because a statistic over a block costs little more than one over a
    batch: a call on a few rows spends its time on being called. Room for many batches is asked for
    at once, so that nothing has to be copied a second time to join them.

    Args:
        expected: how many samples will come, where that is known.
    """

    def __init__(self, expected: int | None = None) -> None:
        self.expected = expected
        self.bytes = 0
        self.samples = 0
        self._blocks: list[FeatureBlock] = []

    def add(self, features: Tensor, rows: Tensor) -> None:
        """Keep ``rows`` (B,) and a copy of ``features`` (B, d): the network may overwrite them."""
        if not self._blocks or not self._blocks[-1].takes(features):
            self._blocks.append(self._room_for(features))
        self._blocks[-1].add(features, rows)
        self.samples += len(features)
        self.bytes += features.numel() * features.element_size()

    def blocks(self, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Everything held from sample ``start`` on, as few (features, rows)."""
        before = 0
        for block in self._blocks:
            if start < before + block.filled:
                held = slice(max(0, start - before), block.filled)
                yield block.features[held], block.rows[held]
            before += block.filled

    def _room_for(self, features: Tensor) -> FeatureBlock:
        """A block for this batch and those to come: the expected ones, or as many as are held."""
        batch, dim = features.shape
        coming = (self.expected or 0) - self.samples
        if coming <= 0:
            coming = max(self.samples, FIRST_BATCHES * batch)
        most = BLOCK_BYTES // (dim * features.element_size())
        capacity = max(batch, min(most, coming))
        return FeatureBlock.like(features, capacity)
