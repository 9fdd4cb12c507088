"""The depth that ends with the lowest D, and how sure that is over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lawscope.studies.study import Numbers


def best_depth(
    panels: Sequence[Numbers], final: Callable[[Numbers], Sequence[float | None]]
) -> Numbers:
    """The depth with the lowest final D, and how sure that is over seeds.

    Args:
        panels: of one dataset, one per depth.
        final: reads the final D of every seed off a panel; depths without one are left out.

    Returns:
        ``depth`` has the lowest mean of log D, None when no depth is left; ``per_seed`` is the
        best depth of each seed alone; ``mean`` and ``error`` are, per depth, the geometric mean of
        the final D and the standard error of its logarithm (None with one seed).

    Example:
        >>> panels = [{"depth": 2, "D": [4.0, 4.0]}, {"depth": 4, "D": [1.0, 2.0]},
        ...           {"depth": 6, "D": [2.0, 1.5]}, {"depth": 8, "D": [0.1, None]}]
        >>> best = best_depth(panels, lambda panel: panel["D"])
        >>> best["depth"], best["per_seed"], best["depths"]
        (4, [4, 6], [2, 4, 6])
    """
    table = {panel["depth"]: list(final(panel)) for panel in panels}
    logs = {
        depth: [math.log(value) for value in values if value]
        for depth, values in table.items()
        if all(values)
    }
    means = {depth: math.fsum(each) / len(each) for depth, each in logs.items()}
    seeds = len(next(iter(logs.values()), []))
    return {
        "depth": min(means, key=means.__getitem__, default=None),
        "per_seed": [min(logs, key=lambda depth: logs[depth][seed]) for seed in range(seeds)],
        "depths": list(logs),
        "mean": [math.exp(mean) for mean in means.values()],
        "error": [_standard_error(each) for each in logs.values()],
    }


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1) / len(values))


def interval_arms(best: Numbers) -> list[list[float]] | None:
    """How far the 95 % interval of each mean reaches down and up; None with one seed.

    The interval is Student's for the mean of log D over seeds.

    Example:
        >>> [low], [high] = interval_arms({"mean": [1.0], "error": [0.1], "per_seed": [2] * 3})
        >>> round(1 - low, 3), round(1 + high, 3)
        (0.65, 1.538)
    """
    from scipy.stats import t

    if not best["error"] or None in best["error"]:
        return None
    reach = t.ppf(0.975, len(best["per_seed"]) - 1)
    pairs = list(zip(best["mean"], best["error"], strict=True))
    down = [mean * (1 - math.exp(-reach * error)) for mean, error in pairs]
    return [down, [mean * (math.exp(reach * error) - 1) for mean, error in pairs]]
