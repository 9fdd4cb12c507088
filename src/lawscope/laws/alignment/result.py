"""What a measurement of representations says: alignments, exponents and phase of every layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from lawscope.arrays import IntArray
from lawscope.formatting import many
from lawscope.laws.alignment.measure import (
    NO_LAW,
    NO_PHASE,
    CrossMoment,
    Null,
    Numbers,
    Stationary,
)
from lawscope.laws.base import LawResult
from lawscope.laws.learned import has_learned
from lawscope.section import Section
from lawscope.theory.representation import RELATIONS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALIGNED = 0.1  # an excess above it counts as alignment
State = Literal["CRH", "phase", "neither", "cannot be told"]
_NAN = math.nan


class Held(NamedTuple):
    """The directions that a wide layer was measured in, and what they hold.

    Attributes:
        inputs: how many on the input side.
        outputs: and on the output side.
        weight: share of ‖W‖².
        representation: share of Tr H_a.
        gradient: share of Tr G_b.
    """

    inputs: int
    outputs: int
    weight: float
    representation: float
    gradient: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LayerAlignment(Numbers):
    """The law of representations in one layer, h_b = W·h_a.

    Attributes:
        name: of the layer; "attention.q[2]" for the third head of a projection.
        inputs: d_a.
        outputs: d_b.
        rows: samples, tokens or positions that it was measured on.
        measured: which of "H_b" and "G_a" were measured rather than derived from H_a, G_b and W.
        missing: why it has no numbers, or empty.
        held: of a layer too wide to be measured whole, what it was measured in.
        raw: the six alignments by relation, from "backward RGA" to "forward GWA".
        null: mean and standard deviation of each when H_a and G_b are rotated at random.
        excess: (raw − null)/(1 − null).
        interval: 95 % intervals by name: of each excess, of "cross", "p" and "q".
        cross: −E[g_b h_bᵀ] against WWᵀ.
        exponents: (p, q) in the singular basis of W; None where they mean nothing.
        spectra: exponents of the eigenvalues of H_b and G_b; None where there are too few.
        phase: the phase of Table 1 that (p, q) is in, or why it is in none.
        forward: Z_b + c₁G_b = c₂H_b, the form of Theorem 1.
        backward: Z_a + c₁H_a = c₂G_a.
        rank_in: eigenvectors that hold 99 % of Tr H_a.
        rank_out: the same of H_b.
        matrices: W, H, G and E[g_b h_bᵀ], with ``keep=True``; not saved.
    """

    name: str
    inputs: int
    outputs: int
    rows: int
    measured: tuple[str, ...] = ()
    missing: str = ""
    held: Held | None = None

    @property
    def enough(self) -> bool:
        """Whether rows are as many as dimensions; with fewer, chance aligns a great deal."""
        return self.rows >= max(self.inputs, self.outputs)

    def holds(self, relation: str) -> bool | None:
        """Return whether an alignment is certainly above its null, certainly not, or neither."""
        if not self.enough or relation not in self.interval:
            return None
        low, high = self.interval[relation]
        return True if low > ALIGNED else False if high < ALIGNED else None

    @property
    def certain(self) -> tuple[str, ...]:
        """The relations that are certainly above their null."""
        return tuple(name for name in RELATIONS if self.holds(name))

    @property
    def canonical(self) -> bool | None:
        """Whether the canonical representation hypothesis holds: all six, certainly."""
        answers = [self.holds(n) for n in RELATIONS if not math.isnan(self.raw.get(n, _NAN))]
        if any(answer is False for answer in answers):
            return False
        return True if answers and all(answers) else None

    @property
    def state(self) -> State:
        """What holds here: a phase, the hypothesis, neither, or nothing that can be told.

        Powers of one matrix correlate, so that all six alignments may hold in a phase as well.
        """
        if self.phase.name and self.enough:
            return "phase"
        if self.canonical:
            return "CRH"
        return "cannot be told" if self.canonical is None else "neither"

    def __repr__(self) -> str:
        return f"<LayerAlignment {self.name}: {self.missing or describe_state(self)}>"


def describe_state(layer: LayerAlignment) -> str:
    """Return in a few words what holds in a layer."""
    if layer.missing:
        return "not measured"
    name = layer.phase.name
    return (name if "CRH" in name else f"phase {name}") if layer.state == "phase" else layer.state


def without_numbers(reason: str) -> Numbers:
    """Return the numbers of a layer that has none."""
    nowhere = Stationary(_NAN, _NAN, _NAN)
    return Numbers(
        raw=dict.fromkeys(RELATIONS, _NAN),
        null=dict.fromkeys(RELATIONS, Null(_NAN, _NAN)),
        excess=dict.fromkeys(RELATIONS, _NAN),
        interval={},
        cross=CrossMoment(_NAN, Null(_NAN, _NAN), _NAN, _NAN),
        exponents=None,
        spectra=None,
        phase=NO_PHASE._replace(reason=reason),
        forward=nowhere,
        backward=nowhere,
        rank_in=0,
        rank_out=0,
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Alignment(LawResult):
    """Representations H, gradients G and weights Z of every layer, against one another.

    Attributes:
        layers: in the order the data meets them.
        gradient: whose gradients they are: "loss", or "output" for the Jacobian of the output.
        moments: "raw", "centred" or "unit".
        measure: "pearson" or "cosine".
        initial: what was taken from W before it was compared, or empty.
        accuracy: on the data, NaN where the output does not score classes.
        counts: samples of each class, empty without classes.
    """

    schema: ClassVar[str] = "lawscope.alignment/1"
    layers: tuple[LayerAlignment, ...]
    gradient: str
    moments: str
    measure: str
    initial: str
    accuracy: float
    counts: IntArray
    control: Alignment | None = None

    @property
    def learned(self) -> bool | None:
        """Whether the network has learned its data; None where the accuracy is not known."""
        untrained = _NAN if self.control is None else self.control.accuracy
        return has_learned(self.accuracy, self.counts, untrained) if len(self.counts) else None

    def layer(self, name: str) -> LayerAlignment:
        """Return the layer of this name."""
        from lawscope.capture.stations import name_nearest
        from lawscope.errors import LawscopeError

        for layer in self.layers:
            if layer.name == name:
                return layer
        names = [layer.name for layer in self.layers]
        raise LawscopeError(f"No layer '{name}' was measured.{name_nearest(name, names)}")

    def table(self) -> pd.DataFrame:
        """Return one row per layer with every number."""
        import pandas as pd

        return pd.DataFrame([_row(layer) for layer in self.layers])

    def plot_panels(self) -> Figure:
        """Draw raw alignment and null over the layers, a panel for each relation."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
        for place, ax in enumerate(axes.flat):
            self.plot_chart(1 + place, ax)  # after the excess of all
        return figure

    def plot_phases(self, ax: Axes | None = None) -> Axes:
        """Draw (p, q) of every layer among the phases."""
        return self.plot_chart(1 + len(RELATIONS), ax)

    def section(self) -> Section:
        from lawscope.laws.alignment.section import section_of

        return section_of(self)

    def __str__(self) -> str:
        states = [describe_state(layer) for layer in self.layers]
        found = ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states))
        return f"alignment in {many(len(self.layers), 'layer')}: {found}"


def _row(layer: LayerAlignment) -> dict[str, object]:
    row: dict[str, object] = {
        "layer": layer.name,
        "inputs": layer.inputs,
        "outputs": layer.outputs,
        "rows": layer.rows,
        "state": describe_state(layer),
    }
    for relation in RELATIONS:
        null = layer.null[relation]
        row |= {relation: layer.raw[relation], f"{relation} null": null.mean}
        row |= {f"{relation} null sd": null.sd, f"{relation} excess": layer.excess[relation]}
    found, spectra = layer.exponents, layer.spectra
    row |= {
        "p": _NAN if found is None else found.p,
        "p R²": _NAN if found is None else found.r2_p,
        "q": _NAN if found is None else found.q,
        "q R²": _NAN if found is None else found.r2_q,
        "commutator H": _NAN if found is None else found.commutator_h,
        "commutator G": _NAN if found is None else found.commutator_g,
        "phase": layer.phase.name,
        "nearest phase": layer.phase.nearest,
        "distance": layer.phase.distance,
    }
    for kind in ("sorted", "in_g", "in_h"):
        law = NO_LAW if spectra is None else getattr(spectra, kind)
        row |= {f"α {kind}": law.exponent, f"α {kind} R²": law.r2}
    cross = layer.cross
    row |= {
        "−E[g hᵀ] and WWᵀ": cross.alignment,
        "−E[g hᵀ] and WWᵀ null": cross.null.mean,
        "asymmetry": cross.asymmetry,
        "decay": cross.decay,
        "Theorem 1 residual, forward": layer.forward.residual,
        "Theorem 1 residual, backward": layer.backward.residual,
        "99 % rank of H_a": layer.rank_in,
        "99 % rank of H_b": layer.rank_out,
    }
    return row
