"""What a measurement of conservation says: charges, and the distance from noise equilibrium."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lawscope.formatting import fixed, many
from lawscope.laws.base import LawResult
from lawscope.laws.conservation.distance import Distance
from lawscope.laws.conservation.found import Missing
from lawscope.laws.conservation.symmetry import Kind
from lawscope.section import Section

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Conserved:
    """The charge of one continuous symmetry.

    Attributes:
        kind: of the symmetry.
        where: between which layers.
        numbers: how many numbers the charge is; :func:`lawscope.charges` has them all.
        rms: their root mean square.
        largest: of their absolute values.
        size: |θ|² of the parameters in it, to compare with.
        condition: of the symmetry.
        conserved: whether gradient flow conserves it: all parameters take gradients.
        distance: of its units from noise equilibrium; None of other kinds than rescalings, and
            where it was not measured.
    """

    kind: Kind
    where: str
    numbers: int
    rms: float
    largest: float
    size: float
    condition: str
    conserved: bool
    distance: Distance | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Conservation(LawResult):
    """The charges of a network, and how far its scales are from where gradient noise drives them.

    Attributes:
        charges: one for every continuous symmetry, in the order the data meets the layers.
        missing: what was looked for and not found, with the reason.
        distance: of the units of all rescalings from noise equilibrium; None where it was not
            measured.
        unmeasured: why not.
        samples: whose gradients were measured.
    """

    schema: ClassVar[str] = "lawscope.conservation/1"
    charges: tuple[Conserved, ...]
    missing: tuple[Missing, ...]
    distance: Distance | None
    unmeasured: str
    samples: int
    control: Conservation | None = None

    @property
    def numbers(self) -> int:
        """How many numbers gradient flow conserves; some may depend on others."""
        return sum(one.numbers for one in self.charges if one.conserved)

    def table(self) -> pd.DataFrame:
        """Return one row per charge, with the distance of its units from noise equilibrium."""
        import pandas as pd

        rows = []
        for one in self.charges:
            away = one.distance
            low, high = (math.nan, math.nan) if away is None else away.interval
            rows.append(
                {
                    "kind": one.kind,
                    "where": one.where,
                    "numbers": one.numbers,
                    "rms": one.rms,
                    "largest": one.largest,
                    "size": one.size,
                    "conserved": one.conserved,
                    "condition": one.condition,
                    "distance": math.nan if away is None else away.value,
                    "low": low,
                    "high": high,
                    "measured": 0 if away is None else away.measured,
                    "dead": 0 if away is None else away.dead,
                }
            )
        return pd.DataFrame(rows)

    def section(self) -> Section:
        from lawscope.laws.conservation.section import section_of

        return section_of(self)

    def __str__(self) -> str:
        distance, away = self.distance, "not measured"
        if distance is not None and distance.measured:
            away = fixed(distance.value, 2)
        return (
            f"conservation: {many(len(self.charges), 'charge')} with "
            f"{many(self.numbers, 'conserved number')}; distance from noise equilibrium {away}"
        )
