"""Fine-tuning all layers brings the law back to a network that fits without it.

``lawscope study run separation/reactivation``: a sentence of 003 ("Training"), tried out. 20-layer
networks on CIFAR-10 from two-stage frozen training, as in separation/frozen, are trained on with
all layers learning, with every learning rate: 9 further trainings of 600 epochs for three seeds.
That one can fine-tune to a straight line is judged by the best learning rate, as the paper chooses;
that fine-tuning straightens the line, without a choice: at the one learning rate of before.

The paper: one can fine-tune to reactivate the law with about the same or better test performance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import choice, every, measured, of_fitting, pick
from lawscope.studies.plan import Training
from lawscope.studies.separation import frozen
from lawscope.studies.separation._over_seeds import differences, on_average
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {**frozen.PAPER, "frozen_lr": 1e-3}
CPU = {**frozen.CPU, "frozen_lr": 1e-3}
SMOKE = {**frozen.SMOKE, "frozen_lr": 1e-3}


def before(settings: Mapping[str, Any]) -> list[Training]:
    """The frozen-trained networks at one learning rate, one per seed."""
    return frozen.frozen({**settings, "rates": [settings["frozen_lr"]]})


def after(settings: Mapping[str, Any]) -> list[Training]:
    """Each of them trained on, all layers, with every learning rate."""
    return [
        replace(
            start,
            recipe=replace(start.recipe, lr=lr),
            start=start,
            trained=None,
        )
        for start in before(settings)
        for lr in settings["rates"]
    ]


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """The fine-tuned networks; what they begin from comes along, and is measured too."""
    return [*before(settings), *after(settings)]


def measure(lab: Lab) -> Numbers:
    """The networks before, and the chosen ones after."""
    return {
        "before": {"chosen": [measured(lab, training) for training in before(lab.settings)]},
        "after": choice(lab, after(lab.settings)),
    }


def at_same_rate(numbers: Numbers) -> list[Numbers]:
    """The networks after, each fine-tuned with the learning rate it was trained with before.

    Before there is one learning rate and nothing to choose; the straightest of several after would
    be straighter by the choice alone.
    """
    runs = numbers["after"]["runs"]
    return [pick(runs, lr=row["lr"], seed=row["seed"]) for row in numbers["before"]["chosen"]]


def gain(after: list[Numbers], numbers: Numbers, name: str) -> list[float | None]:
    """These networks after minus those before, seed by seed."""
    return differences(after, numbers["before"]["chosen"], name)


CLAIMS = (
    Claim(
        "the frozen-trained networks fit and are less straight: each has r > −0.99",
        "the law is sometimes not observed in networks with good performance",
        lambda numbers: of_fitting([numbers["before"]], "r"),
        every(lambda r: r > -0.99),
    ),
    Claim(
        "after fine-tuning with the learning rate that gives the straightest line, every network "
        "fits its training set and has r ≤ −0.99",
        "one can fine-tune the parameters to reactivate the law",
        lambda numbers: of_fitting([numbers["after"]], "r"),
        every(lambda r: r <= -0.99),
    ),
    Claim(
        "fine-tuning makes the line straighter: at the learning rate of before r is lower than "
        "before, mean over ≥ 3 seeds",
        "reactivate the law",
        lambda numbers: gain(at_same_rate(numbers), numbers, "r"),
        on_average(lambda mean: mean < 0),
    ),
    Claim(
        "test accuracy of the straightest is not worse than before, mean over ≥ 3 seeds",
        "about the same or better test performance",
        lambda numbers: gain(numbers["after"]["chosen"], numbers, "test_accuracy"),
        on_average(lambda mean: mean >= 0),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Before and after side by side; further seeds faintly behind the first."""
    row = []
    for name in ("before", "after"):
        first = numbers[name]["chosen"][0]
        title = (
            f"{name} fine-tuning\nlr {first['lr']:g}, test accuracy {first['test_accuracy']:.1%}"
        )
        row.append((title, numbers[name]["chosen"]))
    return law_grid([row], "Fine-tuning all layers of a frozen-trained network")


STUDY = Study(
    title="Fine-tuning all layers reactivates the law in a frozen-trained network",
    source="003, Training",
    paper="the law can be reactivated with about the same or better test performance",
    minutes={"smoke": 0.1, "cpu": 3, "paper": 8},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
