"""The law holds for each class by itself, a little noisier.

``lawscope study run separation/classwise``: figure 8 of 003. D^k = Tr(SSw^k SSb⁺) of every class k
in the 8-layer network of ``separation/optimizers`` (Adam, Fashion-MNIST), each with its own line,
interval and verdict: 5 trainings of 600 epochs that the two studies share; one seed.

The paper: the law emerges in each class, noisier in some; the noise is reduced over all classes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import choice, every, quietly, training_of
from lawscope.studies.separation.test_data import PAPER, SMOKE, plan
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from lawscope.laws.separation_result import Separation
    from lawscope.studies.finished import Run
    from lawscope.studies.lab import Lab

FOLDS = 10


def measure(lab: Lab) -> Numbers:
    """Every class of the chosen network of each seed, beside all candidates."""
    trainings = plan(lab.settings)
    made = choice(lab, trainings)
    for row in made["chosen"]:
        lab.tell(f"measuring classes, lr {row['lr']:g}, seed {row['seed']}")
        row.update(by_class(lab, lab.run(training_of(row, trainings))))
    return made


def by_class(lab: Lab, run: Run) -> Numbers:
    """The law of every class, with a delete-a-group jackknife over stratified folds.

    Returns:
        ``classes``, one row each; ``sum_error``, the largest relative difference over layers
        between D and Σ_k n_k/n D^k.
    """
    import numpy as np

    from lawscope.laws.separation import separation

    network, samples = run.network(), run.samples

    def of_classes(x: Tensor, y: Tensor) -> Separation:
        return separation(network, lab.batches(x, y), uncertainty=None, mode=lab.mode)

    with quietly():
        law = of_classes(samples.x, samples.y)
        parts = all_but_one_fold(samples.x, samples.y)
        without = [of_classes(*part).classwise for part in parts]
    again = np.stack(without)
    weighted = law.classwise @ law.counts / law.counts.sum()
    return {
        "classes": [
            {"name": name, **class_law(law.classwise[:, k], again[:, :, k])}
            for k, name in enumerate(samples.class_names)
        ],
        "sum_error": float(np.max(np.abs(weighted / law.values - 1))),
    }


def all_but_one_fold(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The data without each fold in turn; the samples of a class are dealt out in order."""
    import torch

    fold = torch.empty_like(y)
    for label in y.unique():
        rows = torch.nonzero(y == label).flatten()
        fold[rows] = torch.arange(len(rows)) % FOLDS
    for left_out in range(FOLDS):
        yield x[fold != left_out], y[fold != left_out]


def class_law(values: Any, again: Any) -> Numbers:
    """Line, interval and verdict of one class from D^k, shape (L,), and its replicates."""
    import numpy as np

    from lawscope.laws.line import fit_line, log_or_nan
    from lawscope.laws.separation_result import finite
    from lawscope.laws.uncertainty import Replicates
    from lawscope.laws.verdict import judge

    curve, replicates = log_or_nan(values), Replicates(log_or_nan(again), "jackknife")
    fit = fit_line(values, replicates)
    low, high = replicates.interval(lambda c: c, curve)
    numbers: Numbers = finite(
        {
            "D": values.tolist(),
            "D_interval": np.exp(np.stack([low, high], axis=1)).tolist(),
            "r": fit.pearson,
            "rho": fit.rho,
            "half_life": fit.half_life,
            "interval": {"r": fit.interval["pearson"], "rho": fit.interval["rho"]},
            "verdict": judge(fit, curve, replicates)[0],
        }
    )
    return numbers


def straight_classes(numbers: Numbers) -> list[int | None]:
    """How many classes have r ≤ −0.95, per seed; None for a network that does not fit."""
    return [
        sum(each["r"] is not None and each["r"] <= -0.95 for each in row["classes"])
        if row["fits"]
        else None
        for row in numbers["chosen"]
    ]


def noise(numbers: Numbers) -> list[float | None]:
    """Median r of the classes minus r of all together, per seed; None where it does not fit."""
    found = []
    for row in numbers["chosen"]:
        rs = [each["r"] for each in row["classes"]]
        told = row["fits"] and None not in (row["r"], *rs)
        found.append(statistics.median(rs) - row["r"] if told else None)
    return found


CLAIMS = (
    Claim(
        "every network fits and has r ≤ −0.95 for at least 8 of the 10 classes",
        "the law emerges in each class",
        straight_classes,
        every(lambda count: count >= 8),
    ),
    Claim(
        "the law is noisier by class: every network fits, and the median r of its classes is above "
        "r of all together",
        "the noise is reduced when all classes are considered",
        noise,
        every(lambda difference: difference > 0),
    ),
    Claim(
        "D is the sum of D^k weighted by n_k/n, to a relative error of 1e-9",
        "by definition",
        lambda numbers: max(row["sum_error"] for row in numbers["chosen"]),
        lambda error: error <= 1e-9,
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One panel per class, in rows of five."""
    seeds = numbers["chosen"]
    panels = [
        (first["name"], [row["classes"][k] for row in seeds])
        for k, first in enumerate(seeds[0]["classes"])
    ]
    rows = [panels[i : i + 5] for i in range(0, len(panels), 5)]
    return law_grid(rows, "The law of data separation in each class of Fashion-MNIST")


STUDY = Study(
    title="D of each class by itself: the law holds per class, noisier",
    source="003, figure 8",
    paper="the law emerges in each class, noisier for some",
    minutes={"smoke": 0.1, "cpu": 0.5, "paper": 0.5},
    settings={"smoke": SMOKE, "cpu": PAPER, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
