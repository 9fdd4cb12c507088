"""Claims about pairs of networks that share a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lawscope.errors import LawscopeError
from lawscope.studies.study import Numbers

SEEDS = 3
T = TypeVar("T")


def enough(values: list[T], seeds: int = SEEDS) -> list[T]:
    """The same list, one entry per seed, where there are seeds enough to tell something.

    Raises:
        LawscopeError: there are fewer; as the reason of a verdict it says how many.

    Example:
        >>> enough([0.1])
        Traceback (most recent call last):
        ...
        lawscope.errors.LawscopeError: needs 3 seeds, has 1
    """
    if len(values) < seeds:
        raise LawscopeError(f"needs {seeds} seeds, has {len(values)}")
    return values


def differences(
    a: Sequence[Numbers], b: Sequence[Numbers], name: str, *, fitting: bool = True
) -> list[float | None]:
    """One number of the networks ``a`` minus that of ``b``, seed by seed.

    Args:
        a: networks, one per seed.
        b: networks of the same seeds.
        name: of the number.
        fitting: both must fit their training set; False for networks that cannot.

    Returns:
        The differences, None where a network lacks the number or does not fit.

    Raises:
        LawscopeError: fewer than three seeds.

    Example:
        >>> a = [{"seed": s, "r": -0.75, "fits": s != 1} for s in range(3)]
        >>> b = [{"seed": s, "r": -0.25, "fits": True} for s in (2, 1, 0)]
        >>> differences(a, b, "r"), differences(a, b, "r", fitting=False)
        ([-0.5, None, -0.5], [-0.5, -0.5, -0.5])
    """
    theirs = {row["seed"]: row for row in b}
    found: list[float | None] = []
    for ours in a:
        pair = (ours, theirs[ours["seed"]])
        told = all(row[name] is not None and (row["fits"] or not fitting) for row in pair)
        found.append(pair[0][name] - pair[1][name] if told else None)
    return enough(found)


def on_average(test: Callable[[float], bool]) -> Callable[[Sequence[Any]], bool]:
    """A predicate on a list with one number per seed: none is missing, and their mean passes.

    Example:
        >>> positive = on_average(lambda mean: mean > 0)
        >>> positive([0.2, -0.1, 0.2]), positive([0.2, -0.3, 0.0]), positive([0.2, 0.1, None])
        (True, False, False)
    """
    return lambda values: None not in values and test(sum(values) / len(values))
