"""The law holds for each class by itself, a little noisier.

``lawscope study run separation/classwise``: figure 8 of He & Su 2023. D^k = Tr(SSw^k SSb⁺) of every
class k in the 8-layer network of ``separation/optimizers`` (Adam, Fashion-MNIST), each with its own
line and verdict: 15 trainings of 600 epochs that the two studies share; three
seeds.
"""

from __future__ import annotations

import statistics
from typing import Any

from lawscope.documents import drop_non_finite
from lawscope.lazy import np
from lawscope.studies.figures import law_grid
from lawscope.studies.panels import choice, collect, quietly, training_of
from lawscope.studies.plan import Training
from lawscope.studies.separation._family import chosen, he_su_study
from lawscope.studies.separation.test_data import SETTINGS, plan
from lawscope.studies.study import Check, Claim, Figure, Lab, Numbers


def measure(lab: Lab) -> Numbers:
    trainings = plan(lab.settings)
    made = choice(lab, trainings)
    for row in made["chosen"]:
        lab.tell(f"measuring classes, lr {row['lr']:g}, seed {row['seed']}")
        row.update(measure_classes(lab, training_of(row, trainings)))
    return made


def measure_classes(lab: Lab, training: Training) -> Numbers:
    """Measure the law of every class."""
    with quietly():
        law = lab.separation(training)
    weighted = law.classwise @ law.counts / law.counts.sum()
    names = lab.run(training).samples.class_names
    rows = zip(names, map(fit_class, law.classwise.T), strict=True)
    return {
        "classes": [{"name": name, **fit} for name, fit in rows],
        "sum_error": float(np.max(np.abs(weighted / law.values - 1))),
    }


def fit_class(values: Any) -> Numbers:
    """Return line and verdict of one class from D^k, shape (L,)."""
    from lawscope.laws.line import fit_line, log_or_nan
    from lawscope.laws.separation.verdict import judge

    fit = fit_line(values)
    return drop_non_finite({
        "D": values.tolist(), "r": fit.pearson, "rho": fit.rho, "half_life": fit.half_life,
        "interval": {}, "verdict": judge(fit, log_or_nan(values))[0],
    })  # fmt: skip


def count_straight(row: Numbers) -> int:
    return sum(each["r"] is not None and each["r"] <= -0.95 for each in row["classes"])


def noise(row: Numbers) -> float | None:
    rs = [each["r"] for each in row["classes"]]
    return None if None in (row["r"], *rs) else float(statistics.median(rs) - row["r"])


def figure(numbers: Numbers) -> Figure:
    seeds = numbers["chosen"]
    panels = [
        (first["name"], [row["classes"][k] for row in seeds])
        for k, first in enumerate(seeds[0]["classes"])
    ]
    return law_grid([panels], "The law of data separation in each class of Fashion-MNIST")


STUDY = he_su_study(
    title="D of each class by itself: the law holds per class, noisier",
    source="He & Su 2023, figure 8",
    paper="the law emerges in each class, noisier for some",
    minutes={"smoke": 0.1, "cpu": 0.5, "paper": 0.5},
    settings=SETTINGS,
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "r ≤ −0.95 for at least 8 of the 10 classes, of networks that fit",
            "the law emerges in each class",
            chosen("classes with r ≤ −0.95", count_straight),
            lambda count: count >= 8,
        ),
        Claim(
            "the law is noisier by class: the median r of the classes is above r of all together",
            "the noise is reduced when all classes are considered",
            chosen("median r of classes − r", noise),
            lambda difference: difference > 0,
        ),
    ),
    checks=(
        Check(
            "D is the sum of D^k weighted by n_k/n, to a relative error of 1e-9",
            collect("chosen", "error", "sum_error"),
            lambda error: error <= 1e-9,
        ),
    ),
    figure=figure,
)
