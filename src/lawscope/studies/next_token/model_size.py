"""The law at several depths and widths.

``lawscope study run next-token/model-size``: the GPT of ``next-token/training`` with 4, 6 and 12
blocks of width 128, and with widths 64, 128 and 192 in 6 blocks, each trained for 10 000 steps and
measured on 60 000 tokens of held-out text: three seeds, 15 trainings, three of them shared.
"""

from __future__ import annotations

from lawscope.studies.figures import colours, grid
from lawscope.studies.next_token import _family as family
from lawscope.studies.panels import Settings, collect, middle
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

SIZES = {"depth": "depths", "width": "widths"}
LABELS = {"depth": "{depth} blocks", "width": "width {width}"}


def sizes(settings: Settings, name: str) -> list[Training]:
    """Return the networks that differ in depth, or in width, smallest first."""
    each = settings[SIZES[name]]
    return [training for size in each for training in family.gpts(settings, **{name: size})]


def measure(lab: Lab) -> Numbers:
    return {
        name: [
            {name: training.network.settings[name], **family.law_of(lab, training)}
            for training in sizes(lab.settings, name)
        ]
        for name in SIZES
    }


def everywhere(numbers: Numbers) -> dict[str, list[float]]:
    """Return the r of every size; the one that both lists share stands twice."""
    found = (collect(name, label, "r")(numbers) for name, label in LABELS.items())
    return {label: values for each in found for label, values in each.items()}


def direction(measured: Numbers) -> str:
    """Whether the medians only rise or only fall from the smallest size to the largest."""
    values = [middle(each) for each in measured.values()]
    if values == sorted(values):
        return "it rises"
    return "it falls" if values == sorted(values, reverse=True) else "neither"


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, 2, "The law of next-token prediction by model size", (3.8, 2.9))
    for axis, name in zip(axes[0], SIZES, strict=True):
        rows = numbers[name]
        for row, color in zip(rows, colours(len(rows)), strict=True):
            family.draw_pr(
                axis, row["pr"], color=color, line=True, label=f"{row[name]}, {family.short(row)}"
            )
        family.finish_pr(axis, "number of blocks" if name == "depth" else "width")
    family.label_pr(axes)
    return drawing


STUDY = Study(
    title="Depths and widths: PR per block at several sizes",
    source="He & Su 2024, varying model sizes",
    paper="the law with varying model sizes (a picture)",
    minutes={"smoke": 0.1, "cpu": 90, "paper": 20_000},
    settings=family.gpt_presets(
        {"depths": [6, 12, 24], "widths": [128, 256, 512], "seeds": 3},
        {"depths": [4, 6, 12], "widths": [64, 128, 192]},
        {"depths": [4, 5], "widths": [8, 16]},
    ),
    plan=lambda settings: [training for name in SIZES for training in sizes(settings, name)],
    measure=measure,
    claims=(
        Claim(
            "r ≤ −0.9 at every size",
            "the law of equi-learning with varying model sizes",
            everywhere,
            lambda r: r <= family.STRAIGHT,
        ),
    ),
    questions=(
        Question(
            "Of more blocks, does each do less: does ρ rise or fall with the number of blocks?",
            collect("depth", LABELS["depth"], "rho"),
            direction,
        ),
        Question(
            "Does the cross-validated PR of the last block rise or fall with the width?",
            collect("width", LABELS["width"], lambda row: row["pr_cv"][-1]),
            direction,
        ),
    ),
    figure=figure,
    departures=family.DEPARTURES,
)
