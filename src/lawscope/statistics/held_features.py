"""Features kept as they are, in blocks large enough for quick products."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK_BYTES = 16 * 10**6


class HeldFeatures:
    """Batches of features with their groups, joined into blocks as they come in.

    Small batches are joined because a statistic over a block costs little more than one over a
    batch: a call on a few rows spends its time on being called.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._blocks: list[tuple[Tensor, Tensor]] = []
        self._loose: list[tuple[Tensor, Tensor]] = []
        self._loose_bytes = 0

    def add(self, features: Tensor, rows: Tensor) -> None:
        """Keep ``rows`` (B,) and a copy of ``features`` (B, d): the network may overwrite them."""
        self._loose.append((features.clone(), rows))
        size = features.numel() * features.element_size()
        self.bytes += size
        self._loose_bytes += size
        if self._loose_bytes > BLOCK_BYTES:
            self._join()

    def blocks(self) -> list[tuple[Tensor, Tensor]]:
        """Everything held, as few (features, rows)."""
        self._join()
        return self._blocks

    def _join(self) -> None:
        if self._loose:
            features = torch.cat([f for f, _ in self._loose])
            self._blocks.append((features, torch.cat([r for _, r in self._loose])))
            self._loose, self._loose_bytes = [], 0
