"""Separation fails when two thirds of the labels are wrong, and U changes its sign there.

``lawscope study run elasticity/label-noise``: figure 3 of Zhang et al. 2021. Networks on shapes
(K = 3) of which a share p of the training labels is replaced for good by one of the other two;
validation labels are right. p = 0, 0.1 … 0.6, 2/3, 0.7, 0.75, 0.8; 6 networks for each. At ``cpu``
lr 0.02 and 6000 steps; at ``paper`` lr 0.005 and 100,000 steps. Tail indices are the authors': from
t₀ = 0, with absolute values, over the last 1000 steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lawscope.lazy import np
from lawscope.studies.elasticity import _networks as networks
from lawscope.studies.elasticity._networks import SHAPES_WORLD, TINY_SHAPES
from lawscope.studies.elasticity.estimation import MODELS
from lawscope.studies.figures import COLOURS, label_outside, plain_axis, wrapped
from lawscope.studies.panels import Panels, Settings, collect, middle, presets
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

BORDER = 2 / 3
SHARES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, BORDER, 0.7, 0.75, 0.8]
PAPER: dict[str, Any] = {"world": SHAPES_WORLD, "shares": SHARES, "seeds": 6}
CPU = {"world": {**SHAPES_WORLD, "lr": 0.02, "steps": 6000}}
SMOKE = {"world": {**TINY_SHAPES, "steps": 20}, "shares": [0.0, 0.5, 0.8], "seeds": 2}
SEPARATED, CHANCE = 0.9, 0.45  # accuracies
LABEL = "p = {share:.3g}"


def trainings(settings: Settings, share: float) -> list[Training]:
    return networks.trainings_of(settings, settings["world"], share)


def measure(lab: Lab) -> Numbers:
    from lawscope.theory.elastic_sde.model import own_logits

    rows = []
    for share in lab.settings["shares"]:
        for training in trainings(lab.settings, share):
            record = networks.trajectory_of(lab, training)
            U = own_logits(record["means"]).sum(axis=-1)
            late = slice(-max(1, len(U) // 10), None)
            rows.append(
                {
                    "share": share, "seed": record["seed"],
                    "accuracy": record["test_accuracy"], "first_loss": float(record["loss"][0]),
                    "loss": float(np.mean(record["loss"][late])), "U": float(U[late].mean()),
                    "tails": {model: tails(record, model) for model in MODELS},
                }
            )  # fmt: skip
    return {"networks": rows}


def tails(record: Numbers, model: Any) -> list[float | None]:
    """Return the authors' tail indices of α̂ and β̂; None where Â or B̂ crosses zero late."""
    from lawscope.theory.elastic_sde.estimate import (
        estimate_tail,
        measure_modes,
        solve_strengths,
    )

    means = record["means"][None]
    modes = measure_modes(means, model, 0.0, "elements")
    strengths = solve_strengths(modes, means.shape[2], model)
    found = [estimate_tail(each, record["step"]).paper for each in strengths]
    return [value if math.isfinite(value) else None for value in found]


def beyond(model: str) -> Callable[[Numbers], float | None]:
    """Return by how much r̂ of the strength that should be larger on this side of 2/3 is."""

    def lead(row: Numbers) -> float | None:
        alpha, beta = row["tails"][model]
        if alpha is None or beta is None:
            return None
        return float(beta - alpha if row["share"] >= BORDER else alpha - beta)

    return lead


def tail(model: str, which: int) -> Callable[[Numbers], Any]:
    return lambda row: row["tails"][model][which]


def z_of_u(numbers: Numbers) -> dict[str, float]:
    """Return U over its standard error, over networks, for each p."""
    found = {}
    for label, values in collect("networks", LABEL, "U")(numbers).items():
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / max(1, len(values) - 1))
        found[label] = mean / (spread / math.sqrt(len(values))) if spread else math.nan
    return found


def sign_change(found: dict[str, float]) -> str:
    """Say between which shares U changes its sign, each side by two standard errors."""
    shares = {float(label.removeprefix("p = ")): z for label, z in found.items()}
    above = [p for p, z in shares.items() if z > 2]
    below = [p for p, z in shares.items() if z < -2]
    if not above or not below:
        return "no change of sign by two standard errors"
    if max(above) > min(below):
        return "signs do not sort by p"
    return f"between p = {max(above):.3g} and {min(below):.3g}"


def figure(numbers: Numbers) -> Figure:
    title = "Label noise p: networks (dots) and their median (lines)"
    drawing, axes, places = wrapped(3 + len(MODELS), title, (3.1, 2.6))
    rows = numbers["networks"]
    shares = list(dict.fromkeys(row["share"] for row in rows))
    panels: list[tuple[str, dict[str, Callable[[Numbers], Any]]]] = [
        ("validation loss", {"last": lambda r: r["loss"], "first": lambda r: r["first_loss"]}),
        ("validation accuracy", {"": lambda r: r["accuracy"]}),
        ("U at the end", {"": lambda r: r["U"]}),
        *((f"tail indices, {m}-model", {"α̂": tail(m, 0), "β̂": tail(m, 1)}) for m in MODELS),
    ]  # fmt: skip
    for axis, (name, curves) in zip(places, panels, strict=True):
        for (label, read), color in zip(curves.items(), COLOURS, strict=False):
            cells = [[read(row) for row in rows if row["share"] == share] for share in shares]
            for share, values in zip(shares, cells, strict=True):
                there = [value for value in values if value is not None]
                axis.plot([share] * len(there), there, "o", color=color, ms=2.5, alpha=0.5)
            axis.plot(shares, list(map(middle, cells)), color=color, lw=1.2, label=label or None)
        axis.axvline(BORDER, color="grey", lw=0.8, ls=":", label="p = 2/3")
        plain_axis(axis, name, legend=7)
    places[2].set_yscale("symlog", linthresh=1e-3)
    label_outside(axes, "p", "")
    return drawing


def overtaking(model: str) -> Claim:
    return Claim(
        f"{model}-model: the tail index of β̂ is above that of α̂ from p = 2/3 on and below it "
        "before (lead of the one that should be larger)",
        "around p = 2/3 the tail index of β̂ begins to dominate that of α̂"
        if model == "L"
        else "only the L-model is said to show no clear phase transition",
        collect("networks", LABEL, beyond(model)),
        lambda lead: lead > 0,
        figure="figure 3c" if model == "I" else "figure 3d",
    )


STUDY = Study(
    title="Separation fails at two thirds of wrong labels, and U changes its sign",
    source="Zhang et al. 2021, figure 3",
    paper="separation fails for p > 2/3; near 2/3 the tail index of β̂ overtakes that of α̂",
    minutes={"smoke": 0.1, "cpu": 4, "paper": 60},
    settings=presets(PAPER, CPU, SMOKE),
    plan=Panels(trainings, share="shares").plan,
    measure=measure,
    claims=(
        Claim(
            "up to p = 0.3 classes separate: validation accuracy 0.9 or more",
            "a curve that stays high for small p",
            collect("networks", LABEL, "accuracy", where=lambda row: row["share"] <= 0.3),
            lambda accuracy: accuracy >= SEPARATED,
            figure="figure 3b",
        ),
        Claim(
            "above p = 2/3 classes do not separate: validation accuracy at most 0.45",
            "separation fails for p > 2/3",
            collect("networks", LABEL, "accuracy", where=lambda row: row["share"] > BORDER + 0.01),
            lambda accuracy: accuracy <= CHANCE,
            figure="figure 3b",
        ),
        Claim(
            "from p = 0.6 on the validation loss does not fall: at least 0.98 of the first",
            "the value at initialisation overlaps with the case p = 0.6",
            collect(
                "networks", LABEL, lambda row: row["loss"] / row["first_loss"],
                where=lambda row: row["share"] >= 0.6,
            ),
            lambda ratio: ratio >= 0.98,
            figure="figure 3a",
        ),
        overtaking("I"),
        overtaking("L"),
    ),
    questions=(
        Question("Where does U change its sign, by two standard errors over networks?",
                 z_of_u, sign_change),
    ),
    figure=figure,
    departures={
        "cpu": "lr 0.02 and 6000 steps instead of 0.005 and 100,000",
        "paper": "LeNet's widths, and our own shapes",
    },
)  # fmt: skip
