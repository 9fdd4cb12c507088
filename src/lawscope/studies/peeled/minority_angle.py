"""The angle between minority classifiers falls with the imbalance, to zero at a finite ratio.

``lawscope study run peeled/minority-angle``: "a numerical surprise" (Fang et al. 2021). K = 10
classes, K_A = 3, 5, 7 of them R times as large as the others, E_W = 1, E_H = 5 and 10, R from 1 to
10⁴ with 20 steps a decade. R₀ and R₁ come from the closed forms of docs/layer-peeled.md, every
point of the curves from the solver with its certificate. A few seconds; nothing is trained, nothing
is random.

The paper: below some R₀ the angle becomes smaller as R grows, from R₀ on it is 0; class means no
longer collapse to classifiers. There is no third phase in it; ours: for small energies the
classifiers are exactly zero beyond some R₁.
"""

from __future__ import annotations

import math
from typing import Any

import lawscope as ls
from lawscope.lazy import np
from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import Settings, collect, group_by, medians, pick, presets
from lawscope.studies.peeled import _programs as programs
from lawscope.studies.peeled._programs import LABEL, SAME
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question, Study

PAPER: dict[str, Any] = {**programs.TWO_GROUPS, "largest_ratio": 10_000, "per_decade": 20}
SMOKE = {"majorities": [5, 7], "per_decade": 3}
TURNED = 1e-3
LOW = -0.2  # cosine, the bottom of the figure


def measure(lab: Lab) -> Numbers:
    axes = {"majority": "majorities", "feature_energy": "feature_energies"}
    return {"curves": programs.for_each(lab, curve, **axes)}


def curve(settings: Settings, majority: int, feature_energy: float) -> Numbers:
    ratios = programs.ratios_between(1, settings["largest_ratio"], settings["per_decade"])
    classes, E_W = settings["classes"], settings["weight_energy"]
    found = ls.peel_sweep(ratios, classes, majority, E_W, feature_energy).points
    points = [programs.minority_numbers(point) for point in found]
    return {
        "threshold": found[-1].threshold,
        "vanishing": found[-1].vanishing,
        "ratios": ratios,
        "cosines": [point["cosine"] for point in points],
        "phases": [point["phase"] for point in points],
        "turned": [turned(point) for point in found],
        "gap": max(point["gap"] for point in points),
    }


def turned(found: ls.Peeled) -> float | None:
    """Return the largest angle (°) of a classifier to its class mean; None if some vanished."""
    if found.groups[-1].phase == "vanished":
        return None
    W, H = found.weights(), found.features()
    lengths = np.linalg.norm(W, axis=1) * np.linalg.norm(H, axis=1)
    cosines = np.minimum((W * H).sum(axis=1) / lengths, 1)
    return float(np.degrees(np.arccos(cosines)).max())


def bracket(curve: Numbers) -> list[float | None]:
    """Find the last ratio with an angle between the minority classifiers, the first without."""
    pairs = zip(curve["ratios"], curve["cosines"], strict=True)
    flat = [ratio for ratio, cosine in pairs if cosine is None or cosine > 1 - SAME]
    first = min(flat, default=math.inf)
    below = [ratio for ratio in curve["ratios"] if ratio < first]
    return [max(below, default=None), first if math.isfinite(first) else None]


def off_threshold(curve: Numbers) -> float | None:
    """R₀ over the nearer end of the interval in which the curve loses its angle; 1 inside it."""
    low, high = bracket(curve)
    R0: float | None = curve["threshold"]
    if low is None or high is None or R0 is None:
        return None
    return R0 / min(max(R0, low), high)


def growth(numbers: Numbers) -> dict[str, list[float]]:
    curves = numbers["curves"]
    energies = sorted({each["feature_energy"] for each in curves})

    def threshold(K_A: int, E_H: float) -> float:
        return float(pick(curves, majority=K_A, feature_energy=E_H)["threshold"])

    return {
        f"K_A = {K_A}": [threshold(K_A, energies[-1]) / threshold(K_A, energies[0])]
        for K_A in dict.fromkeys(each["majority"] for each in curves)
    }


def least_turned(curve: Numbers) -> float:
    """Return the smallest over R > 1 of the largest angle of a classifier to its class mean."""
    if "turned" not in curve:
        raise NotTried("these numbers have no angles between classifiers and class means")
    pairs = zip(curve["ratios"], curve["turned"], strict=True)
    return float(min(angle for ratio, angle in pairs if ratio > 1 and angle is not None))


def figure(numbers: Numbers) -> Figure:
    energies = group_by(numbers["curves"], "feature_energy")
    title = "The angle between minority classifiers, Layer-Peeled Model\n"
    title += "dotted: R₀, from which it is 0; dashed: R₁, from which minority classifiers vanish"
    drawing, axes = grid(1, len(energies), title, (4.2, 3.4))
    for axis, (energy, curves) in zip(axes[0], energies.items(), strict=True):
        for each, color in zip(curves, COLOURS, strict=False):
            name = f"K_A = {each['majority']}, R₀ = {each['threshold']:.4g}"
            cosines = programs.or_nan(each["cosines"])
            axis.plot(each["ratios"], cosines, "o-", color=color, ms=2.5, lw=1, label=name)
            axis.vlines(each["threshold"], LOW, 1, color=color, lw=0.8, ls=":")
            if each["vanishing"] is not None and each["vanishing"] <= each["ratios"][-1]:
                axis.vlines(each["vanishing"], LOW, 1, color=color, lw=0.8, ls="--")
                axis.plot(each["vanishing"], 1, "x", color=color, ms=6)
        # Room above the curves for the legend.
        plain_axis(axis, f"E_H = {energy}", legend=7, xscale="log", ylim=(LOW, 1.5))
        axis.set_yticks(np.linspace(LOW, 1, 7))
    label_outside(axes, "imbalance ratio R", "cosine between minority classifiers")
    return drawing


STUDY = Study(
    title="The minority angle falls with R and is zero from a finite R₀ on",
    source="Fang et al. 2021, a numerical surprise",
    paper="falls as R grows, 0 from some R₀ on; larger E_H, larger R₀",
    minutes={"smoke": 0.05, "cpu": 0.05, "paper": 0.05},
    settings=presets(PAPER, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "the angle between minority classifiers only falls as R grows: no step of the cosine "
            "is below −1e-9",
            "the angle becomes smaller as R increases",
            collect("curves", LABEL, lambda each: min(programs.steps(each["cosines"]))),
            lambda step: bool(step >= -programs.ROUNDING),
        ),
        Claim(
            "from R₀ on minority classifiers have no angle: R₀ lies where their cosine reaches 1 "
            "(to 1e-6), its ratio to that interval is 1",
            "once R ≥ R₀ the angle becomes 0",
            collect("curves", LABEL, off_threshold),
            lambda ratio: bool(abs(ratio - 1) <= programs.ROUNDING),
        ),
        Claim(
            "a larger E_H needs a larger R₀ (ratio above 1)",
            "the curves of larger E_H reach 1 later",
            growth,
            lambda ratio: bool(ratio > 1),
        ),
        Claim(
            "for every R > 1 some class mean is not along its classifier: the largest angle "
            "between the two is above 0.001° (smallest over R, in degrees)",
            "class means no longer collapse to classifiers",
            collect("curves", LABEL, least_turned),
            lambda angle: bool(angle > TURNED),
            "convex program",
        ),
    ),
    questions=(
        Question(
            "At which R₀ does the minority collapse?",
            collect("curves", LABEL, "threshold"),
            medians,
        ),
        Question(
            "Is there a third phase, in which the minority's classifiers vanish beyond R₁ (R₁/R₀)?",
            collect(
                "curves",
                LABEL,
                lambda each: each["vanishing"] / each["threshold"],
                where=lambda each: each["vanishing"] is not None,
            ),
            lambda measured: f"yes, R₁/R₀ = {medians(measured)}",
        ),
    ),
    checks=(programs.certified("curves"),),
    figure=figure,
)
