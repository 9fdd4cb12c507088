"""What a measurement of alignment shows people."""

from __future__ import annotations

import numpy as np

from lawscope.arrays import FloatArray
from lawscope.formatting import between, count, fixed, many, number, percent
from lawscope.laws.alignment.result import Alignment, LayerAlignment, describe_state
from lawscope.laws.alignment.verdict import RULE, find_facts
from lawscope.section import Chart, KeyNumber, Lines, Plane, Region, Section, Table
from lawscope.theory.representation import PHASES, RELATIONS
from lawscope.theory.representation.phases import MOST_DISTANCE

CORNERS = 36  # of the discs around phases
MOST_ROWS = 60  # of a table
VERDICTS = {"holds": "representations are canonical", "does not hold": "not canonical"}
_PAIRS = ("H_a ∝ G_a", "H_a ∝ Z_a", "G_a ∝ Z_a", "H_b ∝ G_b", "H_b ∝ Z_b", "G_b ∝ Z_b")
FORMULAS = dict(zip(RELATIONS, _PAIRS, strict=True))


def section_of(result: Alignment) -> Section:
    """Return the section of a result."""
    known = [layer for layer in result.layers if not layer.missing]
    rows = max((layer.rows for layer in known), default=0)
    return result._section(
        VERDICTS,
        title="Alignment of representations",
        numbers=_numbers(result, known),
        facts=(many(len(result.layers), "layer"), f"up to {many(rows, 'row')} each"),
        charts=draw_charts(result),
        tables=_tables(result),
        findings=find_facts(result),
        rule=RULE,
        papers=("representation",),
        about=_about(result),
    )


def _about(result: Alignment) -> tuple[str, ...]:
    gradient = "loss of each sample" if result.gradient == "loss" else "outputs, G = E[JᵀJ]"
    return (
        "Of a layer h_b = W·h_a: H = E[hhᵀ] is what it represents, G = E[ggᵀ], of gradients of the "
        f"{gradient}, is how it is corrected, Z_a = WᵀW and Z_b = WWᵀ is what it weighs. The "
        "canonical representation hypothesis says that they are proportional on both sides.",
        "Six alignments, backward (a) and forward (b): RGA is H with G, RWA is H with Z, GWA is G "
        "with Z. Some are large by construction, so that each is held against random rotations of "
        "H_a and G_b: excess = (raw − null)/(1 − null). Backward RWA is that of correlated "
        "updates, and in the last layer of neural collapse; backward GWA with gradients of the "
        "output is the neural feature ansatz.",
        "Exponents: H_a ~ z^p and G_b ~ z^q in the singular basis of W, z being its squared "
        "singular values. Where one backward and one forward alignment hold, (p, q) is a point of "
        "the table of phases.",
        "−E[g_b h_bᵀ] ∝ WWᵀ is stationarity under weight decay itself, not a law of its own. "
        "Sorted eigenvalues of H and G lie on a line before training too; matched ones decide.",
    )


def _numbers(result: Alignment, known: list[LayerAlignment]) -> list[KeyNumber]:
    if not known:
        return []
    control = [] if result.control is None else result.control.layers
    before = [layer for layer in control if not layer.missing]
    numbers = []
    for name in RELATIONS:
        values = _excess(known, name)
        if not np.isfinite(values).any():
            continue
        old = _excess(before, name)
        shown = fixed(float(np.nanmedian(old)), 2) if np.isfinite(old).any() else ""
        numbers.append(
            KeyNumber(
                name,
                fixed(float(np.nanmedian(values)), 2),
                f"excess of {FORMULAS[name]}, median over layers",
                control=shown,
            )
        )
    return numbers


def _excess(layers: list[LayerAlignment], name: str) -> FloatArray:
    return np.array([layer.excess[name] for layer in layers])


def draw_charts(result: Alignment) -> list[Chart]:
    """Return the excess of all, a panel for each of the six, and the map of phases."""
    layers = result.layers
    names = [layer.name for layer in layers]
    places = np.arange(len(layers), dtype=float)
    excess = np.array([[layer.excess[n] for layer in layers] for n in RELATIONS])
    charts: list[Chart] = [
        Lines(
            title="Excess over random rotations",
            names=RELATIONS,
            values=np.clip(excess, -1, 1),
            x=places,
            x_label="layer",
            y_label="(raw − null)/(1 − null)",
            ticks=names,
            note="1 is a perfect alignment, 0 that of random rotations.",
        )
    ]
    return [*charts, *draw_panels(result), draw_phases(result)]


def draw_panels(result: Alignment) -> list[Lines]:
    """Return raw alignment and null over the layers, a panel for each relation."""
    layers = result.layers
    panels = []
    for name in RELATIONS:
        lines = {
            "measured": [layer.raw[name] for layer in layers],
            "random rotations": [layer.null[name].mean for layer in layers],
        }
        control = result.control
        if control is not None and len(control.layers) == len(layers):
            lines["untrained"] = [layer.raw[name] for layer in control.layers]
        panels.append(
            Lines(
                title=f"{name}: {FORMULAS[name]}",
                names=list(lines),
                values=np.array(list(lines.values())),
                x=np.arange(len(layers), dtype=float),
                x_label="layer",
                y_label=result.measure,
                ticks=[layer.name for layer in layers],
                small=True,
            )
        )
    return panels


def draw_phases(result: Alignment) -> Plane:
    """Return the map of phases: (p, q) of every layer, and discs around the phases."""
    angles = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
    disc = MOST_DISTANCE * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    regions = [
        Region(name, np.array(phase.point) + disc)
        for name, phase in PHASES.items()
        if phase.point is not None
    ]
    layers, none = result.layers, (np.nan, np.nan)
    found = [layer.exponents for layer in layers]
    return Plane(
        title="Map of phases",
        names=[layer.name for layer in layers],
        values=np.array([none if e is None else (e.p, e.q) for e in found]).reshape(-1, 2),
        x_label="p",
        y_label="q",
        regions=regions,
        interval=np.array(
            [[layer.interval.get(axis, none) for axis in ("p", "q")] for layer in layers]
        ).reshape(-1, 2, 2),
        details=[_detail(layer) for layer in layers],
        note=(
            "H_a ~ z^p and G_b ~ z^q in the singular basis of W. A layer is in a phase inside its "
            "disc and with R² above 0.7 for both."
        ),
    )


def _detail(layer: LayerAlignment) -> str:
    found = layer.exponents
    fit = "" if found is None else f", R² {fixed(found.r2_p, 2)} and {fixed(found.r2_q, 2)}"
    return f"{describe_state(layer)}{fit}"


def _tables(result: Alignment) -> list[Table]:
    layers = result.layers[:MOST_ROWS]
    left = len(result.layers) - len(layers)
    more = f", the first {len(layers)} of {count(len(result.layers))}" if left else ""
    columns = ["layer", "state", *RELATIONS]
    six = [
        [layer.name, describe_state(layer), *(_write(layer, name) for name in RELATIONS)]
        for layer in layers
    ]
    tables = [Table(f"Six alignments: excess with 95 % interval{more}", columns, six, words=2)]
    raw = [
        [
            layer.name,
            *(
                f"{fixed(layer.raw[n], 3)} ({fixed(layer.null[n].mean, 3)} ± "
                f"{fixed(layer.null[n].sd, 3)})"
                for n in RELATIONS
            ),
        ]
        for layer in layers
    ]
    tables.append(
        Table(f"Measured, and random rotations with sd{more}", ["layer", *RELATIONS], raw)
    )
    phases = [_phase_row(layer) for layer in layers]
    columns = ["layer", "phase", "p", "R²", "q", "R²", "(p+1)/q"]
    columns += ["distance", "α sorted", "R²", "α in G", "R²", "α in H", "R²"]
    tables.append(Table(f"Exponents{more}", columns, phases, words=2))
    others = [_other_row(layer) for layer in layers]
    columns = ["layer", "inputs", "outputs", "rows", "99 % rank of H_a", "of H_b"]
    columns += ["−E[g hᵀ] and WWᵀ", "null", "asymmetry", "decay"]
    columns += ["Theorem 1, forward", "backward"]
    tables.append(Table(f"Ranks, cross moment and stationarity{more}", columns, others))
    return tables


def _write(layer: LayerAlignment, name: str) -> str:
    ends = layer.interval.get(name)
    value = fixed(layer.excess[name], 2)
    if ends is None:
        return value
    return f"{value} [{between(ends, lambda end: fixed(end, 2))}]"


def _phase_row(layer: LayerAlignment) -> list[str]:
    found, spectra = layer.exponents, layer.spectra
    numbers = [""] * 5
    if found is not None:
        values = (found.p, found.r2_p, found.q, found.r2_q, found.alpha)
        numbers = [fixed(value, 2) if abs(value) < 100 else number(value) for value in values]
    laws = () if spectra is None else (spectra.sorted, spectra.in_g, spectra.in_h)
    pairs = [fixed(value, 2) for law in laws for value in law] or [""] * 6
    reason = layer.phase.name or layer.phase.reason or layer.missing
    return [layer.name, reason, *numbers, fixed(layer.phase.distance, 2), *pairs]


def _other_row(layer: LayerAlignment) -> list[str]:
    cross = layer.cross
    return [
        layer.name,
        *(count(n) for n in (layer.inputs, layer.outputs, layer.rows)),
        *(f"{n} ({percent(n / of)})" for n, of in _ranks(layer)),
        fixed(cross.alignment, 2),
        f"{fixed(cross.null.mean, 2)} ± {fixed(cross.null.sd, 2)}",
        fixed(cross.asymmetry, 2),
        number(cross.decay),
        fixed(layer.forward.residual, 2),
        fixed(layer.backward.residual, 2),
    ]


def _ranks(layer: LayerAlignment) -> tuple[tuple[int, int], tuple[int, int]]:
    return (layer.rank_in, layer.inputs), (layer.rank_out, layer.outputs)
