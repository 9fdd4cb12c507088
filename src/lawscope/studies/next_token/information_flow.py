"""Along the blocks features lose the current token and gain the next.

``lawscope study run next-token/information-flow``: PR with four targets at once, the previous, the
current, the next and the next-next token, in the GPT of ``next-token/training`` beside the weights
it began from: 3 seeds, trainings shared, under a minute on one core for the measurement.

The paper: features of a token turn from what it is into what comes next.
"""

from __future__ import annotations

from typing import Any

from lawscope.studies.figures import COLOURS, grid
from lawscope.studies.next_token import Figure, Lab
from lawscope.studies.next_token._figures import draw_pr, finish_pr, label_pr, short
from lawscope.studies.next_token._language import DEPARTURES, OURS, gpt_presets, gpts, numbers_of
from lawscope.studies.panels import collect, quietly
from lawscope.studies.study import Claim, Numbers, Study

TARGETS = ("next", "previous", "current", "next-next")


def measure(lab: Lab) -> Numbers:
    networks = []
    for training in gpts(lab.settings):
        lab.tell(f"measuring {training.describe()}")
        with quietly():
            tokens = lab.settings["tokens"]
            found = lab.next_token(training, tokens=tokens, untrained=True, targets=TARGETS)
        targets = {name: numbers_of(result) for name, result in found.targets.items()}
        networks.append({"seed": training.seed, "targets": targets})
    return {"networks": networks}


def slope_end(target: str, end: int) -> Any:
    """The lower (0) or upper (1) end of the 95 % interval of the slope, for one target."""
    return collect("networks", OURS, lambda n: n["targets"][target]["interval"]["slope"][end])


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, len(TARGETS), "Information flow: PR by target", (2.9, 2.8))
    first = numbers["networks"][0]["targets"]
    order = ("previous", "current", "next", "next-next")
    for axis, target, color in zip(axes[0], order, COLOURS, strict=False):
        row, control = first[target], first[target]["control"]
        draw_pr(axis, row["pr"], color=color, label=f"trained, {short(row)}")
        draw_pr(axis, control["pr"], color="0.6", label=f"untrained, {short(control)}")
        finish_pr(axis, f"the {target} token")
    label_pr(axes)
    return drawing


STUDY = Study(
    title="Previous, current, next, next-next: what features know, block by block",
    source="He & Su 2024, information flow",
    paper="the next token comes, the current one goes",
    minutes={"smoke": 0.1, "cpu": 5, "paper": 3000},
    settings=gpt_presets(),
    plan=gpts,
    measure=measure,
    claims=(
        Claim(
            "PR of the next token falls with depth: the 95 % interval of its slope ends below 0",
            "the next token is learned block by block",
            slope_end("next", 1),
            lambda slope: bool(slope < 0),
        ),
        Claim(
            "PR of the current token rises with depth: the 95 % interval of its slope begins above "
            "0",
            "the current token is forgotten",
            slope_end("current", 0),
            lambda slope: bool(slope > 0),
        ),
    ),
    figure=figure,
    departures=DEPARTURES,
)
