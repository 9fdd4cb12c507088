"""What the studies of the Layer-Peeled Model share: solved programs as JSON values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import lawscope as ls
from lawscope.studies.panels import Settings
from lawscope.studies.study import Check, Lab, Numbers

LABEL = "K_A = {majority}, E_H = {feature_energy}"
SAME = 1e-6
ROUNDING = 1e-9
# Of the two-group programs of Fang et al. 2021.
TWO_GROUPS: dict[str, Any] = {
    "classes": 10, "majorities": [3, 5, 7], "weight_energy": 1, "feature_energies": [5, 10],
    "seeds": 0,
}  # fmt: skip


def for_each(lab: Lab, solve: Callable[..., Numbers], **axes: str) -> list[Numbers]:
    """Return a row for every cell of a grid; ``axes`` are names in a cell and in the settings."""
    rows = []
    for values in product(*(lab.settings[name] for name in axes.values())):
        cell = dict(zip(axes, values, strict=True))
        lab.tell(", ".join(f"{name} {value}" for name, value in cell.items()).replace("_", " "))
        rows.append({**cell, **solve(lab.settings, **cell)})
    return rows


def ratios_between(low: float, high: float, per_decade: int) -> list[float]:
    """Return ratios from ``low`` to ``high``, evenly on a log scale, both ends included."""
    decades = math.log10(high / low)
    count = max(1, round(decades * per_decade))
    return [float(f"{low * 10 ** (decades * i / count):.6g}") for i in range(count + 1)]


def counts_of(settings: Settings, majority: int, ratio: float) -> list[float]:
    return [float(ratio)] * majority + [1.0] * (settings["classes"] - majority)


def minority_numbers(found: ls.Peeled) -> Numbers:
    """Return what a study keeps of one program; the cosine is None where classifiers vanished."""
    minority = found.groups[-1]
    return {
        "cosine": minority.cosine if math.isfinite(minority.cosine) else None,
        "phase": minority.phase,
        "loss": found.loss,
        # The squared loss can be zero, exactly.
        "gap": found.gap / found.loss if found.gap else 0.0,
    }


def pairs_of(cosines: Any) -> list[float]:
    """Return the cosine of every two classes."""
    return [c for i, row in enumerate(cosines.tolist()) for c in row[i + 1 :]]


def steps(values: Sequence[float | None]) -> list[float]:
    """Return differences between neighbours, over what is there."""
    there = (value for value in values if value is not None)
    return [after - before for before, after in pairwise(there)]


def or_nan(values: Sequence[float | None]) -> list[float]:
    """Return the values with NaN, which is not drawn, for None."""
    return [math.nan if value is None else value for value in values]


def certified(name: str) -> Check:
    return Check(
        "every program is certified: gap at most 1e-6 of the loss",
        lambda numbers: max(each["gap"] for each in numbers[name]),
        lambda gap: bool(gap <= SAME),
    )
