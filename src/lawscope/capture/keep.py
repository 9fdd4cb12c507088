"""An observer that keeps what it sees, for what no streaming statistic does."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from lawscope.capture.taps import OnePass, Tap


class Keep(OnePass):
    """Keeps what its taps see in one pass."""

    def __init__(self, taps: Sequence[Tap]) -> None:
        self.wanted = taps
        self.kept: dict[Tap, list[Tensor]] = {tap: [] for tap in taps}

    def see(self, tap: Tap, rows: Tensor) -> None:
        self.kept[tap].append(rows.clone())
