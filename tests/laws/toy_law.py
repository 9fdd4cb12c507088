"""A law of our own in one file: reads weights and rows per token, and needs a loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import lawscope as ls
from lawscope.section import KeyNumber, Lines, Section, Table

SEEN = ("output", "output gradient")


@dataclass(frozen=True)
class SizeSettings(ls.Settings):
    largest: int = ls.option(10, "size of a row from which the law fails.", least=1)


@dataclass(frozen=True, eq=False, repr=False)
class Sizes(ls.LawResult):
    schema: ClassVar[str] = "toy.sizes/1"
    stations: tuple[str, ...]
    sizes: NDArray[np.float64]  # of rows and of gradients, shape (2, L)
    weights: float
    seen: int

    def section(self) -> Section:
        x = np.arange(len(self.stations), dtype=float)
        rows = [[s, f"{v:.3g}"] for s, v in zip(self.stations, self.sizes[0], strict=True)]
        return Section(
            title="Toy law of sizes",
            verdict=f"toy verdict: {self.verdict}",
            headline=self.reason,
            numbers=[KeyNumber("‖W‖", f"{self.weights:.3g}", "norm of all weights")],
            charts=[Lines("Sizes", SEEN, self.sizes, x, "layer", "size", self.stations)],
            tables=[Table("Sizes by layer", ["layer", "size"], rows)],
            advice=self.advice,
        )

    def __str__(self) -> str:
        return f"toy law of sizes: {self.verdict} over {self.seen} rows"


class SizeObserver(ls.LawObserver[Sizes]):
    def __init__(self, session, settings):
        self.session, self.settings, self.done, self.seen = session, settings, False, 0
        self.stations = session.stations.granularity("layers")
        self.sums = {ls.Tap(s, what, "positions"): 0.0 for what in SEEN for s in self.stations}

    def taps(self):
        return [] if self.done else list(self.sums)

    def see(self, tap, rows):
        self.sums[tap] += float(rows.double().norm(dim=1).sum())
        self.seen += len(rows) if tap == next(iter(self.sums)) else 0

    def end_pass(self):
        self.done = True

    def result(self, control=None):
        sizes = np.array(list(self.sums.values())).reshape(2, -1)
        squares = [float(p.square().sum()) for p in self.session.model.parameters()]
        small = sizes[0].max() / self.seen < self.settings.largest
        return Sizes(
            stations=tuple(s.name for s in self.stations),
            sizes=sizes,
            weights=sum(squares) ** 0.5,
            seen=self.seen,
            verdict="holds" if small else "does not hold",
            reason="the toy law looked at sizes",
            advice=("Toy advice: do nothing.",),
        )


NEEDS = frozenset({"loss", "weights"})
SIZES = ls.Law("sizes", "Toy law of sizes", (), NEEDS, SizeSettings, SizeObserver, Sizes)
