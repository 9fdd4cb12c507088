"""The best depth grows with the difficulty of the data.

``lawscope study run separation/depth``: figure 3 of He & Su 2023. Feed-forward networks of the
authors' depths, 3 to 20 layers, trained with Adam on MNIST, Fashion-MNIST and CIFAR-10, all at
10×10 pixels, 600 epochs, three seeds.
The learning rate is chosen as the paper does, by the straightest law among those that fit, and for
comparison by the lowest final D. D at the last layer is averaged in log D over seeds; where that
curve is flat its lowest point is noise, so the best depth is the smallest within one standard error
of the lowest. Five learning rates and 36 networks, three seeds: 540 trainings. MNIST and CIFAR-10
must be on this machine.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from lawscope.studies.figures import COLOURS, grid, label_outside, overlay, style_axis
from lawscope.studies.panels import Panels, Settings, brief, last_d, yes_or_no
from lawscope.studies.separation._family import NAMES, adam_presets, he_su_study
from lawscope.studies.separation.datasets import candidates
from lawscope.studies.study import Axes, Claim, Figure, Lab, NotTried, Numbers, Question

# The depths of the authors' scripts.
DEPTHS = {
    "mnist": [*range(3, 11), 18],
    "fashion-mnist": [*range(3, 12), 18, 20],
    "cifar10": [3, 4, *range(8, 15), 18, 20],
}
KEPT = ("lr", "seed", "fits", "accuracy", "test_accuracy", "r", "rho")


class OwnDepths(Panels):
    """Panels by dataset and depth, of each dataset its own depths."""

    def cells(self, settings: Settings) -> list[dict[str, Any]]:
        return [{"dataset": n, "depth": d} for n, each in settings["depths"].items() for d in each]


PANELS = OwnDepths(candidates)


def measure(lab: Lab) -> Numbers:
    panels = PANELS.measure(lab)["panels"]
    for panel in panels:
        # Of the hundreds of candidates only what the choice was made by.
        panel["runs"] = [{k: run[k] for k in KEPT} | {"last": last_d(run)} for run in panel["runs"]]

    def best(final: Callable[[Numbers], list[float | None]]) -> Numbers:
        names = lab.settings["depths"]
        return {n: compare_depths([p for p in panels if p["dataset"] == n], final) for n in names}

    last = best(lambda panel: [last_d(row) for row in panel["chosen"]])
    return {"panels": panels, "best": last, "best_by_lowest": best(lowest)}


def lowest(panel: Numbers) -> list[float | None]:
    """Return the lowest final D over learning rates, of candidates that fit where any does."""
    seeds = [[run for run in panel["runs"] if run["seed"] == r["seed"]] for r in panel["chosen"]]
    fitting = [[run for run in runs if run["fits"]] or runs for runs in seeds]
    return [min((run["last"] for run in runs if run["last"]), default=None) for runs in fitting]


def compare_depths(
    panels: Sequence[Numbers], final: Callable[[Numbers], Sequence[float | None]]
) -> Numbers:
    """Return geometric means of the final D by depth, and which depth has the lowest.

    Depths at which a seed has no final D are left out; ``depth`` is None when none is left.
    ``error`` is the standard error of log D, None with one seed.
    """
    table = {panel["depth"]: list(final(panel)) for panel in panels}
    logs = {d: [math.log(v) for v in values if v] for d, values in table.items() if all(values)}
    means = {depth: statistics.fmean(each) for depth, each in logs.items()}
    seeds = len(next(iter(logs.values()), []))
    root = math.sqrt(seeds)
    return {
        "depth": min(means, key=means.__getitem__, default=None),
        "per_seed": [min(logs, key=lambda depth: logs[depth][seed]) for seed in range(seeds)],
        "depths": list(logs),
        "mean": [math.exp(mean) for mean in means.values()],
        "error": [statistics.stdev(x) / root if seeds > 1 else None for x in logs.values()],
    }


def best_depth(compared: Numbers) -> int:
    """Return the smallest depth whose mean log D is within one standard error of the lowest."""
    if compared["depth"] is None:
        raise NotTried("on one dataset every training diverged")
    at = compared["depths"].index(compared["depth"])
    bar = math.log(compared["mean"][at]) + (compared["error"][at] or 0.0)
    pairs = zip(compared["depths"], compared["mean"], strict=True)
    return next(int(depth) for depth, mean in pairs if math.log(mean) <= bar)


def best_depths(numbers: Numbers, rule: str = "best") -> dict[str, int]:
    return {name: best_depth(numbers[rule][dataset]) for dataset, name in NAMES.items()}


def steps(numbers: Numbers, rule: str = "best") -> dict[str, int]:
    """Return how many layers more the harder of two datasets needs."""
    pairs = pairwise(best_depths(numbers, rule).items())
    return {f"{hard} − {easy}": more - fewer for (easy, fewer), (hard, more) in pairs}


def distance_to_ends(numbers: Numbers) -> dict[str, int]:
    """Return by how many layers the best depth is away from the nearest end of those tried."""
    tried = {name: numbers["best"][dataset]["depths"] for dataset, name in NAMES.items()}
    return {
        name: min(best - min(tried[name]), max(tried[name]) - best)
        for name, best in best_depths(numbers).items()
    }


def figure(numbers: Numbers) -> Figure:
    """Draw D layer by layer for every depth above; below, the final D against depth."""
    names = list(numbers["best"])
    drawing, axes = grid(2, len(names), "Separation with 3 to 20 layers", panel=(3.6, 3.0))
    for name, above, below in zip(names, *axes, strict=True):
        panels = [panel for panel in numbers["panels"] if panel["dataset"] == name]
        series = [(str(panel["depth"]), panel["chosen"][0]) for panel in panels]
        overlay(above, series, NAMES[name], legend="layers")
        _draw_final(below, panels, numbers["best"][name])
    label_outside([axes[0]])
    label_outside([axes[1]], x="number of layers", y="final separation fuzziness")
    return drawing


def _draw_final(axis: Axes, panels: Sequence[Numbers], compared: Numbers) -> None:
    """Draw seeds as points, hollow where they do not fit, and their mean ± standard error."""
    points = [(panel["depth"], row) for panel in panels for row in panel["chosen"] if row["D"]]
    for depth, row in points:
        fill = COLOURS[0] if row["fits"] else "none"
        axis.plot(depth, row["D"][-1], "o", ms=3.5, color=COLOURS[0], mfc=fill, alpha=0.6)
    for depth, mean, error in zip(*(compared[k] for k in ("depths", "mean", "error")), strict=True):
        low, high = (mean * math.exp(sign * (error or 0.0)) for sign in (-1, 1))
        axis.vlines(depth, low, high, color=COLOURS[0], lw=1)
    label = "mean over seeds ± standard error"
    axis.plot(compared["depths"], compared["mean"], color=COLOURS[0], lw=1.4, label=label)
    axis.legend(fontsize=7, framealpha=0.8, edgecolor="none", loc="upper center")
    title = ""
    if compared["depth"] is not None:
        best, seeds = best_depth(compared), ", ".join(map(str, compared["per_seed"]))
        axis.axvline(best, color=COLOURS[1], lw=1.2, ls="--")
        title = f"within one standard error of the lowest: {best} layers\n(lowest by seed: {seeds})"
    style_axis(axis, title)


STUDY = he_su_study(
    title="3 to 20 layers on MNIST, Fashion-MNIST, CIFAR-10: the best depth grows with difficulty",
    source="He & Su 2023, figure 3",
    paper="the optimal depths for MNIST, Fashion-MNIST and CIFAR-10 are 6, 10 and 12",
    minutes={"smoke": 0.2, "cpu": 35, "paper": 35},
    settings=adam_presets(
        {"depths": DEPTHS}, smoke={"depths": {name: [2, 3, 4] for name in DEPTHS}, "seeds": 2}
    ),
    plan=PANELS.plan,
    measure=measure,
    claims=(
        Claim(
            "no easier dataset has a larger best depth: MNIST ≤ Fashion-MNIST ≤ CIFAR-10",
            "6, 10, 12 layers",
            steps,
            lambda more: more >= 0,
        ),
        Claim(
            "on each dataset the best depth is neither the smallest nor the largest tried (layers "
            "to the nearest end above 0)",
            "6, 10 and 12 layers are optimal; the authors' scripts go up to 18 and 20",
            distance_to_ends,
            lambda layers: layers > 0,
        ),
    ),
    questions=(
        Question(
            "Which depth has the lowest final D on each dataset?",
            lambda numbers: {name: numbers["best"][d]["depth"] for d, name in NAMES.items()},
            brief,
        ),
        Question(
            "Which is the best depth: the smallest whose final D is within one standard error of "
            "the lowest?",
            best_depths,
            brief,
        ),
        Question(
            "Is the order of best depths the same when the learning rate is chosen by the lowest "
            "final D?",
            lambda numbers: steps(numbers, "best_by_lowest"),
            yes_or_no(lambda more: more >= 0),
        ),
    ),
    figure=figure,
)
