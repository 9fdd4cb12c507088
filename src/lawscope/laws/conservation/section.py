"""What a measurement of conservation shows people."""

from __future__ import annotations

import numpy as np

from lawscope.formatting import between, count, fixed, many, name_some, number
from lawscope.laws.conservation.charges import FORMULAS
from lawscope.laws.conservation.distance import Distance
from lawscope.laws.conservation.noise import MIN_EFFECTIVE, MIN_SAMPLES
from lawscope.laws.conservation.result import Conservation, Conserved
from lawscope.laws.conservation.verdict import RULE
from lawscope.section import Bars, Chart, KeyNumber, Section, Table

VERDICTS = {"holds": "at noise equilibrium", "does not hold": "away from noise equilibrium"}


def section_of(result: Conservation) -> Section:
    """Return the section of a result."""
    facts = [many(len(result.charges), "continuous symmetry")]
    if result.distance is not None:
        facts.append(f"gradients of {many(result.samples, 'sample')}")
    kinds = dict.fromkeys(one.kind for one in result.charges)
    return result._section(
        VERDICTS,
        title="Conservation laws and noise equilibrium",
        numbers=_numbers(result),
        facts=facts,
        charts=_charts(result),
        tables=_tables(result),
        findings=_findings(result),
        rule=RULE,
        papers=("noise_equilibrium", "neural_mechanics", "conserved"),
        about=(
            "Every continuous symmetry of a network has a charge C, a function of the weights that "
            "gradient flow does not change, whatever the data.",
            *(f"{kind.capitalize()}: C = {FORMULAS[kind]}." for kind in kinds),
            "The noise of SGD does change it, and drives every rescaled unit to one scale: its "
            "incoming weights times e^λ*, its outgoing ones over it.",
        ),
    )


def _numbers(result: Conservation) -> list[KeyNumber]:
    control = result.control
    numbers = [
        KeyNumber("charges", count(result.numbers), "numbers that gradient flow conserves"),
    ]
    if result.distance is not None and result.distance.measured:
        beside = None if control is None else control.distance
        distance = KeyNumber(
            "distance",
            fixed(result.distance.value, 2),
            "of the scales of units from noise equilibrium: root mean square of λ*",
            _ends(result.distance),
            control="" if beside is None else fixed(beside.value, 2),
        )
        numbers.insert(0, distance)
    return numbers


def _ends(distance: Distance) -> str:
    return between(distance.interval, lambda end: fixed(end, 2))


def _charts(result: Conservation) -> list[Chart]:
    charts: list[Chart] = []
    away = [(one.where, one.distance) for one in result.charges if one.distance is not None]
    if any(distance.measured for _, distance in away):
        charts.append(
            Bars(
                "Distance from noise equilibrium",
                [where for where, _ in away],
                np.array([distance.value for _, distance in away]),
                notes=[_ends(distance) for _, distance in away],
                details=[many(distance.measured, "unit") for _, distance in away],
            )
        )
    charts.append(
        Bars(
            "Charges, root mean square",
            [one.where for one in result.charges],
            np.array([one.rms for one in result.charges]),
            details=[one.kind for one in result.charges],
        )
    )
    return charts


def _tables(result: Conservation) -> list[Table]:
    columns = ["kind", "where", "numbers", "rms", "|θ|²"]
    noise = ["rms λ*", "95 %", "measured", "dead"] if result.distance is not None else []
    rows = [
        [one.kind, one.where, count(one.numbers), number(one.rms), number(one.size)]
        + (_noise(one) if noise else [])
        for one in result.charges
    ]
    tables = [Table("Charges", [*columns, *noise], rows, words=2)]
    if result.missing:
        absent = [[one.kind, one.where, one.why] for one in result.missing]
        tables.append(Table("Looked for, not found", ["kind", "where", "why"], absent, words=3))
    return tables


def _noise(one: Conserved) -> list[str]:
    if one.distance is None:
        return [""] * 4
    away = one.distance
    return [fixed(away.value, 2), _ends(away), count(away.measured), count(away.dead)]


def _findings(result: Conservation) -> list[str]:
    findings = []
    frozen = [one.where for one in result.charges if not one.conserved]
    if frozen:
        findings.append(f"Not conserved, since a part is frozen: {name_some(frozen, 5)}.")
    distance = result.distance
    if distance is None:
        return findings
    if distance.dead:
        findings.append(
            f"{many(distance.dead, 'unit')} of {count(distance.units)} with a side that gets no "
            "gradient."
        )
    if distance.living > distance.measured:
        findings.append(say_left_out(distance))
    return findings


def say_left_out(distance: Distance) -> str:
    """Say how many of the active units the distance does not count, and why."""
    few, units = distance.living - distance.measured, many(distance.living, "active unit")
    which = f"All {units}" if few == distance.living else f"{count(few)} of {units}"
    verb, whose = ("is", "its") if few == 1 else ("are", "their")
    return (
        f"{which} {verb} left out of the distance: too few samples for {whose} gradients "
        f"({MIN_SAMPLES} are needed, with {MIN_EFFECTIVE} effective ones)."
    )
