"""Tasks matter: a masked language model is measured by what it was trained to say.

``lawscope study run next-token/tasks``: the GPT of ``next-token/training`` without its causal mask,
trained to say tokens hidden behind a mask (15 %, as in BERT): 2000 steps of 32 windows, since a
masked model is told of few tokens a step and learns to attend late. It is measured with its own
task, features at hidden tokens against the hidden token, and with the next token, features of plain
text against the token after each; the causal GPT stands beside it. 2 trainings, one shared, one
seed, about 3 minutes on one core.

The document: "tasks matter", a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import grid, label_outside
from lawscope.studies.choice import every
from lawscope.studies.next_token._figures import (
    X_LABEL,
    Y_LABEL,
    draw_pr,
    finish_pr,
    short,
    with_control,
)
from lawscope.studies.next_token._language import (
    GPT,
    LARGER,
    TINY,
    each,
    law_of,
    training_of,
)
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

MASKED: dict[str, Any] = {"steps": 2000, "batch": 32, "checkpoints": [0, 2000]}
CPU: dict[str, Any] = {**GPT, "tokens": 150_000, "masked": MASKED, "seeds": 1}
PAPER: dict[str, Any] = {
    **LARGER,
    "masked": {"steps": 100_000, "checkpoints": [0, 100_000]},
}
SMOKE: dict[str, Any] = {**TINY, "tokens": 8000, "masked": {}}
KINDS = ("causal", "masked")


def trained(settings: Mapping[str, Any], kind: str) -> list[Training]:
    """The networks of one kind; those that are causal are the ones of ``next-token/training``."""
    seeds = range(settings["seeds"])
    if kind == "causal":
        return [training_of(settings, seed) for seed in seeds]
    masked = {**settings, **settings["masked"]}
    return [training_of(masked, seed, causal=False) for seed in seeds]


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """Both kinds."""
    return [training for kind in KINDS for training in trained(settings, kind)]


def measure(lab: Lab) -> Numbers:
    """Each kind with its own task, and the masked one with next tokens too."""
    mask = {"task": "masked", "mask_token": lab.settings["vocabulary"]}
    masked = trained(lab.settings, "masked")
    return {
        "causal": [law_of(lab, t, untrained=True) for t in trained(lab.settings, "causal")],
        "masked": [law_of(lab, t, untrained=True, **mask) for t in masked],
        "masked_by_next": [by_next_token(lab, training) for training in masked],
    }


def by_next_token(lab: Lab, training: Training) -> Numbers:
    """PR of the next token in a network that sees it, without holes in the text."""
    import numpy as np

    from lawscope.laws.line import fit_line
    from lawscope.studies.next_token._features import features_of, residuals_of

    run = lab.run(training)
    windows = run.samples.x_test[: lab.settings["tokens"] // lab.settings["window"]]
    following = windows[:, 1:].reshape(-1, 1)
    pr = [
        float(residuals_of(block[:, :-1].flatten(0, 1), following)[0])
        for block in features_of(run.network(), windows)
    ]
    fit = fit_line(np.array(pr[1:]))
    return {"pr": pr, "r": fit.pearson, "rho": fit.rho, "slope": fit.slope, "interval": {}}


CLAIMS = (
    Claim(
        "a masked model measured with its own task: slope above 0 untrained and below 0 trained",
        "the law holds for the matching task",
        lambda numbers: [
            {"untrained": row["control"]["slope"], "trained": row["slope"], "r": row["r"]}
            for row in numbers["masked"]
        ],
        lambda rows: bool(rows) and all(r["untrained"] > 0 > r["trained"] for r in rows),
    ),
    Claim(
        "measured with its own task it has r ≤ −0.9",
        "a picture",
        lambda numbers: each(numbers["masked"], "r"),
        every(lambda r: r <= -0.9),
    ),
    Claim(
        "measured with next tokens the same network has no such line: r > −0.9",
        "tasks matter",
        lambda numbers: each(numbers["masked_by_next"], "r"),
        every(lambda r: r > -0.9),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """The causal network, the masked one with its task, and with next tokens."""
    drawing, axes = grid(1, 3, "Tasks matter", (3.4, 2.8))
    left, middle, right = axes[0]
    with_control(left, numbers["causal"][0], "causal model, next token")
    with_control(middle, numbers["masked"][0], "masked model, hidden token")
    row = numbers["masked_by_next"][0]
    draw_pr(right, row["pr"], label=short(row))
    finish_pr(right, "masked model, next token")
    label_outside(axes, X_LABEL, Y_LABEL)
    return drawing


STUDY = Study(
    title="A masked language model, measured with its own task and with next tokens",
    source="000, part III",
    paper="tasks matter (a picture)",
    minutes={"smoke": 0.1, "cpu": 3, "paper": 6000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
