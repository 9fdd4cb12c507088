"""The paper's choice of the learning rate, and what claims read off the chosen networks.

003, appendix A.1: a network is trained with every learning rate of a grid, and the one with the
best law in the last epoch is shown. Here only networks that fit their training set can be chosen,
since the law is about the late phase of training. All candidates stay in the numbers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from lawscope.errors import LawscopeWarning
from lawscope.studies.plan import Training
from lawscope.studies.study import Numbers

if TYPE_CHECKING:
    from lawscope.laws.separation_result import Separation
    from lawscope.studies.lab import Lab

RATES = {
    "sgd": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
    "momentum": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
    "adam": [3e-5, 1e-4, 3e-4, 1e-3, 3e-3],
}
FITS = 0.99


def sweep(training: Training, rates: Iterable[float], seeds: int = 1) -> list[Training]:
    """The same training with every learning rate and seed.

    A seed is that of the first weights and of the order of the samples; the data stays the same.

    Example:
        >>> from lawscope.studies.plan import Network
        >>> net = Training(Network.of("feedforward", depth=4))
        >>> [(t.recipe.lr, t.seed, t.recipe.seed) for t in sweep(net, [0.1, 0.3], seeds=2)]
        [(0.1, 0, 0), (0.3, 0, 0), (0.1, 1, 1), (0.3, 1, 1)]
    """
    return [
        replace(training, seed=seed, recipe=replace(training.recipe, lr=lr, seed=seed))
        for seed in range(seeds)
        for lr in rates
    ]


def measured(
    lab: Lab,
    training: Training,
    *,
    epoch: int | None = None,
    split: str = "train",
    stations: str | Sequence[str] = "layers",
    pooling: Literal["mean", "first"] = "mean",
) -> Numbers:
    """What a study keeps of one network: how it was trained, how it ended, and the law on it.

    A training that diverged has no law: its numbers are None and its verdict is "diverged".
    """
    lab.tell(f"measuring {training.describe()}")
    run = lab.run(training)
    ending = {
        "lr": training.recipe.lr,
        "seed": training.seed,
        "loss": run.loss,
        "accuracy": run.accuracy,
        "test_accuracy": run.test_accuracy,
        "fits": run.accuracy >= FITS,
    }
    if not math.isfinite(run.loss):
        return {**_jsonable(ending), **_DIVERGED}
    with quietly():
        law = lab.separation(training, epoch=epoch, split=split, stations=stations, pooling=pooling)
    return {**_jsonable(ending), **law_numbers(law)}


@contextmanager
def quietly() -> Iterator[None]:
    """No warnings of ours inside: a study measures hundreds of networks, and keeps them as text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LawscopeWarning)
        yield


_DIVERGED: Numbers = {
    "D": None,
    "D_interval": None,
    "r": None,
    "rho": None,
    "half_life": None,
    "interval": {},
    "verdict": "diverged",
    "warnings": [],
}


def law_numbers(law: Separation) -> Numbers:
    """The law as JSON values: D per station, r, ρ, half-life, their 95 % intervals, verdict."""
    names = {"pearson": "r", "rho": "rho", "half_life": "half_life"}
    interval = {short: law.fit.interval.get(name) for name, short in names.items()}
    numbers: Numbers = _jsonable(
        {
            "D": law.values.tolist(),
            "D_interval": None if law.interval is None else law.interval.tolist(),
            "r": law.fit.pearson,
            "rho": law.fit.rho,
            "half_life": law.fit.half_life,
            "interval": {name: ends for name, ends in interval.items() if ends is not None},
            "verdict": law.verdict,
            "warnings": list(law.warnings),
        }
    )
    return numbers


def straightest(runs: Sequence[Numbers]) -> Numbers:
    """Of the runs that fit, the one with the smallest r; where none fits, the most accurate.

    Lines through two points are equally straight; then the lowest D at the last layer decides.

    Example:
        >>> a = {"fits": True, "accuracy": 1.0, "r": -0.95, "D": [9.0, 2.0]}
        >>> b = {"fits": True, "accuracy": 1.0, "r": -0.99, "D": [9.0, 3.0]}
        >>> c = {"fits": False, "accuracy": 0.8, "r": -1.0, "D": [9.0, 1.0]}
        >>> straightest([a, b, c]) is b, straightest([c, {**c, "accuracy": 0.1}]) is c
        (True, True)
    """
    fitting = [run for run in runs if run["fits"] and run["r"] is not None]
    if not fitting:
        return max(runs, key=lambda run: run["accuracy"] or 0.0)
    return min(fitting, key=lambda run: (round(run["r"], 12), run["D"][-1]))


def choice(lab: Lab, trainings: Sequence[Training], stations: str = "layers") -> Numbers:
    """Measure every candidate and choose one for each seed.

    Returns:
        ``chosen``, one row per seed as :func:`measured` gives it, and ``runs``, all candidates
        without the interval of each D.
    """
    runs = [measured(lab, training, stations=stations) for training in trainings]
    seeds = sorted({run["seed"] for run in runs})
    chosen = [straightest([run for run in runs if run["seed"] == seed]) for seed in seeds]
    brief = [{k: v for k, v in run.items() if k != "D_interval"} for run in runs]
    return {"chosen": chosen, "runs": brief}


def training_of(row: Numbers, trainings: Iterable[Training]) -> Training:
    """The candidate that a row of numbers belongs to."""
    return next(t for t in trainings if (t.recipe.lr, t.seed) == (row["lr"], row["seed"]))


def pick(panels: Iterable[Numbers], **where: Any) -> Numbers:
    """The panel with these settings; a KeyError where this preset has none.

    Example:
        >>> pick([{"depth": 4, "r": -0.9}, {"depth": 8, "r": -0.99}], depth=8)["r"]
        -0.99
    """
    for panel in panels:
        if all(panel[name] == value for name, value in where.items()):
            return panel
    raise KeyError(", ".join(f"{name} {value}" for name, value in where.items()))


def of_fitting(panels: Iterable[Numbers], name: str) -> list[Any]:
    """One number of every chosen network, None for one that does not fit its training set.

    Example:
        >>> rows = [{"fits": True, "r": -0.99}, {"fits": False, "r": -0.98}]
        >>> of_fitting([{"chosen": rows}], "r")
        [-0.99, None]
    """
    return [row[name] if row["fits"] else None for panel in panels for row in panel["chosen"]]


def every(test: Callable[[Any], bool]) -> Callable[[Sequence[Any]], bool]:
    """A predicate on a list: it is not empty, nothing in it is missing, and each passes.

    Example:
        >>> straight = every(lambda r: r <= -0.98)
        >>> straight([-0.99, -0.985]), straight([-0.99, -0.5]), straight([-0.99, None])
        (True, False, False)
    """
    return lambda values: bool(values) and all(v is not None and test(v) for v in values)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's correlation of two lists.

    Raises:
        ValueError: fewer than three pairs, or all the same: there is no order to compare.

    Example:
        >>> rank_correlation([1, 2, 3], [10.0, 200.0, 300.0])
        1.0
    """
    if len(a) < 3 or len(set(a)) < 2 or len(set(b)) < 2:
        raise ValueError("a rank correlation needs three pairs of different numbers")
    from scipy.stats import spearmanr

    return round(float(spearmanr(a, b).statistic), 12)


def _jsonable(values: Numbers) -> Numbers:
    from lawscope.laws.separation_result import finite

    cleaned: Numbers = finite(values)
    return cleaned
