"""New layers on top of pretrained, frozen ones obey the law among themselves.

``lawscope study run separation/pretraining``: figure 13 of 003. The first ten layers of a 20-layer
network trained on Fashion-MNIST are frozen, and five new layers (four hidden ones and the
classifier) are trained on top; beside it 15 layers from scratch. Three learning rates and three
seeds: 27 trainings of 600 epochs.

The paper: the law emerges in the additional five layers; the whole is quite different from 15
layers trained from scratch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import draw_curve, law_grid
from lawscope.studies.choice import RATES, choice, every, measured, of_fitting, straightest, sweep
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._over_seeds import differences, on_average
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "pretrained": 20,
    "kept": 10,
    "depth": 15,
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 3,
}
CPU = {**PAPER, "rates": [3e-4, 1e-3, 3e-3]}
SMOKE = {
    **PAPER,
    "pretrained": 6,
    "kept": 2,
    "depth": 6,
    "rates": [1e-3, 3e-3],
    "epochs": 2,
}


def scratch(settings: Mapping[str, Any], depth: int) -> list[Training]:
    """Networks of fresh weights, one for each learning rate and seed."""
    training = Training(Network.of("feedforward", depth=depth), Recipe(epochs=settings["epochs"]))
    return sweep(training, settings["rates"], settings["seeds"])


def extended(settings: Mapping[str, Any]) -> list[Training]:
    """New layers on top of the kept ones of each pretrained network, at the same learning rate."""
    kept, depth = settings["kept"], settings["depth"]
    return [
        replace(
            base,
            network=Network.of("feedforward", depth=depth),
            start=base,
            copied=kept,
            trained=(kept, depth),
        )
        for base in scratch(settings, settings["pretrained"])
    ]


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """The pretrained networks, those from scratch, and the extended ones."""
    return [
        *scratch(settings, settings["pretrained"]),
        *scratch(settings, settings["depth"]),
        *extended(settings),
    ]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of each kind; extended ones are chosen by the line of the new part."""
    settings = lab.settings
    rows = [measured_in_part(lab, training) for training in extended(settings)]
    seeds = range(settings["seeds"])
    return {
        "kept": settings["kept"],
        "pretrained": choice(lab, scratch(settings, settings["pretrained"])),
        "scratch": choice(lab, scratch(settings, settings["depth"])),
        "extended": {
            "chosen": [chosen_by_part([row for row in rows if row["seed"] == s]) for s in seeds],
            "runs": [{k: v for k, v in row.items() if k != "D_interval"} for row in rows],
        },
    }


def measured_in_part(lab: Lab, training: Training) -> Numbers:
    """The law on all layers, and under ``part`` on the new ones: from D_kept to the last."""
    from lawscope.laws.line import fit_line
    from lawscope.laws.separation_result import finite
    from lawscope.laws.uncertainty import Replicates

    row = measured(lab, training)
    if row["D"] is None:
        return {**row, "part": None}
    law, kept = lab.separation(training), int(training.copied or 0)
    again = law.replicates
    fit = fit_line(law.values[kept:], again and Replicates(again.curves[:, kept:], again.kind))
    ends = {"r": fit.interval.get("pearson"), "rho": fit.interval.get("rho")}
    part = finite({"r": fit.pearson, "rho": fit.rho, "interval": ends})
    return {**row, "part": part}


def chosen_by_part(rows: list[Numbers]) -> Numbers:
    """The row whose new part is straightest among those that fit."""
    parts = [{**row, "r": row["part"] and row["part"]["r"]} for row in rows]
    return rows[parts.index(straightest(parts))]


def part_r(numbers: Numbers) -> list[float | None]:
    """The correlation over the new layers, None where the network does not fit."""
    return [row["part"]["r"] if row["fits"] else None for row in numbers["extended"]["chosen"]]


def against_scratch(numbers: Numbers) -> list[float | None]:
    """How much r over all layers exceeds that from scratch, seed by seed."""
    return differences(numbers["extended"]["chosen"], numbers["scratch"]["chosen"], "r")


def kink(numbers: Numbers) -> list[float | None]:
    """ρ of the kept layers minus ρ of the new ones, per seed; None where it does not fit."""
    kept, gaps = numbers["kept"], []
    for row in numbers["extended"]["chosen"]:
        told = row["fits"] and row["D"] is not None and row["part"]["rho"] is not None
        lower = (row["D"][kept] / row["D"][0]) ** (1 / kept) if told else None
        gaps.append(lower - row["part"]["rho"] if lower else None)
    return gaps


CLAIMS = (
    Claim(
        "the new layers obey the law: the network fits and r over them ≤ −0.98, for every seed",
        "the law also emerges in the additional five layers",
        part_r,
        every(lambda r: r <= -0.98),
    ),
    Claim(
        "from scratch, 15 layers fit and have r ≤ −0.98 for every seed",
        "a straight line",
        lambda numbers: of_fitting([numbers["scratch"]], "r"),
        every(lambda r: r <= -0.98),
    ),
    Claim(
        "over all layers the extended network is less straight than from scratch, where both fit, "
        "mean over ≥ 3 seeds",
        "quite different from training 15 layers from scratch",
        against_scratch,
        on_average(lambda mean: mean > 0),
    ),
    Claim(
        "the new layers separate faster than the kept ones: the network fits and their ρ is "
        "smaller, for every seed",
        "quite different from training 15 layers from scratch",
        kink,
        every(lambda gap: gap > 0),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Pretrained, from scratch, and new layers on kept ones, as in the paper."""
    names = {
        "pretrained": "pretrained",
        "scratch": "from scratch",
        "extended": f"new layers on {numbers['kept']} kept ones",
    }
    row = [(name, numbers[kind]["chosen"]) for kind, name in names.items()]
    drawing = law_grid([row], "Pretraining and the law of data separation")
    first, kept = numbers["extended"]["chosen"][0], numbers["kept"]
    if first["D"]:
        part = {"D": [None] * kept + first["D"][kept:], "D_interval": None}
        draw_curve(drawing.axes[2], part, color="#D55E00", zorder=3)
    return drawing


STUDY = Study(
    title="New layers on pretrained, frozen ones obey the law among themselves",
    source="003, figure 13",
    paper="the law emerges in the five new layers; different from 15 layers from scratch",
    minutes={"smoke": 0.1, "cpu": 4, "paper": 9},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
