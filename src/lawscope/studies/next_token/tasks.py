"""Tasks matter: a masked language model is measured by what it was trained to say.

``lawscope study run next-token/tasks``: the GPT of ``next-token/training`` without its causal mask,
trained to say tokens hidden behind a mask (15 %, as in BERT): 2000 steps of 32 windows, since a
masked model learns from few tokens a step and learns to attend late. It is measured with its own
task, features at hidden tokens against the hidden token, and with the next token, features of plain
text against the token after each; the causal GPT stands beside it. 2 trainings, one shared, one
seed, about 3 minutes on one core.

The paper (He & Su 2024): "tasks matter", a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lawscope.studies.figures import grid
from lawscope.studies.next_token import Figure, Lab
from lawscope.studies.next_token._figures import draw_pr, finish_pr, label_pr, short, with_control
from lawscope.studies.next_token._language import (
    DEPARTURES,
    STRAIGHT,
    gpt_presets,
    gpts,
    law_of,
    training_of,
)
from lawscope.studies.panels import collect, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Numbers, Question, Study

MASKED = {"steps": 2000, "batch": 32, "checkpoints": [0, 2000]}


def masked(settings: Mapping[str, Any]) -> list[Training]:
    changed = {**settings, **settings["masked"]}
    return [training_of(changed, seed, causal=False) for seed in range(settings["seeds"])]


def measure(lab: Lab) -> Numbers:
    mask = {"task": "masked", "mask_token": lab.settings["vocabulary"]}
    return {
        "causal": [law_of(lab, t, untrained=True) for t in gpts(lab.settings)],
        "masked": [law_of(lab, t, untrained=True, **mask) for t in masked(lab.settings)],
        "masked_by_next": [by_next_token(lab, t) for t in masked(lab.settings)],
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


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, 3, "Tasks matter", (3.4, 2.8))
    left, middle, right = axes[0]
    with_control(left, numbers["causal"][0], "causal model, next token")
    with_control(middle, numbers["masked"][0], "masked model, hidden token")
    row = numbers["masked_by_next"][0]
    draw_pr(right, row["pr"], label=short(row))
    finish_pr(right, "masked model, next token")
    label_pr(axes)
    return drawing


STUDY = Study(
    title="A masked language model, measured with its own task and with next tokens",
    source="He & Su 2024, tasks matter",
    paper="tasks matter (a picture)",
    minutes={"smoke": 0.1, "cpu": 3, "paper": 6000},
    settings=gpt_presets(
        {"masked": {"steps": 100_000, "checkpoints": [0, 100_000]}},
        {"tokens": 150_000, "masked": MASKED, "seeds": 1},
        {"tokens": 8000, "masked": {}},
    ),
    plan=lambda settings: [*gpts(settings), *masked(settings)],
    measure=measure,
    claims=(
        Claim(
            "a masked model measured with its own task has r ≤ −0.9",
            "tasks matter: the law is of the task a model was trained for",
            collect("masked", "hidden token", "r"),
            lambda r: bool(r <= STRAIGHT),
        ),
        Claim(
            "measured with next tokens the same network has no such line: r > −0.9",
            "tasks matter",
            collect("masked_by_next", "next token", "r"),
            lambda r: bool(r > STRAIGHT),
        ),
    ),
    questions=(
        Question(
            "With its own task, does PR rise with depth in the untrained network (slope of log "
            "PR)?",
            collect("masked", "hidden token", lambda row: row["control"]["slope"]),
            yes_or_no(lambda slope: slope > 0),
        ),
    ),
    figure=figure,
    departures={
        **DEPARTURES,
        "cpu": "a masked model of 6 blocks, d = 64, and one seed instead of BERT",
    },
)
