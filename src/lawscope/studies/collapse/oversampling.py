"""Oversampling the minority separates its classifiers and lifts its test accuracy.

``lawscope study run collapse/oversampling``: "Test performance" (Fang et al. 2021). Networks
trained at a large R with the minority's samples repeated w_r times, w_r = 1, 10, 100, …: the cosine
between minority classifiers, test accuracy of the minority and of all classes, and the gain over
w_r = 1.

The paper: VGG11 and ResNet18 on 6000 images of a majority class and 6 of a minority class (R =
1000), w_r = 1, 10, 100, 1000, one network each. ``cpu`` has 4-layer feed-forward networks on the
same images at 10×10, with the same recipe, 3 seeds: 36 trainings, 9 of them shared with
collapse/minority. As in the paper the best rate is chosen by the test accuracy that is reported,
which flatters it; all rates are listed. All of Fashion-MNIST must be on this machine.
"""

from __future__ import annotations

from typing import Any

from lawscope.studies.collapse import _networks as networks
from lawscope.studies.collapse._networks import LABEL, Cell, change, seeds_of
from lawscope.studies.figures import COLOURS, draw_seeds, grid, label_outside, plain_axis
from lawscope.studies.panels import Settings, collect, group_by, mean, presets, spread
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Study

PAPER: dict[str, Any] = {
    **networks.PAPER, "majorities": [3, 5, 7], "ratio": 1000, "rates": [1, 10, 100, 1000],
}  # fmt: skip
CPU = {**PAPER, **networks.CPU}
SMOKE = {**networks.SMOKE, "majorities": [5], "ratio": 10, "rates": [1, 3, 10], "seeds": 1}
ACCURACIES = {"minority_accuracy": "minority", "test_accuracy": "overall"}


def cells_of(settings: Settings, network: str, majority: int) -> list[Cell]:
    return [Cell(network, majority, settings["ratio"], rate) for rate in settings["rates"]]


def measure(lab: Lab) -> Numbers:
    return {"ratio": lab.settings["ratio"], "rows": networks.read_panels(lab, cells_of, "rate")}


def best_rate(row: Numbers, name: str) -> Numbers:
    """Return the point of the largest mean accuracy, w_r = 1 among them as in the paper."""
    best: Numbers = max(row["points"], key=lambda point: mean(point["networks"], name))
    return best


def gains(name: str) -> Any:
    return lambda row: change(best_rate(row, name)["networks"], row["points"][0]["networks"], name)


def best_rates(numbers: Numbers) -> Numbers:
    """Return the best rate of each network over the largest one tried, by row and accuracy."""
    found = {}
    for row in numbers["rows"]:
        rates = [point["rate"] for point in row["points"]]
        for name, words in ACCURACIES.items():
            seeds = zip(*(seeds_of(point, name) for point in row["points"]), strict=True)
            found[f"{LABEL.format(**row)}, {words}"] = [
                None if None in along else rates[along.index(max(along))] / rates[-1]
                for along in seeds
            ]
    return found


def table(numbers: Numbers) -> list[list[str]]:
    titles = ["network", "K_A", "w_r", "cosine", "predicted", "minority accuracy", "gain",
              "overall accuracy", "gain"]  # fmt: skip
    lines = []
    for row in numbers["rows"]:
        first = row["points"][0]["networks"]
        for point in row["points"]:
            found = point["networks"]
            cosines = (spread(found, name, 2) for name in ("cosine", "predicted"))
            # In percent, and the gain over w_r = 1 in points.
            pairs = ((name, over) for name in ACCURACIES for over in (None, first))
            accuracies = (spread(found, name, 1, 100, over=over) for name, over in pairs)
            cell = row["network"], str(row["majority"]), str(point["rate"])
            lines.append([*cell, *cosines, *accuracies])
    return [titles, *lines]


def figure(numbers: Numbers) -> Figure:
    shown = {
        "cosine": "cosine of minority classifiers",
        "minority_accuracy": "minority test accuracy",
        "test_accuracy": "overall test accuracy",
    }
    names = group_by(numbers["rows"], "network")
    drawing, axes = grid(len(names), len(shown), f"Oversampling at R = {numbers['ratio']}")
    for (network, rows), places in zip(names.items(), axes, strict=True):
        for axis, (name, title) in zip(places, shown.items(), strict=True):
            for row, color in zip(rows, COLOURS, strict=False):
                rates = [point["rate"] for point in row["points"]]
                cells = [point["networks"] for point in row["points"]]
                words = f"K_A = {row['majority']}"
                draw_seeds(axis, rates, cells, name, color=color, label=words)
            plain_axis(axis, f"{network}: {title}", xscale="log")
    axes[0][0].legend(fontsize=7, frameon=False)
    label_outside(axes, "oversampling rate w_r", "")
    return drawing


STUDY = Study(
    title="Oversampling separates minority classifiers and lifts minority accuracy",
    source="Fang et al. 2021, Test performance (table)",
    paper="minority +2.6 to +36.9 points, overall +1.0 to +18.6; the best w_r is not the largest",
    minutes={"smoke": 0.05, "cpu": 15, "paper": 200_000},
    settings=presets(PAPER, CPU, SMOKE),
    plan=networks.plan_of(cells_of),
    measure=measure,
    claims=(
        Claim(
            "on training data minority classifiers move apart: their cosine is lower at the "
            "largest w_r than without oversampling",
            "large w_r can mitigate Minority Collapse on the training set",
            collect("rows", LABEL, networks.change_along("cosine")),
            lambda difference: bool(difference < 0),
        ),
        Claim(
            "minority test accuracy rises at the best w_r",
            "+25.8, +36.9, +13.5 points (VGG11), +7.2, +19.2, +2.6 (ResNet18)",
            collect("rows", LABEL, gains("minority_accuracy")),
            lambda gain: bool(gain > 0),
        ),
        Claim(
            "overall test accuracy rises at the best w_r",
            "+18.2, +18.6, +4.3 points (VGG11), +5.0, +9.7, +1.0 (ResNet18)",
            collect("rows", LABEL, gains("test_accuracy")),
            lambda gain: bool(gain > 0),
        ),
        Claim(
            "the w_r of the best test accuracy is not the largest (its ratio to it is below 1)",
            "the best test accuracy is not achieved at w_r = 1000",
            best_rates,
            lambda share: bool(share < 1),
        ),
    ),
    figure=figure,
    table=table,
    departures=networks.DEPARTURES,
)
