"""What the page says, taken from a report and put into words: cards, layers, tables."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lawscope.laws.line import LineFit, log_or_nan
from lawscope.laws.report import Report
from lawscope.laws.separation_result import FloatArray, Separation
from lawscope.report.class_chart import last_value
from lawscope.report.numbers import MISSING, count, fixed, number, one_of, percent, signed

VERDICTS = {"holds": "the law holds", "does not hold": "the law does not hold"}


@dataclass(frozen=True)
class Card:
    """A key number with its interval and what it means in a few words."""

    symbol: str
    value: str
    meaning: str
    interval: str = ""


@dataclass(frozen=True)
class Layer:
    """One station of the drawn network; ``start`` and ``length`` place its bar, in percent."""

    name: str
    features: str
    width: float
    kind: str
    ratio: str = ""
    share: str = ""
    start: float = 0.0
    length: float = 0.0


@dataclass(frozen=True)
class Network:
    """The stations top to bottom, and where the zero and the equal share stand, in percent."""

    layers: list[Layer]
    zero: float
    equal: float | None


@dataclass(frozen=True)
class Table:
    """A table whose first ``words`` columns are text and the others numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


def fit_cards(separation: Separation) -> list[Card]:
    """What the fitted line says, in the order it matters."""
    fit, unit = separation.fit, one_of(separation.granularity)
    return [
        Card(
            "ρ",
            fixed(fit.rho, 3),
            f"decay ratio: what each {unit} keeps of D",
            between(fit, "rho", 3),
        ),
        Card(
            "r",
            fixed(fit.pearson, 4),
            "correlation of log D with depth; −1 is a perfect line",
            between(fit, "pearson", 4),
        ),
        Card(
            "half-life",
            fixed(fit.half_life, 2),
            f"{unit}s needed to halve D",
            between(fit, "half_life", 2),
        ),
        Card("R", percent(separation.reduction), "reduction: what the whole network keeps of D"),
    ]


def size_cards(separation: Separation) -> list[Card]:
    """How much was measured."""
    return [
        Card("stations", count(len(separation.stations)), "places where D was measured"),
        Card("samples", count(int(separation.counts.sum())), "inputs that were measured"),
        Card("classes", count(len(separation.classes)), "groups the network should tell apart"),
    ]


def between(fit: LineFit, name: str, decimals: int) -> str:
    """The 95 % interval of one number of a fit, empty without one."""
    low, high = fit.interval.get(name, (math.nan, math.nan))
    return "" if math.isnan(low) else f"{fixed(low, decimals)} to {fixed(high, decimals)}"


def network(separation: Separation) -> Network:
    """What each layer takes off log D, −log(D_{l+1}/D_l), beside an equal share of the whole."""
    logs = log_or_nan(separation.values)
    gains = -np.diff(logs)
    equal = float(logs[0] - logs[-1]) / len(gains) if len(gains) else math.nan
    known = [float(gain) for gain in (*gains, equal, 0.0) if math.isfinite(gain)]
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    zero = -100 * low / span
    widths = _widths(separation.dims)
    layers = [Layer(separation.stations[0], count(separation.dims[0]), widths[0], "first")]
    for index, gain in enumerate(gains, start=1):
        name, features = separation.stations[index], count(separation.dims[index])
        if math.isnan(gain):
            layers.append(Layer(name, features, widths[index], "unknown", MISSING, "not known"))
            continue
        length = 100 * abs(float(gain)) / span
        layers.append(
            Layer(
                name, features, widths[index], "lowers" if gain >= 0 else "raises",
                ratio=f"× {number(math.exp(-gain))}",
                share=_share(float(gain), equal),
                start=zero if gain >= 0 else zero - length,
                length=length,
            )
        )  # fmt: skip
    return Network(layers, zero, None if math.isnan(equal) else zero + 100 * equal / span)


def _share(gain: float, equal: float) -> str:
    if gain < 0:
        return "raises D"
    if not equal > 0:
        return "lowers D"
    return f"{100 * gain / equal:.0f} % of its share"


def _widths(dims: Sequence[int]) -> list[float]:
    """Widths of the drawn stations, 16 to 100 percent, in the logarithm of their features."""
    logs: FloatArray = np.log2(np.maximum(dims, 1)) + 1
    return [float(width) for width in 16 + 84 * logs / logs.max()]


def station_table(report: Report) -> Table:
    """One row per station: D, interval, what it keeps, the line, the untrained D."""
    law, control = report.separation, report.control
    kept = np.exp(np.diff(log_or_nan(law.values), prepend=np.nan))
    fitted = law.fit.predict(np.arange(len(law.values), dtype=np.float64))
    columns = ["l", "station", "features", "rank", "D"]
    columns += ["low", "high"] if law.interval is not None else []
    columns += ["keeps", "fitted", "residual"]
    beside = control is not None and len(control.values) == len(law.values)
    columns += ["untrained D"] if beside else []
    rows = []
    for index, name in enumerate(law.stations):
        row = [str(index), name, count(law.dims[index]), str(law.ranks[index])]
        row.append(number(law.values[index], 4))
        if law.interval is not None:
            row += [number(end, 4) for end in law.interval[index]]
        row += [percent(kept[index]), number(fitted[index], 4), signed(law.fit.residuals[index])]
        if control is not None and beside:
            row.append(number(control.values[index], 4))
        rows.append(row)
    return Table("Stations", columns, rows, words=2)


def class_table(separation: Separation) -> Table:
    """One row per class: samples, D^k at the first and last station, what is kept."""
    rows = []
    for k, name in enumerate(separation.class_names):
        first, last = float(separation.classwise[0, k]), last_value(separation.classwise[:, k])
        kept = percent(last / first) if first > 0 else MISSING
        samples = count(int(separation.counts[k]))
        rows.append(
            [str(separation.classes[k]), name, samples, number(first, 4), number(last, 4), kept]
        )
    columns = ["label", "class", "samples", "D first", "D last", "keeps"]
    return Table("Classes", columns, rows, words=2)


def granularity_table(separation: Separation) -> Table:
    """Correlation and decay ratio of every granularity that was measured, the chosen one marked."""
    rows = [
        [
            f"{name} (shown)" if name == separation.granularity else name,
            str(len(fit.residuals)),
            fixed(fit.pearson, 4),
            between(fit, "pearson", 4) or MISSING,
            fixed(fit.rho, 3),
            between(fit, "rho", 3) or MISSING,
        ]
        for name, fit in separation.granularities.items()
    ]
    columns = ["granularity", "stations", "r", "95 %", "ρ", "95 %"]
    return Table("Granularities", columns, rows)


def control_table(report: Report) -> Table:
    """The trained network and the untrained one side by side."""
    named = [("trained", report.separation), ("untrained", report.control)]
    rows = [
        [name, fixed(law.fit.rho, 3), fixed(law.fit.pearson, 4), percent(law.reduction)]
        for name, law in named
        if law is not None
    ]
    return Table("Beside the untrained network", ["network", "ρ", "r", "R"], rows)


def pairs_table(caption: str, pairs: dict[str, Any]) -> Table:
    """Settings as name and value, nested ones by their dotted name."""
    rows = [[name, value] for name, value in _flat(pairs).items()]
    return Table(caption, ["name", "value"], rows, words=2)


def _flat(pairs: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in pairs.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            flat[f"{prefix}{key}"] = words
    return flat
