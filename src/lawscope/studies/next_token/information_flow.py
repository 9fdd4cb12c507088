"""Along the blocks features lose the current token and gain the next.

``lawscope study run next-token/information-flow``: PR with four targets at once, the previous, the
current, the next and the next-next token, in the GPT of ``next-token/training`` beside the weights
it began from: 3 seeds, trainings shared, under a minute on one core for the measurement.

The document: features of a token turn from what it is into what comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lawscope.report.study_figures import COLOURS, grid, label_outside
from lawscope.studies.choice import quietly
from lawscope.studies.next_token._figures import X_LABEL, Y_LABEL, draw_pr, finish_pr, short
from lawscope.studies.next_token._language import GPT, LARGER, TINY, certain, gpts, numbers_of
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

TARGETS = ("next", "previous", "current", "next-next")
CPU, PAPER, SMOKE = GPT, LARGER, TINY


def measure(lab: Lab) -> Numbers:
    """Every target in every network."""
    networks = []
    for training in gpts(lab.settings):
        lab.tell(f"measuring {training.describe()}")
        with quietly():
            found = lab.next_token(
                training, tokens=lab.settings["tokens"], untrained=True, targets=TARGETS
            )
        targets = {name: numbers_of(result) for name, result in found.targets.items()}
        networks.append({"seed": training.seed, "targets": targets})
    return {"networks": networks}


def slopes(target: str) -> Callable[[Numbers], list[list[float]]]:
    """The interval of the slope for one target, one per seed."""
    return lambda numbers: [
        network["targets"][target]["interval"]["slope"] for network in numbers["networks"]
    ]


CLAIMS = (
    Claim(
        "PR of the next token falls with depth: its slope is below 0 at the 95 % level, every seed",
        "the next token is learned block by block",
        slopes("next"),
        certain(-1),
    ),
    Claim(
        "PR of the current token rises with depth: its slope is above 0 at the 95 % level, every "
        "seed",
        "the current token is forgotten",
        slopes("current"),
        certain(1),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One panel per target: trained and untrained, the first seed."""
    drawing, axes = grid(1, len(TARGETS), "Information flow: PR by target", (2.9, 2.8))
    first = numbers["networks"][0]["targets"]
    order = ("previous", "current", "next", "next-next")
    for axis, target, color in zip(axes[0], order, COLOURS, strict=False):
        row = first[target]
        draw_pr(axis, row["pr"], color=color, label=f"trained, {short(row)}")
        draw_pr(
            axis, row["control"]["pr"], color="0.6", label=f"untrained, {short(row['control'])}"
        )
        finish_pr(axis, f"the {target} token")
    label_outside(axes, X_LABEL, Y_LABEL)
    return drawing


STUDY = Study(
    title="Previous, current, next, next-next: what features know, block by block",
    source="000, part III",
    paper="the next token comes, the current one goes",
    minutes={"smoke": 0.1, "cpu": 5, "paper": 3000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=gpts,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
