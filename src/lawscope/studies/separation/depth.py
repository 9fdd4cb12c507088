"""The best depth grows with the difficulty of the data.

``lawscope study run separation/depth``: figure 3 of 003. Feed-forward networks of 2, 4, …, 20
layers trained with Adam on MNIST, Fashion-MNIST and CIFAR-10, all at 10×10 pixels, 600 epochs. The
learning rate is chosen as the paper does, by the straightest law among those that fit, and for
comparison by the lowest final D; the best depth is the one with the lowest D at the last layer,
averaged in log D over seeds. At ``cpu`` two of the paper's five learning rates and three seeds: 180
trainings. MNIST and CIFAR-10 must be on this machine.

The paper: the optimal depths for MNIST, Fashion-MNIST and CIFAR-10 are 6, 10 and 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, grid, label_outside, overlay, style_axis
from lawscope.studies.choice import RATES, choice, every
from lawscope.studies.separation._best_depth import best_depth, interval_arms
from lawscope.studies.separation._notes import told
from lawscope.studies.separation._over_seeds import enough
from lawscope.studies.separation.datasets import NAMES, candidates
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab
    from lawscope.studies.plan import Training

ORDER = ["mnist", "fashion-mnist", "cifar10"]
PAPER: dict[str, Any] = {
    "datasets": ORDER,
    "depths": list(range(2, 21, 2)),
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 3,
}
CPU = {**PAPER, "rates": [1e-3, 3e-3]}
SMOKE = {**PAPER, "depths": [2, 3, 4], "rates": [1e-3, 3e-3], "epochs": 2, "seeds": 2}
KEPT = ("lr", "seed", "fits", "accuracy", "test_accuracy", "r", "rho")


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all depths and datasets."""
    return [
        training
        for dataset in settings["datasets"]
        for depth in settings["depths"]
        for training in candidates(settings, dataset, depth)
    ]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every depth, and for each dataset the best depth."""
    panels = [
        {"dataset": dataset, "depth": depth, **_choice(lab, dataset, depth)}
        for dataset in lab.settings["datasets"]
        for depth in lab.settings["depths"]
    ]
    by_dataset = {
        dataset: [panel for panel in panels if panel["dataset"] == dataset]
        for dataset in lab.settings["datasets"]
    }
    return {
        "panels": panels,
        "best": {name: best_depth(each, last_of_chosen) for name, each in by_dataset.items()},
        "best_by_lowest": {name: best_depth(each, lowest) for name, each in by_dataset.items()},
    }


def _choice(lab: Lab, dataset: str, depth: int) -> Numbers:
    """As ``choice``, of the hundreds of candidates only what the choice was made by."""
    made = choice(lab, candidates(lab.settings, dataset, depth))
    runs = [
        {**{name: run[name] for name in KEPT}, "last": run["D"] and run["D"][-1]}
        for run in made["runs"]
    ]
    return {"chosen": made["chosen"], "runs": runs}


def last_of_chosen(panel: Numbers) -> list[float | None]:
    """D at the last layer of the chosen networks, one per seed; None where there is none."""
    return [row["D"] and row["D"][-1] for row in panel["chosen"]]


def lowest(panel: Numbers) -> list[float | None]:
    """The lowest final D over learning rates, of candidates that fit where any does."""
    seeds = [
        [run for run in panel["runs"] if run["seed"] == row["seed"]] for row in panel["chosen"]
    ]
    fitting = [[run for run in runs if run["fits"]] or runs for runs in seeds]
    finals = [[run["last"] for run in runs if run["last"]] for runs in fitting]
    return [min(values, default=None) for values in finals]


def best_depths(numbers: Numbers, rule: str = "best") -> list[int]:
    """The best depth for MNIST, Fashion-MNIST, CIFAR-10."""
    depths = [numbers[rule][dataset]["depth"] for dataset in ORDER]
    if None in depths:
        raise ValueError("on one dataset every training diverged")
    return depths


def best_depths_per_seed(numbers: Numbers) -> list[list[int]]:
    """The same three depths, for each seed alone, of three or more."""
    seeds = zip(*(numbers["best"][dataset]["per_seed"] for dataset in ORDER), strict=True)
    return enough([list(depths) for depths in seeds])


def inside(numbers: Numbers) -> list[bool]:
    """Whether the best depth lies between the smallest and the largest tried, per dataset."""
    tried = (numbers["best"][dataset]["depths"] for dataset in ORDER)
    pairs = zip(best_depths(numbers), tried, strict=True)
    return [min(depths) < best < max(depths) for best, depths in pairs]


CLAIMS = (
    Claim(
        "the best depth is ordered MNIST ≤ Fashion-MNIST ≤ CIFAR-10",
        "6, 10, 12",
        best_depths,
        lambda depths: depths == sorted(depths),
    ),
    Claim(
        "the best depth grows from MNIST to CIFAR-10",
        "6 and 12",
        best_depths,
        lambda depths: depths[0] < depths[-1],
    ),
    Claim(
        "the same order holds for every seed alone, of at least three",
        "one network per depth is shown",
        best_depths_per_seed,
        every(lambda depths: depths == sorted(depths)),
    ),
    Claim(
        "the same order holds when the learning rate is chosen by the lowest final D",
        "learning rates are chosen by the straightest law",
        lambda numbers: best_depths(numbers, "best_by_lowest"),
        lambda depths: depths == sorted(depths),
    ),
    Claim(
        "on each dataset the best depth is neither the smallest nor the largest tried",
        "deeper is not always better: 6, 10, 12 of up to 20 layers",
        inside,
        all,
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Above, D layer by layer for every depth; below, the final D against depth."""
    names = list(numbers["best"])
    verdict = told("the best depths are in the order of difficulty,", CLAIMS[0], numbers)
    alone = CLAIMS[2].judge(numbers).verdict
    title = f"Separation with 2 to 20 layers\n{verdict}; for every seed alone: {alone}"
    figure, axes = grid(2, len(names), title, panel=(3.6, 3.0))
    for name, above, below in zip(names, *axes, strict=True):
        panels = [panel for panel in numbers["panels"] if panel["dataset"] == name]
        series = [(str(panel["depth"]), panel["chosen"][0]) for panel in panels]
        overlay(above, series, NAMES[name], graded=True, legend="layers")
        _final(below, panels, numbers["best"][name])
    label_outside([axes[0]])
    label_outside([axes[1]], x="number of layers", y="final separation fuzziness")
    return figure


def _final(axis: Axes, panels: Sequence[Numbers], best: Numbers) -> None:
    """Seeds as points, hollow where they do not fit; their mean with its interval as a line."""
    points = [(panel["depth"], row) for panel in panels for row in panel["chosen"] if row["D"]]
    for depth, row in points:
        fill = COLOURS[0] if row["fits"] else "none"
        axis.plot(depth, row["D"][-1], "o", ms=3.5, color=COLOURS[0], mfc=fill, alpha=0.6)
    axis.errorbar(
        best["depths"],
        best["mean"],
        yerr=interval_arms(best),
        color=COLOURS[0],
        lw=1.4,
        elinewidth=1,
        capsize=2,
        label="mean over seeds, 95 %",
    )
    axis.legend(fontsize=7, framealpha=0.8, edgecolor="none", loc="upper center")
    if best["depth"] is not None:
        axis.axvline(best["depth"], color=COLOURS[1], lw=1.2, ls="--")
    seeds = ", ".join(map(str, best["per_seed"]))
    style_axis(axis, f"best depth {best['depth']} (by seed: {seeds})")


STUDY = Study(
    title="2 to 20 layers on MNIST, Fashion-MNIST, CIFAR-10: the best depth grows with difficulty",
    source="003, figure 3",
    paper="the optimal depths for MNIST, Fashion-MNIST and CIFAR-10 are 6, 10 and 12",
    minutes={"smoke": 0.2, "cpu": 23, "paper": 50},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
