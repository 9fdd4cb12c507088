"""PR rises with depth before training, and falls soon after its beginning.

``lawscope study run next-token/training``: PR of every block along the training of a language
model (000, part III). A GPT of 6 blocks, d = 64, rotary positions, on the King James Bible in 512
byte-pair tokens (AdamW, lr 3e-3, 16 windows of 32 tokens a step), measured on 60 000 tokens of
held-out text after 0, 10, 30, 100, 300 and 1000 steps: 3 seeds, about 4 minutes on one core.
``paper`` has 12 blocks, d = 256, 1024 tokens and 20 000 steps; the document's own models are not
trained here.

The document: straight lines in trained models, chaos without training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lawscope.report.study_figures import COLOURS, colours, grid, plain_axis
from lawscope.studies.choice import every, rank_correlation
from lawscope.studies.next_token._figures import X_LABEL, Y_LABEL, draw_pr, finish_pr
from lawscope.studies.next_token._language import GPT, LARGER, TINY, certain, gpts, law_of
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

CPU, PAPER, SMOKE = GPT, LARGER, TINY


def measure(lab: Lab) -> Numbers:
    """The law after every step kept, for every seed."""
    networks = [
        {
            "seed": training.seed,
            "history": [
                {"step": step, **law_of(lab, training, epoch=step)}
                for step in lab.settings["checkpoints"]
            ],
        }
        for training in gpts(lab.settings)
    ]
    return {"networks": networks}


def last_block(numbers: Numbers) -> list[float]:
    """Rank correlation of PR at the last block with the step, one per seed."""
    return [
        rank_correlation([h["step"] for h in n["history"]], [h["pr"][-1] for h in n["history"]])
        for n in numbers["networks"]
    ]


def last_r(numbers: Numbers) -> list[float]:
    """The r at the end, one per seed."""
    return [n["history"][-1]["r"] for n in numbers["networks"]]


CLAIMS = (
    Claim(
        "before training PR rises with depth: the slope of log PR is above 0 for every seed",
        "an untrained network has no law",
        lambda numbers: [n["history"][0]["slope"] for n in numbers["networks"]],
        every(lambda slope: slope > 0),
    ),
    Claim(
        "at the end PR falls with depth: the 95 % interval of the slope is below 0, every seed",
        "PR falls by an equal factor per block",
        lambda numbers: [n["history"][-1]["interval"]["slope"] for n in numbers["networks"]],
        certain(-1),
    ),
    Claim(
        "at the end r ≤ −0.9 for every seed",
        "straight lines",
        last_r,
        every(lambda r: r <= -0.9),
    ),
    Claim(
        "PR of the last block falls along training: rank correlation at most −0.8, every seed",
        "features come to predict the next token",
        last_block,
        every(lambda r: r <= -0.8),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """PR of the first seed at every checkpoint; r and ρ of all seeds over the steps."""
    drawing, ((curves, straightness, ratio),) = grid(
        1, 3, "The law of next-token prediction during training", (3.6, 2.9)
    )
    history = numbers["networks"][0]["history"]
    for at, color in zip(history, colours(len(history), graded=True), strict=True):
        draw_pr(curves, at["pr"], color=color, label=f"step {at['step']}", embedding=False)
    finish_pr(curves, "seed 0")
    curves.set_xlabel(X_LABEL, fontsize=8.5)
    curves.set_ylabel(Y_LABEL, fontsize=8.5)
    for axis, name, title in ((straightness, "r", "r"), (ratio, "rho", "ρ")):
        for network, color in zip(numbers["networks"], COLOURS, strict=False):
            steps = [h["step"] + 1 for h in network["history"]]
            values, label = [h[name] for h in network["history"]], f"seed {network['seed']}"
            axis.plot(steps, values, "o-", color=color, ms=3, lw=1, label=label)
        axis.set_xscale("log")
        axis.set_xlabel("steps + 1", fontsize=8.5)
        plain_axis(axis, title)
    straightness.legend(fontsize=7, frameon=False)
    return drawing


STUDY = Study(
    title="PR per block along training: rising before it, falling after",
    source="000, part III",
    paper="straight lines in trained models",
    minutes={"smoke": 0.1, "cpu": 5, "paper": 3000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=gpts,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
