"""What was found: symmetries with their parameters, and what was looked for in vain."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lawscope.formatting import join_words, many, number
from lawscope.laws.conservation.symmetry import KINDS, Kind, Symmetry
from lawscope.result import Result
from lawscope.section import Bars, Section, Table

if TYPE_CHECKING:
    import pandas as pd

EXPLAINED = {
    "rescaling": "Rescaling: a unit's incoming weights times c, its outgoing ones over c.",
    "double rotation": "Double rotation: any invertible matrix between two linear maps.",
    "scale invariance": "Scale invariance: weights in front of a norm, times c.",
    "translation": "Translation: the same is added to weights, and taken from others or from none.",
    "sign flip": "Sign flip: a unit's incoming and outgoing weights, times −1.",
    "permutation": "Permutation: units change places; it is discrete, and has no charge.",
}


@dataclass(frozen=True)
class Missing:
    """A symmetry that was looked for and not found.

    Attributes:
        kind: which.
        where: at which layers.
        why: what stands against it.
    """

    kind: Kind
    where: str
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class Symmetries(Result):
    """Symmetries of a network, each verified in float64.

    Attributes:
        found: the symmetries, in the order the data meets them.
        missing: what was looked for and not found, with the reason.
        mode: in which the network was run, "eval" or "train".
        layers: how many layers of the network write units.
    """

    schema: ClassVar[str] = "lawscope.symmetries/1"
    found: tuple[Symmetry, ...]
    missing: tuple[Missing, ...]
    mode: str
    layers: int

    def __len__(self) -> int:
        return len(self.found)

    def of(self, kind: Kind) -> tuple[Symmetry, ...]:
        """Return the symmetries of one kind."""
        return tuple(one for one in self.found if one.kind == kind)

    @property
    def continuous(self) -> tuple[Symmetry, ...]:
        """The symmetries that have a charge."""
        return tuple(one for one in self.found if one.continuous)

    @property
    def rescalings(self) -> tuple[Symmetry, ...]:
        """Trained rescalings that scale both sides alike: not those behind powers."""
        return tuple(
            one
            for one in self.of("rescaling")
            if one.trainable and all(abs(leg.sign) == 1 for leg in one.legs)
        )

    def table(self) -> pd.DataFrame:
        """Return one row per symmetry."""
        import pandas as pd

        return pd.DataFrame(
            {
                "kind": [one.kind for one in self.found],
                "where": [one.where for one in self.found],
                "units": [one.units for one in self.found],
                "charges": [one.charges for one in self.found],
                "parameters": [", ".join(one.parameters) for one in self.found],
                "residual": [one.residual for one in self.found],
                "condition": [one.condition for one in self.found],
                "trainable": [one.trainable for one in self.found],
            }
        )

    def section(self) -> Section:
        counts = Counter(one.kind for one in self.found)
        kinds = [kind for kind in KINDS if counts[kind]]
        bars = Bars(
            "Symmetries by kind",
            kinds,
            np.array([counts[kind] for kind in kinds], dtype=np.float64),
            notes=[str(counts[kind]) for kind in kinds],
        )
        rows = [
            [one.kind, one.where, one.condition, str(one.units), number(one.residual)]
            for one in self.found
        ]
        columns = ["kind", "where", "condition", "units", "residual"]
        tables = [Table("Symmetries", columns, rows, words=3, main=True)] if rows else []
        absent = [[one.kind, one.where, one.why] for one in self.missing]
        if absent:
            columns = ["kind", "where", "why"]
            tables.append(Table("Not found", columns, absent, words=3, main=not rows))
        frozen = [one.where for one in self.found if one.continuous and not one.trainable]
        findings = [
            f"The charge of {where} is not conserved: a part is frozen." for where in frozen
        ]
        return Section(
            title="Symmetries",
            headline=str(self),
            facts=[many(self.layers, "layer"), f"{self.mode} mode"],
            charts=[bars] if kinds else [],
            tables=tables,
            findings=findings,
            about=[EXPLAINED[kind] for kind in kinds],
        )

    def __str__(self) -> str:
        if not self.found:
            sought = join_words([f"{kind}s".replace("invariances", "invariance") for kind in KINDS])
            return f"no symmetry found (looked for {sought})"
        counts = Counter(one.kind for one in self.found)
        parts = [many(counts[kind], kind) for kind in KINDS if counts[kind]]
        return f"{many(len(self.found), 'symmetry')}: {join_words(parts)}"
