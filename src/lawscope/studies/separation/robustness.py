"""A network with the law keeps its separation better when its weights are disturbed.

``lawscope study run separation/robustness``: He & Su 2023, "Training". The 20-layer networks of
separation/frozen, with the law (trained as usual) and without it (two frozen stages), get noise on
all weights; R = D_L/D_0 and the ratio of every layer are measured again. To first order a change
ε_l of each ratio moves R by R·Σ(D_{l−1}/D_l)·ε_l. For a given R that sum has a least value; how far
a network is above it is followed along the trainings of separation/emergence too. No trainings
beyond those of these two studies.

The paper: the perturbation term is least when all ratios are equal, which is when the law holds;
train at least until the law comes into effect. It does not disturb weights.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from operator import sub
from typing import Any

import lawscope as ls
from lawscope.lazy import torch
from lawscope.studies.figures import COLOURS, corner, grid, label_outside, plain_axis
from lawscope.studies.panels import Row, Settings, brief, choice, collect, training_of, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.separation import emergence, frozen
from lawscope.studies.separation._family import between, he_su_study
from lawscope.studies.study import Check, Claim, Figure, Lab, Numbers, Question

NOISE: dict[str, Any] = {"noise": [0.0003, 0.001, 0.003, 0.01, 0.03], "draws": 10}
LITTLE = {"noise": [0.001, 0.01], "draws": 2}
NAMES = {"standard": "with the law", "frozen": "without it (frozen)"}


def watched(settings: Settings) -> list[Training]:
    """Return the networks that are followed along their training."""
    return emergence.candidates({**settings["along"], "seeds": settings["seeds"]})


def measure(lab: Lab) -> Numbers:
    """Disturb both chosen networks of every seed, and follow others along training."""

    def at(row: Numbers) -> Numbers:
        return {"epoch": row["epoch"], "r": row["r"], "excess": excess_sensitivity(row["D"])}

    followed = emergence.along(lab, watched(lab.settings))
    along = [{"seed": n["seed"], "history": [at(row) for row in n["history"]]} for n in followed]
    disturbed = {kind: disturb(lab, make(lab.settings)) for kind, make in frozen.KINDS.items()}
    return {**disturbed, "along": along}


def excess_sensitivity(values: Sequence[float]) -> float:
    """Return Σ D_{l−1}/D_l over the least value that a network of the same reduction can have."""
    inverses = [before / after for before, after in pairwise(values)]
    least = (values[0] / values[-1]) ** (1 / len(inverses))
    return float(statistics.fmean(inverses) / least)


def disturb(lab: Lab, candidates: Sequence[Training]) -> list[Numbers]:
    """Return, per seed, the sensitivity of the undisturbed network and its trials by noise."""
    rows = []
    for row in choice(lab, candidates)["chosen"]:
        training = training_of(row, candidates)
        law = lab.separation(training)
        lab.tell(f"disturbing {training.describe()}")
        kept = {name: row[name] for name in ("seed", "lr", "r")}
        kept |= {"reduction": law.reduction, "sensitivity": law.sensitivity}
        kept["excess"] = law.sensitivity / law.least_sensitivity
        trials = [{"noise": n, **try_noise(lab, training, law, n)} for n in lab.settings["noise"]]
        rows.append({**kept, "trials": trials})
    return rows


def try_noise(lab: Lab, training: Training, before: Any, noise: float) -> Numbers:
    """Disturb the weights of the network with the law ``before`` by noise of one size.

    ``moved`` is (R′ − R)/R of each draw, ``predicted`` Σ(D_{l−1}/D_l)·ε_l with the change
    ε_l = D′_l/D′_{l−1} − D_l/D_{l−1} of each layer's ratio in that draw.
    """
    run = lab.run(training)
    moved, predicted = [], []
    generator = torch.Generator().manual_seed(training.seed)
    for _ in range(lab.settings["draws"]):
        model = run.network()
        with torch.no_grad():
            for weight in (p for p in model.parameters() if p.dim() > 1):
                size = noise * float(weight.square().mean().sqrt())
                weight.add_(torch.randn(weight.shape, generator=generator), alpha=size)
        data = lab.batches(run.samples.x, run.samples.y)
        after = ls.separation(model, data, uncertainty=None, mode=lab.mode)
        moved.append(after.reduction / before.reduction - 1)
        predicted.append(float(((after.ratios - before.ratios) / before.ratios).sum()))
    return {"moved": moved, "predicted": predicted}


def root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(v * v for v in values))


def formula_error(row: Row) -> float:
    """Return the error of the formula relative to the change, at the smallest noise."""
    at = min(row["trials"], key=lambda trial: trial["noise"])
    wrong = [p - m for p, m in zip(at["predicted"], at["moved"], strict=True)]
    return root_mean_square(wrong) / root_mean_square(at["moved"])


def log_moved(row: Row) -> float:
    """Return the logarithm of the change of R, mean over the sizes of noise."""
    return statistics.fmean(math.log(root_mean_square(t["moved"])) for t in row["trials"])


def from_start_to_law(network: Numbers) -> float | None:
    """Return the change of the excess sensitivity from the first checkpoint to the law's."""
    by_epoch = {h["epoch"]: h["excess"] for h in network["history"]}
    law = emergence.law_epoch(network)
    return None if law is None else float(by_epoch[law] - by_epoch[min(by_epoch)])


def figure(numbers: Numbers) -> Figure:
    """Draw the change of R against noise, and the formula against the change, draw by draw."""
    drawing, ((left, right),) = grid(1, 2, "Noise on the weights", (4.2, 3.2))
    for (kind, name), color in zip(NAMES.items(), COLOURS, strict=False):
        for index, row in enumerate(numbers[kind]):
            noises = [t["noise"] for t in row["trials"]]
            moves = [root_mean_square(t["moved"]) for t in row["trials"]]
            label = name if index == 0 else None
            left.plot(noises, moves, "o-", color=color, ms=3, lw=1, alpha=0.7, label=label)
            for t in row["trials"]:
                right.plot(t["moved"], t["predicted"], ".", color=color, ms=3, alpha=0.7)
    words = "noise / root mean square weight", "relative change of R (root mean square)"
    label_outside([[left]], *words)
    right.axline((0, 0), slope=1, color="grey", lw=0.8, ls=":")
    for scale in (right.set_xscale, right.set_yscale):
        scale("symlog", linthresh=1e-3)
    formula = r"formula: $\sum_l (D_{l-1}/D_l)\,\epsilon_l$"
    label_outside([[right]], "measured (R′ − R)/R", formula)
    plain_axis(left, legend=7, xscale="log", yscale="log")
    plain_axis(right)
    corner(left, brief(STUDY.questions[0].value(numbers)))
    return drawing


STUDY = he_su_study(
    title="With the law, the reduction R is least sensitive to changes of the weights",
    source="He & Su 2023, Training",
    paper="R·Σ(D_{l−1}/D_l)·ε is least when all ratios are equal: when the law holds",
    minutes={"smoke": 0.1, "cpu": 12, "paper": 12},
    settings={
        preset: {**each, **NOISE, "along": emergence.SETTINGS[preset]}
        | (LITTLE if preset == "smoke" else {})
        for preset, each in frozen.SETTINGS.items()
    },
    departures={"cpu": "3 of 5 rates for the networks followed along training"},
    plan=lambda settings: [*frozen.STUDY.plan(settings), *watched(settings)],
    measure=measure,
    claims=(
        Claim(
            "the sensitivity is nearer to its least value with the law than without",
            "the perturbation term is least when all ratios are equal",
            between("excess with − without", "excess", sub, *NAMES, fitting=False),
            lambda difference: difference < 0,
        ),
        Claim(
            "along training the excess sensitivity is lower when the law has emerged than at the "
            "start",
            "train at least until the law comes into effect",
            collect("along", "excess at the law − at the start", from_start_to_law),
            lambda change: change < 0,
        ),
    ),
    questions=(
        Question(
            "Does equal noise on the weights move R relatively less with the law (log ratio below "
            "0)?",
            between("log ratio", log_moved, sub, *NAMES, fitting=False),
            yes_or_no(lambda log: log < 0),
        ),
    ),
    checks=(
        Check(
            "at the smallest noise R·Σ(D_{l−1}/D_l)·ε_l gives R′ − R within 5 %",
            lambda numbers: {NAMES[k]: [formula_error(row) for row in numbers[k]] for k in NAMES},
            lambda error: error <= 0.05,
        ),
    ),
    figure=figure,
)
