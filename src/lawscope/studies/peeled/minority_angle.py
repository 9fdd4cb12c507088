"""The angle between minority classifiers falls with the imbalance, to zero at a finite ratio.

``lawscope study run peeled/minority-angle``: the "numerical surprise" of 001 (000, part I). K = 10
classes, K_A = 3, 5, 7 of them R times as large as the others, E_W = 1, E_H = 5 and 10, R from 1 to
10⁴ with 20 steps a decade. R₀ and R₁ come from the closed forms of docs/layer-peeled.md, every
point of the curves from the solver with its certificate. Less than a second; nothing is trained,
nothing is random.

The documents: below some R₀ the angle becomes smaller as R grows, from R₀ on it is 0. There is no
third phase in them; ours: for small energies the classifiers are exactly zero beyond some R₁.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.choice import every, pick
from lawscope.studies.peeled._programs import (
    CERTIFIED,
    SAME,
    minority_numbers,
    nothing_to_train,
    ratios_between,
    steps,
)
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

PAPER: dict[str, Any] = {
    "classes": 10,
    "majorities": [3, 5, 7],
    "weight_energy": 1,
    "feature_energies": [5, 10],
    "largest_ratio": 10_000,
    "per_decade": 20,
    "seeds": 1,
}
CPU = PAPER
SMOKE = {**PAPER, "majorities": [5, 7], "per_decade": 3}
ROUNDING = 1e-9


def measure(lab: Lab) -> Numbers:
    """One curve for each K_A and E_H."""
    settings = lab.settings
    ratios = ratios_between(1, settings["largest_ratio"], settings["per_decade"])
    curves = []
    for majority in settings["majorities"]:
        for energy in settings["feature_energies"]:
            lab.tell(f"K_A {majority}, E_H {energy}")
            curves.append(curve(settings, majority, energy, ratios))
    return {"curves": curves}


def curve(
    settings: Mapping[str, Any], majority: int, energy: float, ratios: Sequence[float]
) -> Numbers:
    """Cosines, phases and certificates along R, beside the thresholds."""
    from lawscope.theory.layer_peeled.sweep import peel_sweep

    sweep = peel_sweep(ratios, settings["classes"], majority, settings["weight_energy"], energy)
    points = [minority_numbers(point) for point in sweep.points]
    last = sweep.points[-1]
    return {
        "majority": majority,
        "feature_energy": energy,
        "threshold": last.threshold,
        "vanishing": last.vanishing,
        "ratios": list(ratios),
        "cosines": [point["cosine"] for point in points],
        "phases": [point["phase"] for point in points],
        "gap": max(point["gap"] for point in points),
    }


def bracket(curve: Numbers) -> list[float | None]:
    """The last ratio with an angle between the minority classifiers, the first without.

    Example:
        >>> bracket({"ratios": [1, 10, 100], "cosines": [-0.1, 1.0, None]})
        [1, 10]
    """
    pairs = zip(curve["ratios"], curve["cosines"], strict=True)
    flat = [ratio for ratio, cosine in pairs if cosine is None or cosine > 1 - SAME]
    first = min(flat, default=math.inf)
    below = [ratio for ratio in curve["ratios"] if ratio < first]
    return [max(below, default=None), first if math.isfinite(first) else None]


def off_threshold(numbers: Numbers) -> list[float | None]:
    """R₀ over the nearer end of the interval in which the curve loses its angle; 1 inside it."""
    found: list[float | None] = []
    for each in numbers["curves"]:
        low, high = bracket(each)
        if low is None or high is None or each["threshold"] is None:
            found.append(None)
        else:
            inside = min(max(each["threshold"], low), high)
            found.append(each["threshold"] / inside)
    return found


def growth(numbers: Numbers) -> list[float]:
    """R₀ at the largest E_H over R₀ at the smallest, for each K_A."""
    energies = sorted({each["feature_energy"] for each in numbers["curves"]})
    majorities = list(dict.fromkeys(each["majority"] for each in numbers["curves"]))
    return [
        pick(numbers["curves"], majority=majority, feature_energy=energies[-1])["threshold"]
        / pick(numbers["curves"], majority=majority, feature_energy=energies[0])["threshold"]
        for majority in majorities
    ]


def vanishing(numbers: Numbers) -> list[float]:
    """R₁/R₀ of the curves that have an R₁."""
    there = [each for each in numbers["curves"] if each["vanishing"] is not None]
    return [each["vanishing"] / each["threshold"] for each in there]


CLAIMS = (
    Claim(
        "the angle only falls as R grows: no step of the cosine is below −1e-9, on any curve",
        "the angle becomes smaller as R increases",
        lambda numbers: [min(steps(each["cosines"])) for each in numbers["curves"]],
        every(lambda step: step >= -ROUNDING),
    ),
    Claim(
        "the angle is gone from R₀ on: R₀ lies where every curve reaches cosine 1 (to 1e-6)",
        "from R₀ on the angle is 0",
        off_threshold,
        every(lambda ratio: abs(ratio - 1) <= ROUNDING),
    ),
    Claim(
        "R₀ is finite on every curve (R₀ for K_A = 3, 5, 7 and E_H = 5, 10)",
        "a finite R₀, read off the figure",
        lambda numbers: [each["threshold"] for each in numbers["curves"]],
        every(math.isfinite),
    ),
    Claim(
        "a larger E_H needs a larger R₀, for each K_A (ratios above 1)",
        "the curves of larger E_H reach 1 later",
        growth,
        every(lambda ratio: ratio > 1),
    ),
    Claim(
        "every point is certified: gap at most 1e-6 of the loss",
        "solved as a convex program",
        lambda numbers: max(each["gap"] for each in numbers["curves"]),
        lambda gap: bool(gap <= CERTIFIED),
    ),
    Claim(
        "where classifiers vanish altogether, they do so beyond R₀ (R₁/R₀ above 1, where R₁ is)",
        "not in the documents",
        vanishing,
        every(lambda ratio: ratio > 1),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """The documents' figure: one panel per E_H, one curve per K_A, R₀ as a dotted line."""
    energies = list(dict.fromkeys(each["feature_energy"] for each in numbers["curves"]))
    title = "The angle between minority classifiers, Layer-Peeled Model"
    drawing, axes = grid(1, len(energies), title, (4.0, 3.2))
    for axis, energy in zip(axes[0], energies, strict=True):
        curves = [each for each in numbers["curves"] if each["feature_energy"] == energy]
        for each, color in zip(curves, COLOURS, strict=False):
            cosines = [math.nan if c is None else c for c in each["cosines"]]
            name = f"K_A = {each['majority']}, R₀ = {each['threshold']:.4g}"
            axis.plot(each["ratios"], cosines, "o-", color=color, ms=2.5, lw=1, label=name)
            axis.axvline(each["threshold"], color=color, lw=0.8, ls=":")
            if each["vanishing"] is not None and each["vanishing"] <= each["ratios"][-1]:
                axis.axvline(each["vanishing"], color=color, lw=0.8, ls="--")
        axis.set_xscale("log")
        axis.legend(fontsize=7, frameon=False)
        plain_axis(axis, f"E_H = {energy} (dotted R₀, dashed R₁)")
    label_outside(axes, "imbalance ratio R", "cosine between minority classifiers")
    return drawing


STUDY = Study(
    title="The minority angle falls with R and is zero from a finite R₀ on",
    source="001, a numerical surprise; 000, part I",
    paper="falls as R grows, 0 from some R₀ on; larger E_H, larger R₀",
    minutes={"smoke": 0.05, "cpu": 0.05, "paper": 0.05},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=nothing_to_train,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
