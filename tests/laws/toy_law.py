"""A law of our own in one file: reads weights and rows per token, and needs a loss."""

from dataclasses import dataclass

import numpy as np

import lawscope as ls
from lawscope.arrays import FloatArray
from lawscope.section import KeyNumber, Lines, Table

PAPER, SEEN = "A. Toy. A law of sizes. Toys 1, 2026.", ("output", "output gradient")


@dataclass(frozen=True)
class Options(ls.Settings):
    largest: int = ls.option(10, "size of a row from which the law fails.", least=1)


@dataclass(frozen=True, eq=False, repr=False)
class Sizes(ls.LawResult):
    schema = "toy.sizes/1"
    stations: tuple[str, ...]
    sizes: FloatArray  # of rows and of gradients, shape (2, L)
    weights: float
    seen: int

    def section(self) -> ls.Section:
        x = np.arange(len(self.stations), dtype=float)
        norm = KeyNumber("‖W‖", f"{self.weights:.3g}", "norm of all weights")
        chart = Lines("Sizes", SEEN, self.sizes, x, "layer", "size", self.stations)
        rows = [[s, f"{v:.3g}"] for s, v in zip(self.stations, self.sizes[0], strict=True)]
        shown = {"charts": [chart], "tables": [Table("Sizes by layer", ["layer", "size"], rows)]}
        return self._section(title="Toy law of sizes", numbers=[norm], papers=[PAPER], **shown)

    def __str__(self) -> str:
        return f"toy law of sizes: {self.verdict} over {self.seen} rows"


class Sizer(ls.LawObserver[Sizes]):
    def __init__(self, session, settings):
        self.session, self.settings, self.seen = session, settings, 0
        self.stations = session.stations.granularity("layers")
        self.sums = {ls.Tap(s, what, "positions"): 0.0 for what in SEEN for s in self.stations}

    def taps(self):
        return [] if self.seen else list(self.sums)  # one pass is enough

    def see(self, tap, rows):
        self.sums[tap] += float(rows.double().norm(dim=1).sum())
        self.seen += len(rows) if tap == next(iter(self.sums)) else 0

    def result(self, control=None):
        names, sizes = (s.name for s in self.stations), np.reshape([*self.sums.values()], (2, -1))
        weights = sum(float(p.square().sum()) for p in self.session.model.parameters()) ** 0.5
        verdict = "holds" if sizes[0].max() / self.seen < self.settings.largest else "does not hold"
        said = {"reason": "the toy law looked at sizes", "advice": ("Toy advice: do nothing.",)}
        return Sizes(tuple(names), sizes, weights, self.seen, verdict=verdict, **said)


SIZES = ls.Law("sizes", "Toy law of sizes", (PAPER,), {"loss", "weights"}, Options, Sizer, Sizes)
