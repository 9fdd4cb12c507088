"""Along the blocks features lose the current token and gain the next.

``lawscope study run next-token/information-flow``: PR with four targets at once, the previous, the
current, the next and the next-next token, in the GPT of ``next-token/training`` beside the weights
it began from: 3 seeds, trainings shared, under a minute on one core for the measurement.
"""

from __future__ import annotations

from typing import Any

from lawscope.studies.figures import COLOURS, grid
from lawscope.studies.next_token import _family as family
from lawscope.studies.panels import collect, quietly
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Study

TARGETS = ("next", "previous", "current", "next-next")


def measure(lab: Lab) -> Numbers:
    networks, how = [], {"tokens": lab.settings["tokens"], "untrained": True, "targets": TARGETS}
    for training in family.gpts(lab.settings):
        lab.tell(f"measuring {training.describe()}")
        with quietly():
            found = lab.next_token(training, **how).targets
        targets = {name: family.numbers_of(result) for name, result in found.items()}
        networks.append({"seed": training.seed, "targets": targets})
    return {"networks": networks}


def slope_end(target: str, end: int) -> Any:
    """Read the lower (0) or upper (1) end of the 95 % interval of the slope of one target."""
    return collect(
        "networks", family.OURS, lambda n: n["targets"][target]["interval"]["slope"][end]
    )


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, len(TARGETS), "Information flow: PR by target", (2.9, 2.8))
    first = numbers["networks"][0]["targets"]
    order = ("previous", "current", "next", "next-next")
    for axis, target, color in zip(axes[0], order, COLOURS, strict=False):
        row, control = first[target], first[target]["control"]
        family.draw_pr(axis, row["pr"], color=color, label=f"trained, {family.short(row)}")
        family.draw_pr(
            axis, control["pr"], color="0.6", label=f"untrained, {family.short(control)}"
        )
        family.finish_pr(axis, f"the {target} token")
    family.label_pr(axes)
    return drawing


STUDY = Study(
    title="Previous, current, next, next-next: what features know, block by block",
    source="He & Su 2024, information flow",
    paper="the next token comes, the current one goes",
    minutes={"smoke": 0.1, "cpu": 20, "paper": 3000},
    settings=family.gpt_presets(),
    plan=family.gpts,
    measure=measure,
    claims=(
        Claim(
            "PR of the next token falls with depth: the 95 % interval of its slope ends below 0",
            "the next token is learned block by block",
            slope_end("next", 1),
            lambda slope: slope < 0,
        ),
        Claim(
            "PR of the current token rises with depth: the 95 % interval of its slope begins above "
            "0",
            "the current token is forgotten",
            slope_end("current", 0),
            lambda slope: slope > 0,
        ),
    ),
    figure=figure,
    departures=family.DEPARTURES,
)
