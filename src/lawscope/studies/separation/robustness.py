"""A network with the law keeps its separation better when its weights are disturbed.

``lawscope study run separation/robustness``: 003, "Training". The 20-layer networks of
separation/frozen, with the law (trained as usual) and without it (two frozen stages), get noise on
all weights; R = D_L/D_0 and the ratio of every layer are measured again. To first order a change
ε_l of each ratio moves R by R·Σ(D_{l−1}/D_l)·ε_l. No trainings beyond those of separation/frozen.

The paper: the perturbation term is least when all ratios are equal, which is when the law holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lawscope.report.numbers import percent
from lawscope.report.study_figures import COLOURS, grid, plain_axis
from lawscope.studies.choice import choice, every, training_of
from lawscope.studies.plan import Training
from lawscope.studies.separation import frozen
from lawscope.studies.separation._notes import corner, told
from lawscope.studies.separation._over_seeds import enough, on_average
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

NOISE: dict[str, Any] = {"noise": [0.0003, 0.001, 0.003, 0.01, 0.03], "draws": 10}
PAPER: dict[str, Any] = {**frozen.PAPER, **NOISE}
CPU = {**frozen.CPU, **NOISE}
SMOKE = {**frozen.SMOKE, "noise": [0.001, 0.01], "draws": 2}
KINDS = {"standard": frozen.standard, "frozen": frozen.frozen}


def measure(lab: Lab) -> Numbers:
    """Both chosen networks of every seed under every size of noise."""
    return {kind: disturbed(lab, make(lab.settings)) for kind, make in KINDS.items()}


def disturbed(lab: Lab, candidates: Sequence[Training]) -> list[Numbers]:
    """One row per seed: the sensitivity of the undisturbed network, and its trials by noise."""
    rows = []
    for row in choice(lab, candidates)["chosen"]:
        training = training_of(row, candidates)
        law = lab.separation(training, uncertainty=None)
        lab.tell(f"disturbing {training.describe()}")
        rows.append(
            {
                "seed": row["seed"],
                "lr": row["lr"],
                "r": row["r"],
                "reduction": law.reduction,
                "sensitivity": law.sensitivity,
                "excess": law.sensitivity / law.least_sensitivity,
                "trials": [
                    {"noise": noise, **trial(lab, training, noise)}
                    for noise in lab.settings["noise"]
                ],
            }
        )
    return rows


def trial(lab: Lab, training: Training, noise: float) -> Numbers:
    """Noise of one size in several draws: how R moved, and what the formula says.

    Returns:
        ``moved``, (R′ − R)/R of each draw, and ``predicted``, Σ(D_{l−1}/D_l)·ε_l with the change
        ε_l = D′_l/D′_{l−1} − D_l/D_{l−1} of each layer's ratio in that draw.
    """
    import torch

    from lawscope.laws.separation import separation

    run = lab.run(training)
    before = lab.separation(training, uncertainty=None)
    moved, predicted = [], []
    generator = torch.Generator().manual_seed(training.seed)
    for _ in range(lab.settings["draws"]):
        model = run.network()
        with torch.no_grad():
            for weight in (p for p in model.parameters() if p.dim() > 1):
                size = noise * float(weight.square().mean().sqrt())
                weight.add_(torch.randn(weight.shape, generator=generator), alpha=size)
        data = lab.batches(run.samples.x, run.samples.y)
        after = separation(model, data, uncertainty=None, mode=lab.mode)
        moved.append(after.reduction / before.reduction - 1)
        predicted.append(float(((after.ratios - before.ratios) / before.ratios).sum()))
    return {"moved": moved, "predicted": predicted}


def root_mean_square(values: Sequence[float]) -> float:
    """√(mean of squares).

    Example:
        >>> root_mean_square([3.0, -3.0])
        3.0
    """
    return math.sqrt(math.fsum(v * v for v in values) / len(values))


def formula_error(numbers: Numbers) -> list[float]:
    """Root mean square error of the formula over that of the change, at the smallest noise."""
    errors = []
    for kind in KINDS:
        for row in numbers[kind]:
            at = min(row["trials"], key=lambda t: t["noise"])
            wrong = [p - m for p, m in zip(at["predicted"], at["moved"], strict=True)]
            errors.append(root_mean_square(wrong) / root_mean_square(at["moved"]))
    return errors


def moved_at(row: Numbers, noise: float) -> float:
    """Root mean square of (R′ − R)/R under one size of noise."""
    return next(root_mean_square(t["moved"]) for t in row["trials"] if t["noise"] == noise)


def log_gain(numbers: Numbers) -> list[float]:
    """Logarithm of the change of R with the law over that without, mean over noises, by seed."""
    gains = []
    for ours, theirs in zip(numbers["standard"], numbers["frozen"], strict=True):
        logs = [
            math.log(moved_at(ours, t["noise"]) / moved_at(theirs, t["noise"]))
            for t in ours["trials"]
        ]
        gains.append(math.fsum(logs) / len(logs))
    return enough(gains)


def excess_gap(numbers: Numbers) -> list[float]:
    """Sensitivity over its least value: without the law minus with it, one per seed."""
    pairs = zip(numbers["standard"], numbers["frozen"], strict=True)
    return enough([theirs["excess"] - ours["excess"] for ours, theirs in pairs])


CLAIMS = (
    Claim(
        "at the smallest noise R·Σ(D_{l−1}/D_l)·ε_l gives R′ − R within 5 % for every network",
        "the perturbation term, to first order",
        formula_error,
        every(lambda error: error <= 0.05),
    ),
    Claim(
        "the sensitivity is nearer to its least value with the law, mean over ≥ 3 seeds",
        "the perturbation term is least when all ratios are equal",
        excess_gap,
        on_average(lambda mean: mean > 0),
    ),
    Claim(
        "equal noise moves R relatively less with the law: mean log ratio below 0 over ≥ 3 seeds",
        "the separation ability is not very sensitive to perturbations when the law manifests",
        log_gain,
        on_average(lambda mean: mean < 0),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """Left: change of R against noise. Right: the formula against the change, draw by draw."""
    drawing, ((left, right),) = grid(1, 2, "Noise on the weights", (4.2, 3.2))
    names = {"standard": "with the law", "frozen": "without it (frozen)"}
    for (kind, name), color in zip(names.items(), COLOURS, strict=False):
        for index, row in enumerate(numbers[kind]):
            noises = [t["noise"] for t in row["trials"]]
            moves = [root_mean_square(t["moved"]) for t in row["trials"]]
            label = name if index == 0 else None
            left.plot(noises, moves, "o-", color=color, ms=3, lw=1, alpha=0.7, label=label)
            for t in row["trials"]:
                right.plot(t["moved"], t["predicted"], ".", color=color, ms=3, alpha=0.7)
    left.set(xscale="log", yscale="log")
    left.set_xlabel("noise / root mean square weight", fontsize=8.5)
    left.set_ylabel("relative change of R (root mean square)", fontsize=8.5)
    left.legend(fontsize=7, frameon=False)
    right.axline((0, 0), slope=1, color="grey", lw=0.8, ls=":")
    for scale in (right.set_xscale, right.set_yscale):
        scale("symlog", linthresh=1e-3)
    right.set_xlabel("measured (R′ − R)/R", fontsize=8.5)
    right.set_ylabel(r"formula: $\sum_l (D_{l-1}/D_l)\,\epsilon_l$", fontsize=8.5)
    plain_axis(left)
    plain_axis(right)
    first_order, _, steadier = CLAIMS
    corner(left, told("log ratio by seed", steadier, numbers))
    corner(
        right,
        told(
            "largest error of a network", first_order, numbers, lambda errors: percent(max(errors))
        ),
    )
    return drawing


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """The networks of separation/frozen."""
    return frozen.plan(settings)


STUDY = Study(
    title="With the law, noise on the weights moves the reduction R less",
    source="003, Training",
    paper="R·Σ(D_{l−1}/D_l)·ε is least when all ratios are equal: when the law holds",
    minutes={"smoke": 0.1, "cpu": 5.5, "paper": 12},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
