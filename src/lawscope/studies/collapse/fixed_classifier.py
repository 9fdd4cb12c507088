"""Does a classifier fixed to a simplex keep the minority apart?

``lawscope study run collapse/fixed-classifier``: the open question "other approaches such as fixing
the classifiers?" (Fang et al. 2021). The imbalanced networks of collapse/oversampling, K_A = 3, 5,
7, trained in three ways: plain, oversampled with w_r = R, and with the classifier fixed to a
simplex ETF of the norm that its first weights had. A fixed classifier has its angles given; what
can still collapse are the minority's centred class means.

``cpu``: 4-layer feed-forward networks on 6000 and 6 images at 10×10, R = 1000, 3 seeds:
27 trainings, 18 of them shared with collapse/oversampling.
"""

from __future__ import annotations

from typing import Any

from lawscope.studies.collapse import _networks as networks
from lawscope.studies.collapse._networks import LABEL, Cell, change
from lawscope.studies.figures import COLOURS, draw_seeds, grid, label_outside, plain_axis
from lawscope.studies.panels import Settings, collect, presets, spread, yes_or_no
from lawscope.studies.study import Figure, Lab, Numbers, Question, Study

WAYS = {"plain": "plain", "oversampled": "oversampled, w_r = R", "fixed": "fixed simplex"}
PAPER: dict[str, Any] = {
    **networks.PAPER, "networks": {"VGG11": networks.VGG11}, "majorities": [3, 5, 7], "ratio": 1000,
}  # fmt: skip
CPU = {**PAPER, **networks.CPU}
SMOKE = {**networks.SMOKE, "majorities": [5], "ratio": 10}


def cells_of(settings: Settings, network: str, majority: int) -> list[Cell]:
    ratio = settings["ratio"]
    return [
        Cell(network, majority, ratio),
        Cell(network, majority, ratio, ratio),
        Cell(network, majority, ratio, simplex=True),
    ]


def measure(lab: Lab) -> Numbers:
    rows = []
    for network, majority in networks.panels_of(lab.settings):
        cells = zip(WAYS, cells_of(lab.settings, network, majority), strict=True)
        found = {way: networks.read_cell(lab, cell) for way, cell in cells}
        rows.append({"network": network, "majority": majority, "ways": found})
    return {"ratio": lab.settings["ratio"], "rows": rows}


def against(way: str, name: str) -> Any:
    return collect("rows", LABEL, lambda r: change(r["ways"]["fixed"], r["ways"][way], name))


def table(numbers: Numbers) -> list[list[str]]:
    titles = ["network", "K_A", "training", "cosine of classifiers", "cosine of class means",
              "minority accuracy", "overall accuracy"]  # fmt: skip
    lines = []
    for row in numbers["rows"]:
        for way, rows in row["ways"].items():
            cosines = (spread(rows, name, 2) for name in ("cosine", "mean_cosine"))
            shares = ("minority_accuracy", "test_accuracy")
            percents = (spread(rows, name, 1, 100) for name in shares)
            lines.append([row["network"], str(row["majority"]), WAYS[way], *cosines, *percents])
    return [titles, *lines]


def figure(numbers: Numbers) -> Figure:
    shown = {
        "mean_cosine": "cosine of minority class means",
        "minority_accuracy": "minority test accuracy",
        "test_accuracy": "overall test accuracy",
    }
    heading = f"Classifiers fixed to a simplex, R = {numbers['ratio']}"
    drawing, axes = grid(1, len(shown), heading, (3.4, 2.8))
    for axis, (name, title) in zip(axes[0], shown.items(), strict=True):
        for row, color in zip(numbers["rows"], COLOURS, strict=False):
            cells = [row["ways"][way] for way in WAYS]
            words = f"K_A = {row['majority']}"
            draw_seeds(axis, range(len(WAYS)), cells, name, color=color, label=words)
        axis.set_xticks(range(len(WAYS)), list(WAYS), rotation=20)
        plain_axis(axis, title)
    axes[0][0].legend(fontsize=7, frameon=False)
    label_outside(axes, "", "")
    return drawing


STUDY = Study(
    title="A classifier fixed to a simplex against plain and oversampled training",
    source="Fang et al. 2021, remarks on oversampling",
    paper="asked, not answered: fixing the classifiers?",
    minutes={"smoke": 0.05, "cpu": 15, "paper": 100_000},
    settings=presets(PAPER, CPU, SMOKE),
    plan=networks.plan_of(cells_of),
    measure=measure,
    questions=(
        Question(
            "Do minority class means stay further apart than with plain training, by a lower "
            "cosine?",
            against("plain", "mean_cosine"),
            yes_or_no(lambda difference: difference < 0),
        ),
        *(
            Question(
                f"Is {words} test accuracy higher than with {than}?",
                against(way, name),
                yes_or_no(lambda difference: difference > 0),
            )
            for way, than in (
                ("plain", "plain training"),
                ("oversampled", "oversampling at w_r = R"),
            )
            for name, words in (("minority_accuracy", "minority"), ("test_accuracy", "overall"))
        ),
    ),
    figure=figure,
    table=table,
    departures=networks.DEPARTURES,
)
