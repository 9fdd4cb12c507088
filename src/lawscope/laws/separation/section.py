"""What a measurement of the law of data separation shows people."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from lawscope.formatting import (
    MISSING,
    as_sentence,
    between,
    count,
    fixed,
    many,
    name_some,
    number,
    one_of,
    percent,
    signed,
)
from lawscope.laws.base import VERDICTS
from lawscope.laws.learned import say_not_learned
from lawscope.laws.line import key_number, line_charts, log_or_nan
from lawscope.laws.population import Population
from lawscope.laws.separation.result import Separation
from lawscope.laws.separation.verdict import RULE, find_risers
from lawscope.section import Bars, Chart, KeyNumber, Lines, Section, Table

BEYOND = {
    "holds": "In the population it holds",
    "does not hold": "In the population it does not hold",
    "cannot be told": "In the population it cannot be told",
}


def section_of(result: Separation) -> Section:
    """Return the section of a result."""
    unit, least, findings = one_of(result.granularity), result.least_sensitivity, list[str]()
    if np.isfinite([result.sensitivity, least]).all():
        findings.append(
            f"Robustness: when every {unit}'s ratio of D after it to D before it moves by ε, the "
            "reduction R moves by about R·S·ε. S, the sum of the inverse ratios, is "
            f"{number(result.sensitivity)}; the least for this depth and reduction is "
            f"{number(least)}, when all ratios are equal."
        )
    tables = [_station_table(result), _class_table(result)]
    if len(result.granularities) > 1:
        tables.append(_granularity_table(result))
    rising, found = find_risers(result), _estimate(result)
    if rising:
        raising = "raises" if len(rising) == 1 else "raise"
        findings.append(f"{many(len(rising), unit)} {raising} D: {name_some(rising, 3)}.")
    section = result._section(
        title="Law of data separation",
        numbers=_numbers(result),
        facts=(
            *([] if math.isnan(result.accuracy) else [f"accuracy {percent(result.accuracy)}"]),
            many(int(result.counts.sum()), "sample"),
            many(len(result.classes), "class"),
            many(len(result.stations), "station"),
        ),
        charts=_charts(result),
        tables=tables,
        findings=findings,
        rule=RULE,
        papers=("separation",),
        about=(
            f"In a trained classifier every {unit} is expected to shrink the fuzziness D of the "
            "classes by the same factor: on a log scale the points fall on a line.",
            "D = Tr(SSw SSb⁺): the scatter within classes, in units of the scatter between them.",
        ),
    )
    first = say_not_learned(result.accuracy, result.counts) if result.learned is False else ""
    if found is None or found.reason == result.reason:
        return dataclasses.replace(
            section, headline=f"{first} {as_sentence(section.headline)}".strip()
        )
    here = f"On these samples {result.reason.rstrip('.')}."
    beyond = f"{BEYOND[found.verdict]}: {found.reason.rstrip('.')}."
    said = (first, here, beyond) if found.settled.all() else (first, beyond, here)
    verdict = f"{section.verdict} on these samples" if result.verdict in VERDICTS else ""
    return dataclasses.replace(
        section, verdict=verdict or section.verdict, headline=" ".join(filter(None, said))
    )


def _estimate(result: Separation) -> Population | None:
    """Return the estimate for the population; None also where the samples are all there is."""
    found = result.population
    return found if found is not None and len(found.influence) else None


def _numbers(result: Separation) -> list[KeyNumber]:
    fit, control, unit = result.fit, result.control, one_of(result.granularity)
    beside = None if control is None else control.fit
    reduction = "" if control is None else percent(control.reduction)
    about_r = "correlation of log D with depth; −1 is a perfect line"
    about_all = "reduction: what the whole network keeps of D"
    numbers = [
        key_number(fit, beside, "rho", "ρ", 3, f"decay ratio: what each {unit} keeps of D"),
        key_number(fit, beside, "pearson", "r", 4, about_r),
        key_number(fit, beside, "half_life", "half-life", 2, f"{unit}s needed to halve D"),
        KeyNumber("R", percent(result.reduction), about_all, control=reduction),
    ]
    if (found := _estimate(result)) is not None:
        there, its = found.fit, None if control is None else _estimate(control)
        beside = None if its is None else its.fit
        beyond = [
            key_number(there, beside, "rho", "ρ̂", 3, "decay ratio in the population"),
            key_number(there, beside, "pearson", "r̂", 4, "correlation in the population"),
        ]
        numbers += [each for each in beyond if each.interval]
    return numbers


def _control(result: Separation) -> Separation | None:
    """Return the untrained network where it has the same stations."""
    found = result.control
    return found if found is not None and len(found.values) == len(result.values) else None


def _charts(result: Separation) -> list[Chart]:
    unit, control, logs = one_of(result.granularity), _control(result), log_or_nan(result.values)
    notes = []
    if math.isfinite(result.fit.rho):
        start = number(math.exp(result.fit.intercept))
        notes.append(f"Line: D ≈ {start} · {number(result.fit.rho)}ˡ.")
    found = _estimate(result)
    if found is not None:
        notes.append(
            "Circles with 95 % bars: what many more samples would give; a bar without an end has "
            "no upper bound."
        )
    if np.isnan(logs).any():
        notes.append("A cross marks a station where D has no logarithm.")
    charts = line_charts(
        result.fit,
        None if control is None else (control.values, control.fit),
        title=f"Separation fuzziness by {unit}",
        symbol="D",
        quantity="separation fuzziness D",
        unit=unit,
        stations=result.shown,
        values=result.values,
        interval=None if found is None else found.interval,
        estimate=None if found is None else found.values,
        note=" ".join(notes),
    )
    if len(logs) > 1:
        # What each module takes off log D, beside an equal share of the whole.
        gains, equal = -np.diff(logs), float(logs[0] - logs[-1]) / (len(logs) - 1)
        steps = Bars(
            title=f"What each {unit} takes off log D",
            labels=result.shown[1:],
            values=gains,
            notes=[_step_words(gain, equal) for gain in gains.tolist()],
            details=[many(dim, "feature") for dim in result.dims[1:]],
            reference=equal if equal > 0 else None,
            reference_label="equal share" if equal > 0 else "",
            note="The factor is D after it over D before it."
            + " Red bars raise D." * int((gains < 0).any()),
        )
        charts.append(steps)
    classes = Lines(
        title="Class by class",
        names=result.class_names,
        values=result.classwise.T,
        x=np.arange(len(logs), dtype=np.float64),
        x_label=unit,
        y_label="fuzziness of a class",
        ticks=result.shown,
        log=True,
        note="Weighted by their samples the classes add up to D.",
    )
    return [*charts, classes]


def _step_words(gain: float, equal: float) -> str:
    if math.isnan(gain):
        return MISSING
    factor = f"× {number(math.exp(-gain))}"
    return f"{factor}, {100 * gain / equal:.0f} % of share" if gain >= 0 < equal else factor


def _station_table(result: Separation) -> Table:
    control, table = _control(result), result.table()
    kept = np.exp(np.diff(log_or_nan(result.values), prepend=np.nan))
    found = _estimate(result)
    columns = ["l", "station", "features", "rank", "D", "keeps", "fitted", "residual"]
    columns += [] if found is None else ["population D", "95 %"]
    columns += [] if control is None else ["untrained D"]
    rows = []
    for i, name in enumerate(result.shown):
        row = [str(i), name, count(result.dims[i]), str(result.ranks[i])]
        row += [number(result.values[i], 4), percent(kept[i])]
        row += [number(table["fitted"][i], 4), signed(table["residual"][i])]
        if found is not None:
            row += [number(found.values[i], 4), between(found.interval[i].tolist(), empty=MISSING)]
        rows.append(row + ([] if control is None else [number(control.values[i], 4)]))
    return Table("Stations", columns, rows, words=2)


def _class_table(result: Separation) -> Table:
    rows = []
    for k, name in enumerate(result.class_names):
        curve = result.classwise[:, k]
        usable = curve[np.isfinite(curve) & (curve > 0)]
        first, last = float(curve[0]), float(usable[-1]) if len(usable) else math.nan
        kept = percent(last / first) if first > 0 else MISSING
        about = [str(result.classes[k]), name, count(int(result.counts[k]))]
        rows.append([*about, number(first, 4), number(last, 4), kept])
    columns = ["label", "class", "samples", "D first", "D last", "keeps"]
    return Table("Classes", columns, rows, words=2)


def _granularity_table(result: Separation) -> Table:
    rows = []
    for name, fit in result.granularities.items():
        row = [f"{name} (shown)" if name == result.granularity else name, str(len(fit.residuals))]
        rows.append([*row, fixed(fit.pearson, 4), fixed(fit.rho, 3)])
    columns = ["granularity", "stations", "r", "ρ"]
    return Table("The same network cut into modules in different ways", columns, rows)
