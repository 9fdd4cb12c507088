"""Does a classifier fixed to a simplex keep the minority apart?

``lawscope study run collapse/fixed-classifier``: the open question "other approaches such as fixing
the classifiers?" (001). The imbalanced networks of collapse/oversampling, K_A = 3, 5, 7, trained in
three ways: plain, oversampled with w_r = R, and with the classifier fixed to a simplex ETF of the
norm that its first weights had.
A fixed classifier has its angles given; what can still collapse are the minority's centred class
means.

``cpu``: 4-layer feed-forward networks on 500 and 5 images at 10×10, R = 100, weight decay 5e-3, 350
epochs, 3 seeds: 27 trainings, 18 of them shared with collapse/oversampling; 7 minutes on one core.

The documents ask and give no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.collapse._figures import draw_seeds
from lawscope.studies.collapse._imbalanced import Cell, readings, trainings_of
from lawscope.studies.collapse._networks import MLP, PAPER_NETWORKS, PAPER_SETTING, SETTING
from lawscope.studies.collapse._over_seeds import above_zero, below_zero, gain, spread
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

WAYS = {
    "plain": "plain",
    "oversampled": "oversampled, w_r = R",
    "fixed": "fixed simplex",
}
PAPER: dict[str, Any] = {
    **PAPER_SETTING,
    "networks": {"VGG11": PAPER_NETWORKS["VGG11"]},
    "majorities": [3, 5, 7],
    "ratio": 1000,
}
CPU = {**SETTING, "networks": {"MLP": MLP}, "majorities": [3, 5, 7], "ratio": 100}
SMOKE = {
    **CPU,
    "networks": {"MLP": {**MLP, "samples": 20, "epochs": 2}},
    "majorities": [5],
    "ratio": 10,
}


def cells_of(settings: Mapping[str, Any], network: str, majority: int) -> dict[str, Cell]:
    """The three ways to train."""
    ratio = settings["ratio"]
    return {
        "plain": Cell(network, majority, ratio),
        "oversampled": Cell(network, majority, ratio, ratio),
        "fixed": Cell(network, majority, ratio, 1, "simplex"),
    }


def rows_of(settings: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Network and K_A of every row of the table."""
    return [(name, K_A) for name in settings["networks"] for K_A in settings["majorities"]]


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All cells of the table."""
    return [
        training
        for row in rows_of(settings)
        for cell in cells_of(settings, *row).values()
        for training in trainings_of(settings, cell)
    ]


def measure(lab: Lab) -> Numbers:
    """Every network, by row of the table and way."""
    rows = []
    for network, majority in rows_of(lab.settings):
        ways = cells_of(lab.settings, network, majority)
        found = {way: readings(lab, cell) for way, cell in ways.items()}
        rows.append({"network": network, "majority": majority, "ways": found})
    return {"ratio": lab.settings["ratio"], "rows": rows}


def against(way: str, name: str) -> Any:
    """The fixed classifier minus another way to train, mean over seeds, row by row."""
    return lambda numbers: [
        gain(row["ways"]["fixed"], row["ways"][way], name) for row in numbers["rows"]
    ]


def table(numbers: Numbers) -> list[list[str]]:
    """A row for each network, K_A and way; accuracies in percent."""
    titles = ["network", "K_A", "training", "cosine of classifiers", "cosine of class means",
              "minority accuracy", "overall accuracy"]  # fmt: skip
    lines = [
        [
            row["network"],
            str(row["majority"]),
            WAYS[way],
            spread(rows, "cosine", 2),
            spread(rows, "mean_cosine", 2),
            spread(rows, "minority_accuracy", 1, 100),
            spread(rows, "test_accuracy", 1, 100),
        ]
        for row in numbers["rows"]
        for way, rows in row["ways"].items()
    ]
    return [titles, *lines]


CLAIMS = (
    Claim(
        "minority class means stay further apart than with plain training: their cosine is lower, "
        "mean over ≥ 3 seeds, for each K_A",
        "asked, not answered",
        against("plain", "mean_cosine"),
        below_zero,
    ),
    Claim(
        "minority test accuracy is higher than with plain training, mean over ≥ 3 seeds, for "
        "each K_A",
        "asked, not answered",
        against("plain", "minority_accuracy"),
        above_zero,
    ),
    Claim(
        "overall test accuracy is higher than with plain training, mean over ≥ 3 seeds, for each "
        "K_A",
        "asked, not answered",
        against("plain", "test_accuracy"),
        above_zero,
    ),
    Claim(
        "minority test accuracy is higher than with oversampling at w_r = R, mean over ≥ 3 "
        "seeds, for each K_A",
        "asked, not answered",
        against("oversampled", "minority_accuracy"),
        above_zero,
    ),
    Claim(
        "overall test accuracy is higher than with oversampling at w_r = R, mean over ≥ 3 seeds, "
        "for each K_A",
        "asked, not answered",
        against("oversampled", "test_accuracy"),
        above_zero,
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Cosine of class means and both accuracies by way of training; one colour per K_A."""
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
            label = f"K_A = {row['majority']}"
            draw_seeds(axis, range(len(WAYS)), cells, name, color=color, label=label)
        axis.set_xticks(range(len(WAYS)), list(WAYS), rotation=20)
        plain_axis(axis, title)
    axes[0][0].legend(fontsize=7, frameon=False)
    label_outside(axes, "", "")
    return drawing


STUDY = Study(
    title="A classifier fixed to a simplex against plain and oversampled training",
    source="001, remarks on oversampling",
    paper="asked, not answered: fixing the classifiers?",
    minutes={"smoke": 0.05, "cpu": 4, "paper": 100_000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
    table=table,
)
