"""Numbers of one cell of a table: networks that differ in their seed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from lawscope.report.numbers import MISSING, fixed
from lawscope.studies.choice import every
from lawscope.studies.study import Numbers

ENOUGH_SEEDS = 3


def mean(rows: Sequence[Numbers], name: str) -> float:
    """The mean over seeds.

    Raises:
        ValueError: a network lacks the number: it diverged, or its prediction has vanished.

    Example:
        >>> mean([{"cosine": 0.25}, {"cosine": 0.75}], "cosine")
        0.5
    """
    values = [row.get(name) for row in rows]
    there = [value for value in values if value is not None]
    if len(there) < len(values) or not there:
        raise ValueError(f"a network has no {name}")
    return float(sum(there)) / len(there)


def spread(
    rows: Sequence[Numbers],
    name: str,
    decimals: int,
    scale: float = 1.0,
    over: Sequence[Numbers] | None = None,
) -> str:
    """Mean ± standard deviation over seeds, or of the differences to other networks, seed by seed.

    Example:
        >>> spread([{"a": 0.25}, {"a": 0.75}], "a", 1, 100)
        '50.0 ± 35.4'
    """
    values = [row.get(name) for row in rows]
    base = [0.0] * len(values) if over is None else [row.get(name) for row in over]
    pairs = [(a, b) for a, b in zip(values, base, strict=True) if a is not None and b is not None]
    if not pairs or len(pairs) < len(values):
        return MISSING
    found = [scale * (a - b) for a, b in pairs]
    middle = fixed(statistics.fmean(found), decimals)
    return f"{middle} ± {fixed(statistics.stdev(found), decimals)}" if len(found) > 1 else middle


def gain(better: Sequence[Numbers], than: Sequence[Numbers], name: str) -> float | None:
    """Difference of two means over seeds; None for fewer than three seeds, which tell nothing."""
    if min(len(better), len(than)) < ENOUGH_SEEDS:
        return None
    return mean(better, name) - mean(than, name)


def above_zero(differences: Sequence[float | None]) -> bool | None:
    """Whether every difference is above 0; None where one cannot be told.

    Example:
        >>> above_zero([0.1, 0.2]), above_zero([0.1, -0.2]), above_zero([0.1, None])
        (True, False, None)
    """
    return None if None in differences else every(lambda d: d > 0)(differences)


def below_zero(differences: Sequence[float | None]) -> bool | None:
    """Whether every difference is below 0; None where one cannot be told."""
    return None if None in differences else every(lambda d: d < 0)(differences)
