"""What the imbalance costs each class: accuracy by class against R.

``lawscope study run collapse/fairness``: "relate minority collapse to fairness" (001, future
directions). The feed-forward networks of collapse/minority, K_A = 3, 5, 7: the gap in test accuracy
between majority and minority, each class by itself, and the accuracy among minority classes alone
(argmax over their logits), which is 1/K_B when merged classifiers decide at random. Its trainings
are those of collapse/minority, 42 at ``cpu``, 3 seeds; 10 minutes on one core, or seconds when
they are there.

The documents: the prediction on minority classes becomes completely at random as R → ∞.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.numbers import fixed
from lawscope.report.study_figures import COLOURS, SOFT, grid, label_outside, plain_axis
from lawscope.studies.choice import every, rank_correlation
from lawscope.studies.collapse import minority
from lawscope.studies.collapse._figures import legend_below
from lawscope.studies.collapse._imbalanced import CLASSES
from lawscope.studies.collapse._over_seeds import spread
from lawscope.studies.collapse.minority import along
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab


def only(settings: Mapping[str, Any], networks: list[str]) -> dict[str, Any]:
    """The settings of collapse/minority with some of its networks."""
    chosen = {
        part: {name: settings[part][name] for name in networks}
        for part in ("networks", "majorities", "ratios")
    }
    return {**settings, **chosen}


PAPER = only(minority.PAPER, ["VGG11"])
CPU = only(minority.CPU, ["MLP", "MLP, weight decay 5e-4"])
SMOKE = only(minority.SMOKE, ["MLP"])
KEPT = ("seed", "accuracy", "test_accuracy", "majority_accuracy", "minority_accuracy",
        "among_minority_accuracy", "class_accuracy")  # fmt: skip
RISES, CHANCE_FACTOR = 0.9, 1.5


def measure(lab: Lab) -> Numbers:
    """Accuracies by panel and R."""
    panels = minority.measure(lab)["panels"]
    for panel in panels:
        for point in panel["points"]:
            point["networks"] = [
                {name: row.get(name) for name in KEPT} for row in point["networks"]
            ]
    return {"panels": panels}


def gaps(panel: Numbers) -> list[float]:
    """Majority minus minority test accuracy at each R, mean over seeds."""
    pairs = zip(along(panel, "majority_accuracy"), along(panel, "minority_accuracy"), strict=True)
    return [more - less for more, less in pairs]


def gap_trend(numbers: Numbers) -> list[float]:
    """Rank correlation of the gap with R, panel by panel."""
    return [
        rank_correlation([point["ratio"] for point in panel["points"]], gaps(panel))
        for panel in numbers["panels"]
    ]


def widening(numbers: Numbers) -> list[float]:
    """Gap at the largest R minus gap for equal classes, panel by panel."""
    return [gaps(panel)[-1] - gaps(panel)[0] for panel in numbers["panels"]]


def over_chance(numbers: Numbers) -> list[float]:
    """Accuracy among minority classes at the largest R, over 1/K_B, panel by panel."""
    return [
        along(panel, "among_minority_accuracy")[-1] * (CLASSES - panel["majority"])
        for panel in numbers["panels"]
    ]


def worst_class(numbers: Numbers) -> list[float]:
    """The lowest class accuracy at the largest R, mean over seeds, panel by panel."""
    found = []
    for panel in numbers["panels"]:
        rows = panel["points"][-1]["networks"]
        found.append(min(_by_class(rows)))
    return found


def _by_class(rows: list[Numbers]) -> list[float]:
    """Accuracy of each class, mean over seeds."""
    columns = zip(*(row["class_accuracy"] for row in rows), strict=True)
    return [sum(column) / len(column) for column in columns]


def table(numbers: Numbers) -> list[list[str]]:
    """A row for each network, K_A and R; accuracies in percent, the gap in points."""
    titles = ["network", "K_A", "R", "majority", "minority", "gap", "worst class",
              "among the minority", "chance there"]  # fmt: skip
    return [titles, *(line for panel in numbers["panels"] for line in _lines(panel))]


def _lines(panel: Numbers) -> list[list[str]]:
    chance = 100 / (CLASSES - panel["majority"])
    return [
        [
            panel["network"],
            str(panel["majority"]),
            str(point["ratio"]),
            spread(point["networks"], "majority_accuracy", 1, 100),
            spread(point["networks"], "minority_accuracy", 1, 100),
            fixed(100 * gap, 1),
            f"{100 * min(_by_class(point['networks'])):.1f}",
            spread(point["networks"], "among_minority_accuracy", 1, 100),
            f"{chance:.1f}",
        ]
        for point, gap in zip(panel["points"], gaps(panel), strict=True)
    ]


CLAIMS = (
    Claim(
        "the gap between majority and minority widens with R: rank correlation at least 0.9 in "
        "every panel",
        "relate minority collapse to fairness",
        gap_trend,
        every(lambda r: r >= RISES),
    ),
    Claim(
        "at the largest R the gap is at least 50 points wider than for equal classes, in every "
        "panel",
        "no number in the documents",
        widening,
        every(lambda points: points >= 0.5),
    ),
    Claim(
        "at the largest R some class is never recognised: lowest accuracy at most 1 %, in every "
        "panel",
        "no number in the documents",
        worst_class,
        every(lambda accuracy: accuracy <= 0.01),
    ),
    Claim(
        "at the largest R even the choice among minority classes alone is at random: accuracy at "
        "most 1.5/K_B in every panel (ratios to 1/K_B)",
        "completely at random as R → ∞",
        over_chance,
        every(lambda ratio: ratio <= CHANCE_FACTOR),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Accuracy of each class against R, majority and minority in two colours, K_A by panel."""
    count = len(numbers["panels"])
    columns = min(3, count)
    rows = -(-count // columns)
    drawing, axes = grid(rows, columns, "Test accuracy of each class against the imbalance")
    places = [axis for row in axes for axis in row]
    for axis, panel in zip(places, numbers["panels"], strict=False):
        ratios = [point["ratio"] for point in panel["points"]]
        by_class = list(zip(*(_by_class(p["networks"]) for p in panel["points"]), strict=True))
        for k, line in enumerate(by_class):
            color = COLOURS[0] if k < panel["majority"] else COLOURS[1]
            axis.plot(ratios, line, "-", color=color, lw=0.7, alpha=0.6)
        for name, color, label in (
            ("majority_accuracy", COLOURS[0], "majority"),
            ("minority_accuracy", COLOURS[1], "minority"),
            ("among_minority_accuracy", COLOURS[2], "among minority classes alone"),
        ):
            axis.plot(ratios, along(panel, name), "o-", color=color, ms=3.5, lw=1.6, label=label)
        axis.axhline(1 / (CLASSES - panel["majority"]), color=SOFT, lw=0.8, ls=":")
        axis.set_xscale("log")
        plain_axis(axis, f"{panel['network']}, K_A = {panel['majority']}")
    legend_below(drawing, places, count)
    label_outside(axes, "imbalance ratio R (dotted: 1/K_B)", "test accuracy")
    return drawing


STUDY = Study(
    title="The accuracy gap between majority and minority classes against R",
    source="001, future directions",
    paper="minority predictions become completely random as R → ∞",
    minutes={"smoke": 0.05, "cpu": 5, "paper": 70_000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=minority.plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
    table=table,
)
