"""Panels: networks that differ in learning rate and seed, and numbers by panel for claims.

A panel is one cell of a paper's figure (an optimiser and a depth, a width, a dataset). Its
candidates differ in learning rate and seed. He & Su 2023, appendix A.1: a network is trained with
every learning rate of a grid, and the one with the best law in the last epoch is shown. Here only
networks that fit their training set can be chosen, since the law is about the late phase of
training. All candidates stay in the numbers.
"""

from __future__ import annotations

import itertools
import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lawscope.documents import drop_non_finite
from lawscope.errors import LawscopeWarning
from lawscope.formatting import MISSING, fixed, number
from lawscope.lazy import np
from lawscope.studies.plan import Training
from lawscope.studies.study import (
    Lab,
    NotTried,
    Numbers,
    is_number,
    name_panels,
    per_seed,
    which_pass,
)

Settings = Mapping[str, Any]
Row = Mapping[str, Any]
# A template of a row's entries, "{optimizer}, {depth} layers", or a function of the row.
Label = str | Callable[[Any], str]
# The name of a number, or a function of the row.
Number = str | Callable[[Any], Any]
RATES = {
    "sgd": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
    "momentum": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
    "adam": [3e-5, 1e-4, 3e-4, 1e-3, 3e-3],
}
FITS = 0.99
# Panels that are written one by one; more than these as one median [min, max].
MOST_PANELS = 12
# Seeds below were looked at while bars and rules were revised; studies are judged on these.
FIRST_SEED = 10


def presets(
    paper: Settings, cpu: Settings | None = None, smoke: Settings | None = None
) -> dict[str, dict[str, Any]]:
    """Return the settings of every preset: the paper's, and what the others change of them."""
    changed = {"paper": {}, "cpu": cpu or {}, "smoke": smoke or {}}
    return {preset: {**paper, **changes} for preset, changes in changed.items()}


class Panels:
    """The panels of a study: for each cell of a grid of settings, candidates to choose from.

    ``candidates(settings, **cell)`` returns the trainings of one panel, one for each learning rate
    and seed; ``axes`` are the names in a cell with those of their lists in the settings.
    """

    def __init__(self, candidates: Callable[..., Sequence[Training]], **axes: str) -> None:
        self.candidates = candidates
        self._axes = axes

    def cells(self, settings: Settings) -> list[dict[str, Any]]:
        values = itertools.product(*(settings[name] for name in self._axes.values()))
        return [dict(zip(self._axes, each, strict=True)) for each in values]

    def plan(self, settings: Settings) -> list[Training]:
        return [t for cell in self.cells(settings) for t in self.candidates(settings, **cell)]

    def measure(self, lab: Lab) -> Numbers:
        """Return ``{"panels": [{cell, "chosen": [row per seed], "runs": [all]}]}``."""

        def panel(cell: dict[str, Any]) -> Numbers:
            return {**cell, **choice(lab, self.candidates(lab.settings, **cell))}

        return {"panels": list(map(panel, self.cells(lab.settings)))}


def label_of(row: Row, label: Label) -> str:
    """Return the label of a row."""
    return label.format(**row) if isinstance(label, str) else label(row)


def number_of(row: Row, name: Number) -> Any:
    """Return a number of a row."""
    return row[name] if isinstance(name, str) else name(row)


def by_panel(
    panels: Iterable[Numbers], label: Label, name: Number, *, fitting: bool = True
) -> dict[str, list[Any]]:
    """Return one number of the chosen networks, one per seed, by the label of their panel.

    A network that does not fit its training set has None, unless ``fitting`` is False.
    """

    def read(row: Row) -> Any:
        return number_of(row, name) if row["fits"] or not fitting else None

    found = {label_of(panel, label): list(map(read, panel["chosen"])) for panel in panels}
    if not found:
        raise NotTried("this preset has no such panel")
    return found


def last_d(row: Row) -> float | None:
    """Return D at the last layer; None of a training that diverged."""
    values: list[float] | None = row["D"]
    return values[-1] if values else None


def compare(
    a: Sequence[Row], b: Sequence[Row], name: Number, how: Callable[[float, float], float], *,
    fitting: bool = True,
) -> list[float | None]:  # fmt: skip
    """Compare one number of the networks ``a`` with that of ``b``, seed by seed.

    None where a network lacks the number or, unless ``fitting`` is False, does not fit.
    """
    theirs = {row["seed"]: row for row in b}

    def compared(*pair: Row) -> float | None:
        numbers = [number_of(row, name) for row in pair]
        usable = None not in numbers and (not fitting or all(row["fits"] for row in pair))
        return how(*numbers) if usable else None

    return [compared(row, theirs[row["seed"]]) for row in a]


def middle(values: Iterable[float | None]) -> float:
    """Return the median of the numbers there are; NaN without any."""
    there = [v for v in values if v is not None and not math.isnan(v)]
    return statistics.median(there) if there else math.nan


def mean(rows: Sequence[Row], name: str) -> float:
    """Return the mean over seeds."""
    values: list[Any] = [row.get(name) for row in rows]
    if not values or None in values:
        raise NotTried(f"a network has no {name}")
    return float(sum(values)) / len(values)


def spread(
    rows: Sequence[Row], name: str, decimals: int, scale: float = 1.0,
    over: Sequence[Row] | None = None,
) -> str:  # fmt: skip
    """Write median [min, max] over seeds, or of the differences to other networks, seed by seed."""
    values: list[Any] = [row.get(name) for row in rows]
    base: list[Any] = [0.0] * len(values) if over is None else [row.get(name) for row in over]
    if not values or None in (*values, *base):
        return MISSING
    found = [scale * (a - b) for a, b in zip(values, base, strict=True)]
    text = fixed(statistics.median(found), decimals)
    if len(found) == 1:
        return text
    return f"{text} [{fixed(min(found), decimals)}, {fixed(max(found), decimals)}]"


def brief(value: Any) -> str:
    """Write a measured value in a few characters, several numbers as median [min, max]."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        if len(value) > MOST_PANELS and all(isinstance(each, list) for each in value.values()):
            return f"{len(value)} panels: {_brief_list(list(itertools.chain(*value.values())))}"
        return "; ".join(f"{key}: {_brief_inside(inside)}" for key, inside in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _brief_list(value)
    return f"−{-value}" if isinstance(value, int) and value < 0 else str(value)


def _brief_inside(value: Any) -> str:
    """Write the value of a panel; a mapping in it as a list of its own."""
    if not isinstance(value, Mapping):
        return brief(value)
    return f"({', '.join(f'{key}: {_brief_inside(inside)}' for key, inside in value.items())})"


def _brief_list(values: Sequence[Any]) -> str:
    there = [v for v in values if is_number(v)]
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in there):
        return ", ".join(brief(value) for value in values)
    if not there:
        return MISSING
    missing = f" ({len(values) - len(there)} missing)" if len(there) < len(values) else ""
    if len(there) == 1:
        return brief(there[0]) + missing
    median = statistics.median(there)
    if all(isinstance(v, int) for v in there) and median == int(median):
        median = int(median)
    return f"{brief(median)} [{brief(min(there))}, {brief(max(there))}]{missing}"


def collect(
    rows: str, label: Label, value: Number, where: Callable[[Numbers], bool] = lambda row: True
) -> Callable[[Numbers], dict[str, list[Any]]]:
    """Return the value of a sentence: one number of every row of ``numbers[rows]``, by label.

    Rows of the same label are seeds; a function may return a list over seeds.
    """

    def read(numbers: Numbers) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for row in filter(where, numbers[rows]):
            found.setdefault(label_of(row, label), []).extend(per_seed(number_of(row, value)))
        if not found:
            raise NotTried("this preset has none of these")
        return found

    return read


def group_by(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """Return the rows by an entry, or by several, in the order in which its values come."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        key = tuple(row[name] for name in names)
        found.setdefault(key if len(names) > 1 else key[0], []).append(row)
    return found


def yes_or_no(test: Callable[[Any], bool], each: str = "seeds") -> Callable[[Any], str]:
    """Return the answer to a question: whether the numbers pass, and in which panels not.

    ``each`` says what the numbers of a panel are of.
    """

    def word(passing: Sequence[bool]) -> str:
        if all(passing):
            return "yes"
        return f"{sum(passing)} of {len(passing)} {each}" if any(passing) else "no"

    def answer(measured: Any) -> str:
        panels = measured if isinstance(measured, Mapping) else {"": measured}
        words = {label: word(passing) for label, passing in which_pass(panels, test).items()}
        kinds = sorted(set(words.values()), key=lambda word: (word != "yes", word != "no", word))
        if len(kinds) == 1:
            return kinds[0] if kinds[0] in ("yes", "no") else f"in {kinds[0]}"
        where = {kind: [label for label in words if words[label] == kind] for kind in kinds}
        return "; ".join(f"{kind} in {name_panels(where[kind], len(words))}" for kind in kinds)

    return answer


def medians(measured: Mapping[str, Any]) -> str:
    """Return the answer to a question about the size of a number: its medians over the panels."""
    found = sorted(middle(per_seed(values)) for values in measured.values())
    ends = dict.fromkeys(brief(value) for value in (found[0], found[-1]))
    return " to ".join(ends)


def each_median(write: Callable[[float], str] = brief) -> Callable[[Mapping[str, Any]], str]:
    """Return the answer to a question about every panel: "SGD: 0.787; GD: 0.568"."""
    return lambda measured: "; ".join(
        f"{label}: {write(middle(per_seed(values)))}" for label, values in measured.items()
    )


def first_seeds(count: int) -> range:
    """Return the first so many of the seeds on which studies are judged."""
    return range(FIRST_SEED, FIRST_SEED + count)


def sweep(training: Training, rates: Iterable[float], seeds: int = 1) -> list[Training]:
    """Return the same training with every learning rate and seed.

    A seed is that of the first weights and of the order of the samples; the data stays the same.
    """
    return [
        replace(training, seed=seed, recipe=replace(training.recipe, lr=lr, seed=seed))
        for seed in first_seeds(seeds)
        for lr in rates
    ]


def measured(lab: Lab, training: Training, **how: Any) -> Numbers:
    """Return what a study keeps of a network: how it was trained, how it ended, its law.

    The law as JSON values: D per station, r, ρ, half-life, verdict. Where the order of the samples
    changes them they are medians over several, and ``orders`` has r, ρ and the last D of each.
    ``how`` goes to :meth:`Lab.separation`. A training that diverged has no law: its numbers are
    None and its verdict is "diverged".
    """
    lab.tell(f"measuring {training.describe()}")
    run = lab.run(training)
    numbers: Numbers = {
        "lr": training.recipe.lr, "seed": training.seed, "loss": run.loss, "accuracy": run.accuracy,
        "test_accuracy": run.test_accuracy, "fits": run.accuracy >= FITS,
        "D": None, "D_interval": None, "r": None, "rho": None, "half_life": None, "interval": {},
        "verdict": "diverged", "warnings": [],
    }  # fmt: skip
    if math.isfinite(run.loss):
        orders = lab.orders(training, how.get("split", "train"))
        with quietly():
            laws = [lab.separation(training, order=order, **how) for order in orders]
        numbers |= over_orders([law.values for law in laws])
        numbers |= {"verdict": laws[0].verdict, "warnings": list(laws[0].warnings)}
    return drop_non_finite(numbers)


def over_orders(curves: Sequence[Any]) -> Numbers:
    """Return the medians of D, r, ρ and half-life over D (L,) in several orders of the samples."""
    from lawscope.laws.line import fit_line

    fits = [fit_line(values) for values in curves]
    numbers: Numbers = {
        "D": np.median(curves, axis=0).tolist(),
        "r": statistics.median(fit.pearson for fit in fits),
        "rho": statistics.median(fit.rho for fit in fits),
        "half_life": statistics.median(fit.half_life for fit in fits),
    }
    if len(curves) > 1:
        numbers["orders"] = [
            {"r": fit.pearson, "rho": fit.rho, "last": float(values[-1])}
            for values, fit in zip(curves, fits, strict=True)
        ]
    return numbers


@contextmanager
def quietly() -> Iterator[None]:
    """No warnings of ours inside: a study measures hundreds of networks, and keeps them as text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LawscopeWarning)
        yield


def straightest(runs: Sequence[Numbers]) -> Numbers:
    """Of the runs that fit, the one with the smallest r; where none fits, the most accurate.

    Lines through two points are equally straight; then the lowest D at the last layer decides.
    """
    fitting = [run for run in runs if run["fits"] and run["r"] is not None]
    if not fitting:
        return max(runs, key=lambda run: run["accuracy"] or 0.0)
    return min(fitting, key=lambda run: (round(run["r"], 12), run["D"][-1]))


def choice(
    lab: Lab, trainings: Sequence[Training], stations: str = "layers",
    read: Callable[..., Numbers] = measured,
) -> Numbers:  # fmt: skip
    """Measure every candidate and choose one for each seed."""
    runs = [read(lab, training, stations=stations) for training in trainings]
    seeds = sorted({run["seed"] for run in runs})
    chosen = [straightest([run for run in runs if run["seed"] == seed]) for seed in seeds]
    brief = [{k: v for k, v in r.items() if k not in ("D_interval", "orders")} for r in runs]
    return {"chosen": chosen, "runs": brief}


def training_of(row: Numbers, trainings: Iterable[Training]) -> Training:
    """Return the candidate that a row of numbers belongs to."""
    return next(t for t in trainings if (t.recipe.lr, t.seed) == (row["lr"], row["seed"]))


def pick(panels: Iterable[Numbers], **where: Any) -> Numbers:
    """Return the panel with these settings."""
    for panel in panels:
        if where.items() <= panel.items():
            return panel
    wanted = ", ".join(f"{name} {value}" for name, value in where.items())
    raise NotTried(f"this preset has no panel {wanted}")


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's correlation of two lists."""
    if len(a) < 3 or len(set(a)) < 2 or len(set(b)) < 2:
        raise NotTried("a rank correlation needs three pairs of different numbers")
    from scipy.stats import spearmanr

    return round(float(spearmanr(a, b).statistic), 12)
