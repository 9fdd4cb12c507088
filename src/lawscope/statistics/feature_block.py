"""Room for the features of several batches, joined as they come in."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK_BYTES = 2**22  # twice that, in float64, still fits the cache


@dataclass
class FeatureBlock:
    """Room for features (capacity, d) and their groups, filled from the front."""

    features: Tensor
    rows: Tensor
    filled: int = 0

    @classmethod
    def like(cls, features: Tensor, capacity: int) -> FeatureBlock:
        """An empty block for ``capacity`` rows such as these."""
        room = features.new_empty(capacity, features.shape[1])
        return cls(room, torch.empty(capacity, dtype=torch.int64, device="cpu"))

    def takes(self, features: Tensor) -> bool:
        """Whether a batch is like the others here and finds room."""
        return (
            self.filled + len(features) <= len(self.features)
            and features.shape[1] == self.features.shape[1]
            and features.dtype == self.features.dtype
            and features.device == self.features.device
        )

    def add(self, features: Tensor, rows: Tensor) -> None:
        """Copy a batch in."""
        end = self.filled + len(features)
        self.features[self.filled : end] = features
        self.rows[self.filled : end] = rows
        self.filled = end
