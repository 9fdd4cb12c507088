"""PR rises with depth before training, and falls soon after its beginning.

``lawscope study run next-token/training``: PR of every block along the training of a language
model. A GPT of 6 blocks, d = 128, rotary positions, on the King James Bible in 512 byte-pair tokens
(AdamW, lr 3e-3, 16 windows of 32 tokens a step), measured on 60 000 tokens of held-out text after
0, 10, 30, 100, 300, 1000, 3000 and 10 000 steps: 3 seeds. ``paper`` has 12 blocks, d = 256, 1024
tokens and 20 000 steps; the paper's own models are not trained here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lawscope.studies.figures import COLOURS, colours, grid, legend_below, plain_axis
from lawscope.studies.next_token import _family as family
from lawscope.studies.panels import yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study


def measure(lab: Lab) -> Numbers:
    def along(training: Training) -> Numbers:
        steps = lab.settings["checkpoints"]
        history = [{"step": step, **family.law_of(lab, training, epoch=step)} for step in steps]
        return {"seed": training.seed, "history": history}

    return {"networks": [along(training) for training in family.gpts(lab.settings)]}


def of_history(read: Callable[[Any], float]) -> Callable[[Numbers], dict[str, list[float]]]:
    """One number of the history of every network."""
    return family.of_networks(lambda network: read(network["history"]))


def figure(numbers: Numbers) -> Figure:
    title = "The law of next-token prediction during training"
    drawing, ((curves, straightness, ratio),) = grid(1, 3, title, (3.6, 2.9))
    history = numbers["networks"][0]["history"]
    # Finished before anything is drawn: its legend would lie on curves.
    family.finish_pr(curves, f"seed {numbers['networks'][0]['seed']}")
    for at, color in zip(history, colours(len(history)), strict=True):
        family.draw_pr(curves, at["pr"], color=color, label=f"step {at['step']}", embedding=False)
    family.label_pr([[curves]])
    for axis, name, heading in ((straightness, "r", "r"), (ratio, "rho", "ρ")):
        for network, color in zip(numbers["networks"], COLOURS, strict=False):
            steps = [h["step"] + 1 for h in network["history"]]
            values, label = [h[name] for h in network["history"]], f"seed {network['seed']}"
            axis.plot(steps, values, "o-", color=color, ms=3, lw=1, label=label)
        axis.set_xlabel("steps + 1", fontsize=8.5)
        plain_axis(axis, heading, xscale="log")
    straightness.legend(fontsize=7, frameon=False)
    legend_below(drawing, ncols=len(history))
    return drawing


STUDY = Study(
    title="PR per block along training: rising before it, falling after",
    source="He & Su 2024, experiments",
    paper="straight lines in trained models",
    minutes={"smoke": 0.1, "cpu": 20, "paper": 3000},
    settings=family.gpt_presets(),
    plan=family.gpts,
    measure=measure,
    claims=(
        Claim(
            "at the end of training PR falls by an equal factor per block: r ≤ −0.9",
            "straight lines",
            of_history(lambda h: h[-1]["r"]),
            lambda r: r <= family.STRAIGHT,
        ),
    ),
    questions=(
        Question(
            "Before training, does PR rise with depth (slope of log PR)?",
            of_history(lambda h: h[0]["slope"]),
            yes_or_no(lambda slope: slope > 0),
        ),
        Question(
            "At the end of training, does PR certainly fall with depth (upper end of the 95 % "
            "interval of the slope)?",
            of_history(lambda h: h[-1]["interval"]["slope"][1]),
            yes_or_no(lambda slope: slope < 0),
        ),
        Question(
            "Does PR of the last block fall along training (last over first checkpoint)?",
            of_history(lambda h: h[-1]["pr"][-1] / h[0]["pr"][-1]),
            yes_or_no(lambda ratio: ratio < 1),
        ),
    ),
    figure=figure,
    departures=family.DEPARTURES,
)
