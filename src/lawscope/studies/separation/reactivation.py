"""Fine-tuning all layers brings the law back to a network that fits without it.

``lawscope study run separation/reactivation``: a sentence of He & Su 2023 ("Training"), tried out.
20-layer networks on CIFAR-10 from two-stage frozen training, as in separation/frozen, are trained
on with all layers learning, with every learning rate: 15 further trainings of 600 epochs for three
seeds. That one can fine-tune to a straight line is judged by the best learning rate, as the paper
chooses, against the standard training of separation/frozen; that fine-tuning straightens the line,
without a choice: at the one learning rate of before.
"""

from __future__ import annotations

from dataclasses import replace
from operator import sub
from typing import Any

from lawscope.studies.panels import Settings, choice, compare, measured, pick
from lawscope.studies.plan import Training
from lawscope.studies.separation import frozen
from lawscope.studies.separation._family import between, he_su_study
from lawscope.studies.study import Claim, Lab, NotTried, Numbers

NAMES = {"before": "before fine-tuning", "after": "after fine-tuning"}


def before(settings: Settings) -> list[Training]:
    return frozen.frozen({**settings, "rates": [settings["frozen_lr"]]})


def after(settings: Settings) -> list[Training]:
    """Return each of them trained on, all layers, with every learning rate."""
    return [
        replace(start, recipe=replace(start.recipe, lr=lr), start=start, trained=None)
        for start in before(settings)
        for lr in settings["rates"]
    ]


def measure(lab: Lab) -> Numbers:
    return {
        "before": {"chosen": [measured(lab, training) for training in before(lab.settings)]},
        "after": choice(lab, after(lab.settings)),
        "standard": choice(lab, frozen.standard(lab.settings)),
    }


def excess_r(numbers: Numbers) -> dict[str, list[Any]]:
    """Return r after fine-tuning minus the highest r of standard training over seeds."""
    standard = [row["r"] for row in numbers["standard"]["chosen"] if row["fits"]]
    if not standard:
        raise NotTried("no network of standard training fits")
    rows, highest = numbers["after"]["chosen"], max(standard)
    excess = [row["r"] - highest if row["fits"] else None for row in rows]
    return {"r − highest r of standard training": excess}


def straightened(numbers: Numbers) -> dict[str, list[Any]]:
    """Return how r changes, fine-tuned with the learning rate of before.

    Before there is one learning rate and nothing to choose; the straightest of several after would
    be straighter by the choice alone.
    """
    rows, runs = numbers["before"]["chosen"], numbers["after"]["runs"]
    same = [pick(runs, lr=row["lr"], seed=row["seed"]) for row in rows]
    return {"r after − before": compare(same, rows, "r", sub)}


STUDY = he_su_study(
    title="Fine-tuning all layers reactivates the law in a frozen-trained network",
    source="He & Su 2023, Training",
    paper="the law can be reactivated with about the same or better test performance",
    minutes={"smoke": 0.1, "cpu": 8, "paper": 8},
    settings={name: {**each, "frozen_lr": 1e-3} for name, each in frozen.SETTINGS.items()},
    plan=lambda settings: [*before(settings), *after(settings), *frozen.standard(settings)],
    measure=measure,
    claims=(
        Claim(
            "fine-tuned with the best learning rate, the network fits and is as straight as "
            "standard training within its spread (r not above its highest)",
            "one can fine-tune the parameters to reactivate the law",
            excess_r,
            lambda excess: excess <= 0,
        ),
        Claim(
            "fine-tuning with the earlier learning rate makes the line straighter (r lower)",
            "reactivate the law",
            straightened,
            lambda difference: difference < 0,
        ),
        Claim(
            "test accuracy of the straightest fine-tuned network is not below that before "
            "fine-tuning",
            "about the same or better test performance",
            between("test accuracy after − before", "test_accuracy", sub, "after", "before"),
            lambda difference: difference >= 0,
        ),
    ),
    figure=lambda numbers: frozen.draw_before_after(
        numbers, NAMES, "Fine-tuning all layers of a frozen-trained network"
    ),
)
