"""Oversampling the minority brings its angles back; at w_r = R the simplex is back.

``lawscope study run peeled/oversampling``: "effect of oversampling, in theory" (Fang et al. 2021).
K = 10 classes, K_A = 3, 5, 7, E_W = 1, E_H = 5 and 10, R = 100 and 1000, the oversampling rate w_r
from 1 to R with 10 steps a decade. Each program is solved once more one percent below and above
R/R₀, the rate at which the angle comes back. A few seconds; nothing is trained, nothing is random.
"""

from __future__ import annotations

from typing import Any

import lawscope as ls
from lawscope.lazy import np
from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import Settings, collect, group_by, presets
from lawscope.studies.peeled import _programs as programs
from lawscope.studies.peeled._programs import LABEL, SAME
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Study

PAPER: dict[str, Any] = {**programs.TWO_GROUPS, "ratios": [100, 1000], "per_decade": 10}
SMOKE = {"majorities": [5], "feature_energies": [5], "ratios": [100], "per_decade": 2}
NAME = f"R = {{ratio}}, {LABEL}"


def measure(lab: Lab) -> Numbers:
    axes = {"ratio": "ratios", "majority": "majorities", "feature_energy": "feature_energies"}
    return {"classes": lab.settings["classes"], "curves": programs.for_each(lab, curve, **axes)}


def curve(settings: Settings, ratio: float, majority: int, feature_energy: float) -> Numbers:
    counts = programs.counts_of(settings, majority, ratio)
    energies = settings["weight_energy"], feature_energy

    def at(rate: float) -> Numbers:
        return programs.minority_numbers(ls.peel(counts, *energies, oversampling=rate))

    needed = ls.peel(counts, *energies).oversampling_needed
    rates = programs.ratios_between(1, ratio, settings["per_decade"])
    points = [at(rate) for rate in rates]
    # A rate of 1 or less means that this R has not collapsed in the first place.
    sides = [at(needed * (1 + s)) for s in (-0.01, 0.01)] if needed and needed > 1 else []
    return {
        "needed": needed,
        "rates": rates,
        "cosines": [point["cosine"] for point in points],
        "phases": [point["phase"] for point in points],
        "sides": [side["cosine"] for side in sides],
        "gap": max(point["gap"] for point in [*points, *sides]),
    }


def beside_threshold(side: int) -> Any:
    """1 − cosine of each curve that collapses, one percent below R/R₀ (0) or above it (1)."""
    return collect("curves", NAME, lambda c: 1 - c["sides"][side], where=lambda c: bool(c["sides"]))


def simplex_error(numbers: Numbers) -> dict[str, list[float]]:
    simplex = -1 / (numbers["classes"] - 1)
    return collect("curves", NAME, lambda each: abs(each["cosines"][-1] - simplex))(numbers)


def figure(numbers: Numbers) -> Figure:
    keys = group_by(numbers["curves"], "ratio", "feature_energy")
    rows, columns = len({key[0] for key in keys}), len({key[1] for key in keys})
    title = "The effect of oversampling, Layer-Peeled Model\n"
    title += "dotted: w_r = R/R₀; no points where minority classifiers vanish"
    drawing, axes = grid(rows, columns, title, (4.0, 2.9))
    places = [axis for row in axes for axis in row]
    for axis, (key, curves) in zip(places, keys.items(), strict=True):
        for each, color in zip(curves, COLOURS, strict=False):
            name = f"K_A = {each['majority']}, "
            name += f"R/R₀ = {each['needed']:.3g}" if each["sides"] else "R < R₀"
            cosines = programs.or_nan(each["cosines"])
            axis.plot(each["rates"], cosines, "o-", color=color, ms=2.5, lw=1, label=name)
            if each["sides"]:
                axis.vlines(each["needed"], -0.2, 1, color=color, lw=0.8, ls=":")
        # Room above the curves for the legend.
        heading = f"R = {key[0]}, E_H = {key[1]}"
        plain_axis(axis, heading, legend=7, xscale="log", ylim=(-0.2, 1.6))
        axis.set_yticks(np.linspace(-0.2, 1, 7))
    label_outside(axes, "oversampling rate w_r", "cosine between minority classifiers")
    return drawing


STUDY = Study(
    title="Oversampling restores the minority angle from w_r = R/R₀ on",
    source="Fang et al. 2021, effect of oversampling in theory",
    paper="the minority has in effect w_r·n_B samples; the simplex is back at w_r = R",
    minutes={"smoke": 0.03, "cpu": 0.05, "paper": 0.05},
    settings=presets(PAPER, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "the angle between minority classifiers only grows with w_r: no step of the cosine is "
            "above 1e-9",
            "oversampling mitigates Minority Collapse",
            collect("curves", NAME, lambda each: max(programs.steps(each["cosines"]))),
            lambda step: bool(step <= programs.ROUNDING),
        ),
        Claim(
            "one percent below w_r = R/R₀ minority classifiers have no angle: 1 − cosine at most "
            "1e-6",
            "the size of a minority class is in effect w_r·n_B",
            beside_threshold(0),
            lambda angle: bool(angle <= SAME),
        ),
        Claim(
            "one percent above w_r = R/R₀ minority classifiers have an angle: 1 − cosine more than "
            "1e-6",
            "the size of a minority class is in effect w_r·n_B",
            beside_threshold(1),
            lambda angle: bool(angle > SAME),
        ),
        Claim(
            "at w_r = R the simplex is back: the cosine is −1/(K−1) to 1e-6",
            "if w_r = R, neural collapse is back",
            simplex_error,
            lambda error: bool(error <= SAME),
        ),
    ),
    checks=(programs.certified("curves"),),
    figure=figure,
)
