"""Streaming counts and means per group, in float64 about a shift."""

from __future__ import annotations

import torch
from torch import Tensor

from lawscope.statistics.group_index import counted
from lawscope.statistics.widen import WIDTH, Widener, column_blocks

FEW = 64  # samples whose mean is a point near all of them


class GroupMeans:
    """Counts n_g and sums Σ (x − shift) of every group.

    The shift is the mean of the first few samples. Without it a mean of 1e7 would eat seven of the
    sixteen digits of a sum; with it the digits go to the differences that matter. Sums are kept
    in column blocks of their own memory, where adding rows is several times faster than in a view.
    """

    def __init__(self) -> None:
        self.counts = torch.zeros(0, dtype=torch.int64, device="cpu")
        self.shift: Tensor | None = None
        self._sums: list[Tensor] = []
        self._widener = Widener()

    @property
    def finite(self) -> bool:
        """Whether every feature was finite: a sum keeps NaN and infinity for good."""
        return all(bool(block.isfinite().all()) for block in self._sums)

    def update(self, features: Tensor, rows: Tensor, groups: int) -> None:
        """Add a batch.

        Args:
            features: shape (B, d), any real floating dtype and device.
            rows: group of each sample, shape (B,), on the CPU.
            groups: number of groups known by now, above every row.
        """
        if self.shift is None:
            self.shift = features[:FEW].mean(dim=0, dtype=torch.float64)
        self._grow(groups, self.shift)
        rows_here = rows.to(features.device)
        for some, columns, block in self._widener.blocks(features, self.shift):
            self._sums[columns.start // WIDTH].index_add_(0, rows_here[some], block)
        self.counts += counted(rows, len(self.counts))

    def means(self) -> Tensor:
        """Group means minus ``shift``, shape (G, d); zero where a group is empty."""
        sums = torch.cat(self._sums, dim=1)
        return sums.div_(self.counts.clamp(min=1).to(sums)[:, None])

    def merge(self, other: GroupMeans, to_rows: Tensor, groups: int) -> None:
        """Add what ``other`` has seen; its row i is our row ``to_rows[i]``."""
        if other.shift is None:
            return
        if self.shift is None:
            self.shift = other.shift.clone()
        self._grow(groups, other.shift)
        moved = other.shift - self.shift.to(other.shift)
        counts = other.counts.to(moved)[:, None]
        columns = column_blocks(len(moved))
        for sums, theirs, block in zip(self._sums, other._sums, columns, strict=True):
            sums.index_add_(0, to_rows.to(sums.device), (theirs + counts * moved[block]).to(sums))
        self.counts.index_add_(0, to_rows, other.counts)

    def state(self) -> dict[str, Tensor]:
        """The tensors that make up the state."""
        if self.shift is None:
            return {"counts": self.counts}
        sums = torch.cat(self._sums, dim=1)
        return {"counts": self.counts, "shift": self.shift, "sums": sums}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take over a state given by :meth:`state`."""
        self.counts = state["counts"].clone()
        self.shift, self._sums = None, []
        if "shift" in state:
            self.shift = state["shift"].clone()
            self._sums = [state["sums"][:, c].clone() for c in column_blocks(len(self.shift))]

    def _grow(self, groups: int, shift: Tensor) -> None:
        """Make room for ``groups`` rows."""
        if not self._sums:
            self._sums = [shift.new_zeros(0, c.stop - c.start) for c in column_blocks(len(shift))]
        missing = groups - len(self.counts)
        if missing > 0:
            self.counts = torch.cat(
                [self.counts, torch.zeros(missing, dtype=torch.int64, device="cpu")]
            )
            self._sums = [torch.cat([s, s.new_zeros(missing, s.shape[1])]) for s in self._sums]
