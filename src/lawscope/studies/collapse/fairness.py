"""What the imbalance costs each class: accuracy by class against R.

``lawscope study run collapse/fairness``: "relate Minority Collapse to fairness" (Fang et al. 2021,
future directions). The feed-forward networks of collapse/minority, K_A = 3, 5, 7: the gap in test
accuracy between majority and minority, each class by itself, and the accuracy among minority
classes alone (argmax over their logits), which is 1/K_B when merged classifiers decide at random.
Its trainings are those of collapse/minority, 3 seeds.
"""

from __future__ import annotations

from typing import Any

from lawscope.studies.collapse import _networks as networks
from lawscope.studies.collapse import minority
from lawscope.studies.collapse._networks import CLASSES, LABEL, change, seeds_of
from lawscope.studies.figures import COLOURS, SOFT, label_outside, legend_below, plain_axis, wrapped
from lawscope.studies.panels import Settings, collect, medians, middle, presets, spread, yes_or_no
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

KEPT = ("seed", "accuracy", "test_accuracy", "majority_accuracy", "minority_accuracy",
        "among_minority_accuracy", "class_accuracy")  # fmt: skip


def only(settings: Settings, *names: str) -> dict[str, Any]:
    """Return the settings of collapse/minority with some of its networks."""
    parts = {
        part: {name: settings[part][name] for name in names}
        for part in ("networks", "majorities", "ratios")
        if isinstance(settings[part], dict)
    }
    return {**settings, **parts}


def measure(lab: Lab) -> Numbers:
    panels = minority.measure(lab)["panels"]
    for point in (point for panel in panels for point in panel["points"]):
        point["networks"] = [{name: row.get(name) for name in KEPT} for row in point["networks"]]
    return {"panels": panels}


def over_chance(panel: Numbers, point: Numbers) -> list[float | None]:
    """Accuracy among minority classes alone over 1/K_B, seed by seed."""
    among = seeds_of(point, "among_minority_accuracy")
    return [None if a is None else a * (CLASSES - panel["majority"]) for a in among]


def excess_left(panel: Numbers) -> list[float | None]:
    """How much of the excess over chance for equal classes is left at the largest R."""
    ends = (over_chance(panel, panel["points"][i]) for i in (-1, 0))
    return [
        None if last is None or first is None else (last - 1) / (first - 1)
        for last, first in zip(*ends, strict=True)
    ]


def gaps(point: Numbers) -> list[Numbers]:
    rows = ((r["seed"], r["majority_accuracy"], r["minority_accuracy"]) for r in point["networks"])
    return [{"seed": s, "gap": None if None in (a, b) else a - b} for s, a, b in rows]


def widening(panel: Numbers) -> list[float | None]:
    return change(gaps(panel["points"][-1]), gaps(panel["points"][0]), "gap")


def worst_class(panel: Numbers) -> list[float | None]:
    return [a and min(a) for a in seeds_of(panel["points"][-1], "class_accuracy")]


def table(numbers: Numbers) -> list[list[str]]:
    titles = ["network", "K_A", "R", "majority", "minority", "gap", "worst class",
              "among the minority", "chance there"]  # fmt: skip
    lines = []
    for panel in numbers["panels"]:
        for point in panel["points"]:
            rows = point["networks"]
            lines.append([
                panel["network"], str(panel["majority"]), str(point["ratio"]),
                spread(rows, "majority_accuracy", 1, 100),
                spread(rows, "minority_accuracy", 1, 100),
                spread(gaps(point), "gap", 1, 100), f"{100 * min(_by_class(rows)):.1f}",
                spread(rows, "among_minority_accuracy", 1, 100),
                f"{100 / (CLASSES - panel['majority']):.1f}",
            ])  # fmt: skip
    return [titles, *lines]


def _by_class(rows: list[Numbers]) -> list[float]:
    return [middle(column) for column in zip(*(row["class_accuracy"] for row in rows), strict=True)]


def figure(numbers: Numbers) -> Figure:
    panels, title = numbers["panels"], "Test accuracy of each class against the imbalance"
    drawing, axes, places = wrapped(len(panels), title)
    for axis, panel in zip(places, panels, strict=True):
        points = panel["points"]
        ratios = [point["ratio"] for point in points]
        for k, line in enumerate(zip(*(_by_class(p["networks"]) for p in points), strict=True)):
            color = COLOURS[0] if k < panel["majority"] else COLOURS[1]
            axis.plot(ratios, line, "-", color=color, lw=0.7, alpha=0.6)
        for name, color, words in (
            ("majority_accuracy", COLOURS[0], "majority"),
            ("minority_accuracy", COLOURS[1], "minority"),
            ("among_minority_accuracy", COLOURS[2], "among minority classes alone"),
        ):
            medians = [middle(seeds_of(point, name)) for point in points]
            axis.plot(ratios, medians, "o-", color=color, ms=3.5, lw=1.6, label=words)
        axis.axhline(1 / (CLASSES - panel["majority"]), color=SOFT, lw=0.8, ls=":")
        plain_axis(axis, LABEL.format(**panel), xscale="log")
    legend_below(drawing)
    label_outside(axes, "imbalance ratio R (dotted: 1/K_B)", "test accuracy")
    return drawing


STUDY = Study(
    title="The accuracy gap between majority and minority classes against R",
    source="Fang et al. 2021, proposition on minority collapse; future directions",
    paper="minority predictions become completely random as R → ∞",
    minutes={"smoke": 0.05, "cpu": 15, "paper": 70_000},
    settings=presets(
        only(minority.PAPER, "VGG11"),
        only(minority.CPU, "MLP"),
        only(minority.SMOKE, "MLP"),
    ),
    plan=minority.STUDY.plan,
    measure=measure,
    claims=(
        Claim(
            "accuracy among minority classes exceeds chance (1/K_B) by less at the largest R than "
            "with equal classes (share of the excess that is left)",
            "completely at random as R → ∞",
            collect("panels", LABEL, excess_left),
            lambda share: bool(share < 1),
        ),
    ),
    questions=(
        Question(
            "How many times chance is the accuracy among minority classes at the largest R?",
            collect("panels", LABEL, lambda p: over_chance(p, p["points"][-1])),
            medians,
        ),
        Question(
            "Does the gap between majority and minority widen from equal classes to the largest R?",
            collect("panels", LABEL, widening),
            yes_or_no(lambda points: points > 0),
        ),
        Question(
            "Is some class never recognised at the largest R, lowest accuracy at most 1 %?",
            collect("panels", LABEL, worst_class),
            yes_or_no(lambda accuracy: accuracy <= 0.01),
        ),
    ),
    figure=figure,
    table=table,
    departures={
        "cpu": f"{networks.DEPARTURES['cpu']}, R up to 1000",
        "paper": "R up to 1000",
    },
)
