"""An observer that keeps what it sees, for what no streaming statistic does."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from lawscope.capture.taps import Observer, Tap


class Keep(Observer):
    """Keeps what its taps see in one pass."""

    def __init__(self, taps: Sequence[Tap]) -> None:
        self.kept: dict[Tap, list[Tensor]] = {tap: [] for tap in taps}
        self.done = False

    def taps(self) -> Sequence[Tap]:
        return [] if self.done else list(self.kept)

    def see(self, tap: Tap, rows: Tensor) -> None:
        self.kept[tap].append(rows.clone())

    def end_pass(self) -> None:
        self.done = True
