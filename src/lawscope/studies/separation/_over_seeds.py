"""Claims about pairs of networks that share a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lawscope.studies.study import Numbers

SEEDS = 3


def differences(a: Sequence[Numbers], b: Sequence[Numbers], name: str) -> list[float | None]:
    """One number of the networks ``a`` minus that of ``b``, seed by seed; None where one lacks it.

    Example:
        >>> rows = [{"seed": 1, "r": -0.5}, {"seed": 0, "r": -0.25}]
        >>> differences([{"seed": 0, "r": -0.75}, {"seed": 1, "r": None}], rows, "r")
        [-0.5, None]
    """
    theirs = {row["seed"]: row[name] for row in b}
    return [
        None
        if row[name] is None or theirs[row["seed"]] is None
        else row[name] - theirs[row["seed"]]
        for row in a
    ]


def on_average(
    test: Callable[[float], bool], seeds: int = SEEDS
) -> Callable[[Sequence[Any]], bool | None]:
    """A predicate on a list with one number per seed: their mean passes.

    Fewer than ``seeds`` seeds tell nothing; a seed without a number fails.

    Example:
        >>> positive = on_average(lambda mean: mean > 0)
        >>> positive([0.2, -0.1, 0.2]), positive([0.2, -0.1]), positive([0.2, 0.1, None])
        (True, None, False)
    """

    def holds(values: Sequence[Any]) -> bool | None:
        if len(values) < seeds:
            return None
        if any(value is None for value in values):
            return False
        return test(sum(values) / len(values))

    return holds
