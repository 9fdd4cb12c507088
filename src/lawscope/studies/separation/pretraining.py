"""New layers on top of pretrained, frozen ones obey the law among themselves.

``lawscope study run separation/pretraining``: figure 13 of He & Su 2023. The first ten layers of a
20-layer network trained on Fashion-MNIST are frozen, and five new layers (four hidden ones and the
classifier) are trained on top; beside it 15 layers from scratch. Three learning rates and three
seeds: 27 trainings of 600 epochs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lawscope.documents import drop_non_finite
from lawscope.lazy import np
from lawscope.studies.figures import COLOURS, draw_curve, fitted, law_grid
from lawscope.studies.panels import (
    Settings,
    by_panel,
    choice,
    first_seeds,
    measured,
    straightest,
)
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation import _family as family
from lawscope.studies.study import Claim, Figure, Lab, Numbers


def trained(settings: Settings, depth: str = "depth") -> list[Training]:
    return family.feedforward(settings, depth=settings[depth])


def extended(settings: Settings) -> list[Training]:
    """Return new layers on the kept ones of each pretrained network, at the same rate."""
    kept, depth = settings["kept"], settings["depth"]
    network = Network.of("feedforward", depth=depth)
    return [
        replace(base, network=network, start=base, copied=kept, trained=(kept, depth))
        for base in trained(settings, "pretrained")
    ]


def measure(lab: Lab) -> Numbers:
    """Measure and choose of each kind; extended networks by the line of the new part."""
    rows = [measure_part(lab, training) for training in extended(lab.settings)]
    seeds = [[r for r in rows if r["seed"] == seed] for seed in first_seeds(lab.settings["seeds"])]
    return {
        "kept": lab.settings["kept"],
        "pretrained": choice(lab, trained(lab.settings, "pretrained")),
        "scratch": choice(lab, trained(lab.settings)),
        "extended": {
            "chosen": [choose_by_part(each) for each in seeds],
            "runs": [{k: v for k, v in row.items() if k != "D_interval"} for row in rows],
        },
    }


def measure_part(lab: Lab, training: Training) -> Numbers:
    """Measure the law on all layers, and under ``part`` on the new ones: D_kept to the last."""
    from lawscope.laws.line import fit_line

    row = measured(lab, training)
    if row["D"] is None:
        return {**row, "part": None}
    fit = fit_line(np.array(row["D"][int(training.copied or 0) :]))
    return {**row, "part": drop_non_finite({"r": fit.pearson, "rho": fit.rho})}


def choose_by_part(rows: list[Numbers]) -> Numbers:
    """Return the row whose new part is straightest among those that fit."""
    parts = [{**row, "r": row["part"] and row["part"]["r"]} for row in rows]
    return rows[parts.index(straightest(parts))]


def gain_of_two_lines(values: Sequence[float], kept: int) -> float:
    """Return how much the Bayesian information criterion falls with a line for each part.

    The parts are D_0 … D_kept and the layers after them. Two more numbers are fitted, which costs
    2 ln n.
    """

    def squares(part: Sequence[float]) -> float:
        pairs = zip(part, fitted(part), strict=True)
        return math.fsum(math.log(value / line) ** 2 for value, line in pairs)

    n, two = len(values), squares(values[: kept + 1]) + squares(values[kept + 1 :])
    return n * math.log(squares(values) / two) - 2 * math.log(n)


def two_lines(numbers: Numbers) -> dict[str, list[Any]]:
    rows, kept = [numbers["extended"]], numbers["kept"]
    return by_panel(rows, "gain of two lines", lambda row: gain_of_two_lines(row["D"], kept))


def figure(numbers: Numbers) -> Figure:
    kept = numbers["kept"]
    names = ("pretrained", "from scratch", f"new layers (orange) on {kept} kept ones")
    kinds = (numbers[kind]["chosen"] for kind in ("pretrained", "scratch", "extended"))
    drawing = law_grid(
        [list(zip(names, kinds, strict=True))], "Pretraining and the law of data separation"
    )
    values = numbers["extended"]["chosen"][0]["D"]
    if values:
        part = {"D": [None] * kept + values[kept:], "D_interval": None}
        draw_curve(drawing.axes[2], part, color=COLOURS[1], zorder=3)
    return drawing


STUDY = family.he_su_study(
    title="New layers on pretrained, frozen ones obey the law among themselves",
    source="He & Su 2023, figure 13",
    paper="the law emerges in the five new layers; different from 15 layers from scratch",
    minutes={"smoke": 0.1, "cpu": 4, "paper": 9},
    settings=family.adam_presets(
        {"pretrained": 20, "kept": 10, "depth": 15, "seeds": 3},
        cpu={"rates": family.FEW_RATES},
        smoke={"pretrained": 6, "kept": 2, "depth": 6},
    ),
    departures={"cpu": "3 of 5 rates"},
    plan=lambda settings: [
        *trained(settings, "pretrained"),
        *trained(settings),
        *extended(settings),
    ],
    measure=measure,
    claims=(
        Claim(
            "the new layers obey the law: r over them ≤ −0.98, of networks that fit",
            "the law also emerges in the additional five layers",
            family.chosen("r of the new layers", lambda row: row["part"]["r"], "extended"),
            lambda r: r <= -0.98,
        ),
        Claim(
            "15 layers from scratch have r ≤ −0.98, of networks that fit",
            "a straight line",
            family.chosen("r from scratch", "r", "scratch"),
            lambda r: r <= -0.98,
        ),
        Claim(
            "kept and new layers together are described better by two lines than by one "
            "(information criterion lower by more than 0)",
            "quite different from training 15 layers from scratch",
            two_lines,
            lambda gain: gain > 0,
        ),
    ),
    figure=figure,
)
