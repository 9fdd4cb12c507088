"""What a measurement of symmetry says: dead units, copies and ranks of every hidden layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lawscope.arrays import FloatArray, IntArray
from lawscope.formatting import count, many
from lawscope.laws.base import LawResult
from lawscope.laws.symmetry.metrics import Ranks
from lawscope.laws.symmetry.mirror import Mirror
from lawscope.lazy import pd
from lawscope.section import Section


@dataclass(frozen=True, eq=False, repr=False)
class LayerUnits:
    """The units of one hidden layer.

    Attributes:
        name: of the layer and what it ends in.
        station: where its outputs were read.
        rows: samples, or positions of all samples, that it was measured on.
        units: how many it has.
        measured: of these, whose correlations and ranks were measured.
        dead: units whose output never changes, sorted.
        silent: how many of these are always zero.
        groups: active units whose outputs correlate by more than the threshold, up to sign; each
            group in one array, sorted.
        groups_before: the same of what enters the activation; empty without one.
        weights: ranks of the weight matrix; NaN where it is not the weight of a module.
        activations: ranks of the centred outputs.
        mirror: the loss across the exchange of its two most alike units; None without a loss, or
            where several layers read what it gives.
    """

    name: str
    station: str
    rows: int
    units: int
    measured: int
    dead: IntArray
    silent: int
    groups: tuple[IntArray, ...]
    groups_before: tuple[IntArray, ...]
    weights: Ranks
    activations: Ranks
    mirror: Mirror | None = None

    @property
    def copies(self) -> int:
        """Units that could be left out since another does the same."""
        return sum(len(group) - 1 for group in self.groups)

    @property
    def copies_before(self) -> int:
        """The same of what enters the activation."""
        return sum(len(group) - 1 for group in self.groups_before)

    @property
    def lost(self) -> int:
        """Units that are dead or copies."""
        return len(self.dead) + self.copies

    def __repr__(self) -> str:
        return f"<LayerUnits {self.name}: {self.lost} of {self.units} dead or copies>"


@dataclass(frozen=True, eq=False, repr=False)
class BlockPicture:
    """Correlations between the active units of a layer, those of one group side by side."""

    layer: str
    units: IntArray  # shape (m,)
    after: FloatArray  # the activation, shape (m, m)
    before: FloatArray | None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Symmetry(LawResult):
    """Hidden units that are dead or the same, and the ranks of weights and activations.

    Attributes:
        layers: every hidden layer, in the order the data meets them.
        picture: block-ordered correlations of the layer with the most copies; None where there
            are none.
        unmirrored: why the loss across mirrors was not measured, where one was given.
    """

    schema: ClassVar[str] = "lawscope.symmetry/1"
    layers: tuple[LayerUnits, ...]
    picture: BlockPicture | None
    unmirrored: str = ""
    control: Symmetry | None = None

    @property
    def units(self) -> int:
        """All hidden units."""
        return sum(layer.units for layer in self.layers)

    @property
    def dead(self) -> int:
        """Units whose output never changes."""
        return sum(len(layer.dead) for layer in self.layers)

    @property
    def copies(self) -> int:
        """Living units that do the same as another, by correlation above the threshold."""
        return sum(layer.copies for layer in self.layers)

    @property
    def lost(self) -> int:
        """Units that are dead or copies."""
        return self.dead + self.copies

    def table(self) -> pd.DataFrame:
        """Return one row per layer; with a loss, c₀, c₁ and oddness of its mirror too."""
        mirrored = any(layer.mirror is not None for layer in self.layers)
        rows = [
            {
                "layer": layer.name,
                "units": layer.units,
                "dead": len(layer.dead),
                "copies": layer.copies,
                "copies before activation": layer.copies_before,
                **{f"{kind} rank of weights": v for kind, v in layer.weights._asdict().items()},
                **{
                    f"{kind} rank of activations": v
                    for kind, v in layer.activations._asdict().items()
                },
                **(_describe_mirror(layer.mirror) if mirrored else {}),
            }
            for layer in self.layers
        ]
        return pd.DataFrame(rows)

    def section(self) -> Section:
        from lawscope.laws.symmetry.section import section_of

        return section_of(self)

    def __str__(self) -> str:
        return (
            f"symmetry in {many(len(self.layers), 'hidden layer')}: of {many(self.units, 'unit')} "
            f"{count(self.dead)} dead, {count(self.copies)} "
            f"cop{'y' if self.copies == 1 else 'ies'} of another"
        )


def _describe_mirror(mirror: Mirror | None) -> dict[str, float]:
    names = ("c0", "c1", "oddness")
    return {name: float("nan") if mirror is None else getattr(mirror, name) for name in names}
