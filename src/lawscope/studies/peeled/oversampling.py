"""Oversampling the minority brings its angles back; at w_r = R the simplex is back.

``lawscope study run peeled/oversampling``: the effect of oversampling in theory (001). K = 10
classes, K_A = 3, 5, 7, E_W = 1, E_H = 5 and 10, R = 100 and 1000, the oversampling rate w_r from 1
to R with 10 steps a decade. Each program is solved once more one percent below and above R/R₀, the
rate at which the angle comes back. Less than a second; nothing is trained, nothing is random.

The documents: a minority class has in effect w_r·n_B samples; at w_r = R neural collapse is back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.choice import every
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
    "ratios": [100, 1000],
    "per_decade": 10,
    "seeds": 1,
}
CPU = PAPER
SMOKE = {**PAPER, "majorities": [5], "feature_energies": [5], "ratios": [100], "per_decade": 2}
ASIDE = 0.01
ROUNDING = 1e-9


def measure(lab: Lab) -> Numbers:
    """One curve for each R, K_A and E_H."""
    settings = lab.settings
    curves = []
    for ratio in settings["ratios"]:
        for majority in settings["majorities"]:
            for energy in settings["feature_energies"]:
                lab.tell(f"R {ratio}, K_A {majority}, E_H {energy}")
                curves.append(curve(settings, ratio, majority, energy))
    return {"classes": settings["classes"], "curves": curves}


def curve(settings: Mapping[str, Any], ratio: float, majority: int, energy: float) -> Numbers:
    """Cosines along w_r, and the cosines on both sides of R/R₀."""
    from lawscope.theory.layer_peeled.peel import peel

    counts = [float(ratio)] * majority + [1.0] * (settings["classes"] - majority)

    def at(rates: Sequence[float]) -> list[Numbers]:
        energies = settings["weight_energy"], energy
        return [minority_numbers(peel(counts, *energies, oversampling=rate)) for rate in rates]

    needed = peel(counts, settings["weight_energy"], energy).oversampling_needed
    rates = ratios_between(1, ratio, settings["per_decade"])
    points = at(rates)
    # A rate of 1 or less means that this R has not collapsed in the first place.
    sides = at([needed * (1 - ASIDE), needed * (1 + ASIDE)]) if needed and needed > 1 else []
    return {
        "ratio": ratio,
        "majority": majority,
        "feature_energy": energy,
        "needed": needed,
        "rates": rates,
        "cosines": [point["cosine"] for point in points],
        "phases": [point["phase"] for point in points],
        "sides": [side["cosine"] for side in sides],
        "gap": max(point["gap"] for point in [*points, *sides]),
    }


def sides(numbers: Numbers) -> list[float]:
    """For each curve that collapses: 1 − cosine just below R/R₀, then just above it."""
    angles = [[1 - c for c in each["sides"]] for each in numbers["curves"] if each["sides"]]
    return [angle for pair in angles for angle in pair]


def seen_from_both(angles: Sequence[float]) -> bool:
    """Below R/R₀ there is no angle, above it there is."""
    below, above = angles[::2], angles[1::2]
    return bool(angles) and max(below) <= SAME < min(above)


def simplex_error(numbers: Numbers) -> list[float]:
    """Cosine at w_r = R against the simplex of all K classes."""
    return [abs(each["cosines"][-1] + 1 / (numbers["classes"] - 1)) for each in numbers["curves"]]


CLAIMS = (
    Claim(
        "the angle only grows with w_r: no step of the cosine is above 1e-9, on any curve",
        "oversampling restores the angle",
        lambda numbers: [max(steps(each["cosines"])) for each in numbers["curves"]],
        every(lambda step: step <= ROUNDING),
    ),
    Claim(
        "the angle comes back at w_r = R/R₀: 1 − cosine is at most 1e-6 one percent below, more "
        "one percent above, on every curve that had collapsed",
        "in effect the minority has w_r·n_B samples",
        sides,
        seen_from_both,
    ),
    Claim(
        "at w_r = R the simplex is back: cosine −1/(K−1) to 1e-6 on every curve",
        "if w_r = R, neural collapse is back",
        simplex_error,
        every(lambda error: error <= SAME),
    ),
    Claim(
        "every point is certified: gap at most 1e-6 of the loss",
        "solved as a convex program",
        lambda numbers: max(each["gap"] for each in numbers["curves"]),
        lambda gap: bool(gap <= CERTIFIED),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One panel for each R and E_H, one curve per K_A, R/R₀ as a dotted line."""
    keys = list(dict.fromkeys((c["ratio"], c["feature_energy"]) for c in numbers["curves"]))
    rows, columns = len({key[0] for key in keys}), len({key[1] for key in keys})
    title = "The effect of oversampling, Layer-Peeled Model"
    drawing, axes = grid(rows, columns, title, (4.0, 2.9))
    places = [axis for row in axes for axis in row]
    for axis, key in zip(places, keys, strict=True):
        curves = [c for c in numbers["curves"] if (c["ratio"], c["feature_energy"]) == key]
        for each, color in zip(curves, COLOURS, strict=False):
            cosines = [math.nan if c is None else c for c in each["cosines"]]
            name = f"K_A = {each['majority']}, "
            name += f"R/R₀ = {each['needed']:.3g}" if each["sides"] else "R < R₀"
            axis.plot(each["rates"], cosines, "o-", color=color, ms=2.5, lw=1, label=name)
            if each["sides"]:
                axis.axvline(each["needed"], color=color, lw=0.8, ls=":")
        axis.set_xscale("log")
        axis.legend(fontsize=7, frameon=False)
        plain_axis(axis, f"R = {key[0]}, E_H = {key[1]}")
    label_outside(axes, "oversampling rate w_r", "cosine between minority classifiers")
    return drawing


STUDY = Study(
    title="Oversampling restores the minority angle from w_r = R/R₀ on",
    source="001, effect of oversampling in theory",
    paper="the minority has in effect w_r·n_B samples; the simplex is back at w_r = R",
    minutes={"smoke": 0.03, "cpu": 0.05, "paper": 0.05},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=nothing_to_train,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
