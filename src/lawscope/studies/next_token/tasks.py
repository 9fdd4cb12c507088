"""Tasks matter: a masked language model is measured by what it was trained to say.

``lawscope study run next-token/tasks``: the GPT of ``next-token/training`` without its causal mask,
trained to say tokens hidden behind a mask (15 %, as in BERT): 20 000 steps of 32 windows, since a
masked model learns from few tokens a step and learns to attend late. It is measured with its own
task, features at hidden tokens against the hidden token, and with the next token, features of plain
text against the token after each; the causal GPT stands beside it. Three seeds, 6 trainings, three
of them shared.
"""

from __future__ import annotations

from lawscope.lazy import np
from lawscope.studies.figures import grid
from lawscope.studies.next_token import _family as family
from lawscope.studies.panels import Settings, collect, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

MASKED = {"steps": 20_000, "batch": 32, "checkpoints": [0, 20_000]}


def masked(settings: Settings) -> list[Training]:
    return family.gpts({**settings, **settings["masked"]}, causal=False)


def measure(lab: Lab) -> Numbers:
    mask = {"task": "masked", "mask_token": lab.settings["vocabulary"]}
    return {
        "causal": [family.law_of(lab, t, untrained=True) for t in family.gpts(lab.settings)],
        "masked": [family.law_of(lab, t, untrained=True, **mask) for t in masked(lab.settings)],
        "masked_by_next": [by_next_token(lab, t) for t in masked(lab.settings)],
    }


def by_next_token(lab: Lab, training: Training) -> Numbers:
    """PR of the next token in a network that sees it, without holes in the text."""
    from lawscope.laws.line import fit_line
    from lawscope.studies.next_token._features import read_text, residuals_of

    following, blocks = read_text(lab, training)
    pr = [float(residuals_of(block, following[:, None])[0]) for block in blocks]
    fit = fit_line(np.array(pr[1:]))
    return {"pr": pr, "r": fit.pearson, "rho": fit.rho, "slope": fit.slope, "interval": {}}


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, 3, "Tasks matter", (3.4, 2.8))
    left, middle, right = axes[0]
    family.with_control(left, numbers["causal"][0], "causal model, next token")
    family.with_control(middle, numbers["masked"][0], "masked model, hidden token")
    row = numbers["masked_by_next"][0]
    family.draw_pr(right, row["pr"], label=family.short(row))
    family.finish_pr(right, "masked model, next token")
    family.label_pr(axes)
    return drawing


STUDY = Study(
    title="A masked language model, measured with its own task and with next tokens",
    source="He & Su 2024, tasks matter",
    paper="tasks matter (a picture)",
    minutes={"smoke": 0.1, "cpu": 90, "paper": 6000},
    settings=family.gpt_presets(
        {"masked": {"steps": 100_000, "checkpoints": [0, 100_000]}},
        {"tokens": 150_000, "masked": MASKED},
        {"tokens": 8000, "masked": {}},
    ),
    plan=lambda settings: [*family.gpts(settings), *masked(settings)],
    measure=measure,
    claims=(
        Claim(
            "a masked model measured with its own task has r ≤ −0.9",
            "tasks matter: the law is of the task a model was trained for",
            collect("masked", "hidden token", "r"),
            lambda r: r <= family.STRAIGHT,
        ),
        Claim(
            "a masked model measured with next tokens has no straight line: r > −0.9",
            "tasks matter",
            collect("masked_by_next", "next token", "r"),
            lambda r: r > family.STRAIGHT,
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
        **family.DEPARTURES,
        "cpu": "a masked model of 6 blocks, d = 128, instead of BERT",
    },
)
