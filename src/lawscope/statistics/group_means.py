"""Streaming counts and means per group, in float64 about a shift."""

from __future__ import annotations

import torch
from torch import Tensor


class GroupMeans:
    """Counts n_g and sums Σ (x − shift) of every group.

    The shift is the mean of the first batch. Without it a mean of 1e7 would eat seven of the
    sixteen digits of a sum; with it the digits go to the differences that matter.

    Args:
        groups: number of rows to begin with; it grows when rows beyond it appear.
    """

    def __init__(self, groups: int = 0) -> None:
        self.counts = torch.zeros(groups, dtype=torch.int64)
        self.shift: Tensor | None = None
        self._sums: Tensor | None = None

    @property
    def dim(self) -> int:
        """Number of features, 0 before the first update."""
        return 0 if self.shift is None else len(self.shift)

    @property
    def finite(self) -> bool:
        """Whether every feature was finite: a sum keeps NaN and infinity for good."""
        return self._sums is None or bool(self._sums.isfinite().all())

    def update(self, features: Tensor, rows: Tensor, groups: int) -> None:
        """Add a batch.

        Args:
            features: shape (B, d), any real floating dtype and device.
            rows: group of each sample, shape (B,), on the CPU.
            groups: number of groups known by now, above every row.
        """
        if self.shift is None:
            self.shift = features.mean(dim=0, dtype=torch.float64)
        sums = self._room(groups, features.device)
        sums.index_add_(0, rows.to(features.device), features - self.shift)
        self.counts += torch.bincount(rows, minlength=len(self.counts))

    def means(self) -> Tensor:
        """Group means minus ``shift``, shape (G, d); zero where a group is empty."""
        assert self._sums is not None
        return self._sums / self.counts.clamp(min=1).to(self._sums)[:, None]

    def merge(self, other: GroupMeans, to_rows: Tensor, groups: int) -> None:
        """Add what ``other`` has seen; its row i is our row ``to_rows[i]``."""
        if other.shift is None or other._sums is None:
            return
        if self.shift is None:
            self.shift = other.shift.clone()
        sums = self._room(groups, other._sums.device)
        moved = other.counts.to(other._sums)[:, None] * (other.shift - self.shift.to(other.shift))
        sums.index_add_(0, to_rows.to(sums.device), (other._sums + moved).to(sums))
        self.counts.index_add_(0, to_rows, other.counts)

    def state(self) -> dict[str, Tensor]:
        """The tensors that make up the state."""
        if self.shift is None or self._sums is None:
            return {"counts": self.counts}
        return {"counts": self.counts, "shift": self.shift, "sums": self._sums}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take over a state given by :meth:`state`."""
        self.counts = state["counts"].clone()
        self.shift = state["shift"].clone() if "shift" in state else None
        self._sums = state["sums"].clone() if "sums" in state else None

    def _room(self, groups: int, device: torch.device) -> Tensor:
        """Sums with at least ``groups`` rows."""
        assert self.shift is not None
        if self._sums is None:
            self._sums = torch.zeros(groups, self.dim, dtype=torch.float64, device=device)
        missing = groups - len(self._sums)
        if missing > 0:
            self._sums = torch.cat([self._sums, self._sums.new_zeros(missing, self.dim)])
        if groups > len(self.counts):
            more = torch.zeros(groups - len(self.counts), dtype=torch.int64)
            self.counts = torch.cat([self.counts, more])
        return self._sums
