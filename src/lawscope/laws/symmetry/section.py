"""What a measurement of symmetry shows people."""

from __future__ import annotations

import numpy as np

from lawscope.formatting import count, fixed, many, number, percent
from lawscope.laws.symmetry.result import BlockPicture, Symmetry
from lawscope.laws.symmetry.verdict import RULE, find_facts
from lawscope.section import Bars, Chart, HeatMap, KeyNumber, Section, Table

MIRROR = (
    "Mirrors: on the line between the network and its image with two units exchanged the loss is "
    "c₀s² + c₁s⁴, s being the distance from where they are merged. With c₀ > 0 they would stay "
    "merged, with c₀ < 0 they part. Oddness is 0 of an exact mirror."
)
VERDICTS = {"holds": "all units at work", "does not hold": "units dead or the same"}


def section_of(result: Symmetry) -> Section:
    """Return the section of a result; short where nothing was lost."""
    rows = max(layer.rows for layer in result.layers)
    return result._section(
        VERDICTS,
        title="Symmetry and collapse of units",
        numbers=_numbers(result),
        facts=(
            many(result.units, "hidden unit"),
            many(len(result.layers), "layer"),
            f"up to {many(rows, 'row')} each",
        ),
        charts=_charts(result),
        tables=[_layer_table(result), *_mirror_table(result)],
        findings=find_facts(result),
        rule=RULE,
        papers=("symmetry",),
        about=(
            "Exchanging, flipping or rescaling hidden units leaves the function of a network as it "
            "is. Weight decay and gradient noise pull towards the points that such a symmetry "
            "leaves in place: units die, become copies of each other, and ranks fall.",
            "Effective rank: exp of the entropy of the singular values as shares of their sum. "
            "Stable rank: sum of their squares over the largest. Participation: how many "
            "directions share the variance.",
            *([MIRROR] if any(layer.mirror for layer in result.layers) else []),
        ),
    )


def _numbers(result: Symmetry) -> list[KeyNumber]:
    control = result.control
    numbers = [
        KeyNumber(
            "dead",
            percent(result.dead / result.units),
            "units whose output never changes",
            control="" if control is None else percent(control.dead / control.units),
        ),
        KeyNumber(
            "copies",
            percent(result.copies / result.units),
            "active units that do nearly the same as another",
            control="" if control is None else percent(control.copies / control.units),
        ),
    ]
    return numbers if result.lost or (control is not None and control.lost) else []


def _charts(result: Symmetry) -> list[Chart]:
    ranks = np.array([layer.activations.effective / layer.measured for layer in result.layers])
    bars = Bars(
        title="Effective rank of the activations, as a share of the units",
        labels=[layer.name for layer in result.layers],
        values=ranks,
        notes=[percent(float(share)) for share in ranks],
        details=[many(layer.units, "unit") for layer in result.layers],
    )
    if result.picture is None:
        return [bars]
    return [*_heat_maps(result.picture), bars]


def _heat_maps(picture: BlockPicture) -> list[HeatMap]:
    names = [str(unit) for unit in picture.units]
    maps = {"after": picture.after, "before": picture.before}
    return [
        HeatMap(
            title=f"Correlations of units {when} the activation, '{picture.layer}'",
            rows=names,
            columns=names,
            values=values,
            low=-1.0,
            high=1.0,
            scale_label=f"correlation; {many(len(names), 'active unit')}, copies side by side",
        )
        for when, values in maps.items()
        if values is not None
    ]


def _layer_table(result: Symmetry) -> Table:
    columns = ["layer", "units", "dead", "copies", "before activation"]
    columns += [f"{kind}, {of}" for of in ("weights", "activations") for kind in _KINDS]
    rows = [
        [
            layer.name,
            *(count(n) for n in (layer.units, len(layer.dead), layer.copies, layer.copies_before)),
            *(fixed(rank, 1) for ranks in (layer.weights, layer.activations) for rank in ranks),
        ]
        for layer in result.layers
    ]
    return Table("Hidden layers", columns, rows)


def _mirror_table(result: Symmetry) -> list[Table]:
    found = [(layer.name, layer.mirror) for layer in result.layers if layer.mirror is not None]
    rows = [
        [
            name,
            " and ".join(map(str, mirror.units)),
            *(number(value) for value in (mirror.c0, mirror.c1, mirror.oddness)),
        ]
        for name, mirror in found
    ]
    columns = ["layer", "units exchanged", "c₀", "c₁", "oddness"]
    return [Table("Mirrors: the two most alike units", columns, rows, words=2)] if rows else []


_KINDS = ("effective rank", "stable rank", "participation")
