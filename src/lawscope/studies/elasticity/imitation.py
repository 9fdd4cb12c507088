"""The LE-ODE with estimated strengths against the training it imitates.

``lawscope study run elasticity/imitation``: figures 4 and 5 of Zhang et al. 2021. α̂ and β̂ of each
network of ``elasticity/estimation`` are put into the L-model, once estimated by the I-model and
once by the L-model, from the class means at t₀ on; RD compares with the genuine class means. t₀ is
the first step from which U keeps its sign, for both estimates; from t₀ = 0 neither means anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lawscope.studies.elasticity import _networks as networks
from lawscope.studies.elasticity._networks import CIFAR_THREE, CIFAR_TWO, SHAPES, of_world, thinned
from lawscope.studies.elasticity.estimation import MODELS, fit, trajectory
from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import medians
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

WORLDS = (SHAPES, CIFAR_TWO, CIFAR_THREE)
MOST_STEPS = 0.9


def measure(lab: Lab) -> Numbers:
    rows = []
    for world, settings in networks.worlds_of(lab.settings).items():
        for training in networks.trainings_of(lab.settings, settings):
            record = networks.trajectory_of(lab, training)
            lab.tell(f"{world}, seed {record['seed']}")
            rows.append({"world": world, "seed": record["seed"], **imitate(record)})
    return {"networks": rows}


def imitate(record: Numbers) -> Numbers:
    """Return RD of both imitations along training, mean over classes; None where one is void."""
    import numpy as np

    from lawscope.errors import LawscopeError
    from lawscope.theory.elastic_sde.estimate import relative_difference

    first = fit([record], "L")
    if first is None or first.voids:
        return {"t0": None, **dict.fromkeys(MODELS)}
    genuine = trajectory([record]).means[0, -len(first.steps) :]
    centred = genuine - genuine.mean(axis=-1, keepdims=True)
    found: Numbers = {"t0": first.t0, "steps": thinned(first.steps)}
    curves = {}
    for model in MODELS:
        own = fit([record], model, first.t0)
        try:
            means = None if own is None else own.simulate("L").means[0]
        except LawscopeError:  # outgrows floating-point numbers, or is void
            means = None
        if means is None:
            found[model] = None
            continue
        # What is added to all logits of a sample means nothing to softmax, nor to the L-model.
        imitated = means - means.mean(axis=-1, keepdims=True)
        curves[model] = relative_difference(centred, imitated).mean(axis=-1)
        found[model] = {
            "RD": thinned(curves[model]), "late": float(curves[model][-len(means) // 4 :].mean()),
            "middle": float(curves[model][len(means) // 2]), "last": float(curves[model][-1]),
            "own": [thinned(each) for each in own_logits(imitated)],
        }  # fmt: skip
    found["genuine"] = [thinned(each) for each in own_logits(centred)]
    both = len(curves) == len(MODELS)
    found["better"] = float(np.mean(curves["L"] <= curves["I"])) if both else None
    return found


def own_logits(means: Any) -> Any:
    """Return X^k_k of centred logits, (K, T)."""
    import numpy as np

    return np.diagonal(means, axis1=-2, axis2=-1).T


def late_ratio(row: Numbers) -> float | None:
    """Return RD of the L-estimates over RD of the I-estimates, in the last quarter."""
    if row["L"] is None:
        return None
    return 0.0 if row["I"] is None else float(row["L"]["late"] / row["I"]["late"])


def of_l(how: Callable[[Numbers], float]) -> Callable[[Numbers], float | None]:
    return lambda row: None if row["L"] is None else how(row["L"])


def figure(numbers: Numbers) -> Figure:
    worlds = list(dict.fromkeys(row["world"] for row in numbers["networks"]))
    drawing, axes = grid(3, len(worlds), "Training and its imitation by the L-model", (4.0, 2.5))
    for column, world in enumerate(worlds):
        rows = [row for row in numbers["networks"] if row["world"] == world and row["L"]]
        for row, model in ((row, model) for row in rows[:1] for model in MODELS):
            axis = axes[MODELS.index(model)][column]
            for k, genuine in enumerate(row["genuine"]):
                color = COLOURS[k]
                axis.plot(row["steps"], genuine, color=color, lw=1.2, label=f"class {k}")
                if row[model] is not None:
                    axis.plot(row["steps"], row[model]["own"][k], "--", color=color, lw=1.2)
            plain_axis(axis, f"{world}: {model}-estimates (dashed)", legend=7)
        axis = axes[2][column]
        for row in rows:
            for model, color in zip(MODELS, COLOURS, strict=False):
                if row[model] is not None:
                    label = f"{model}-estimates" if row is rows[0] else None
                    axis.plot(row["steps"], row[model]["RD"], color=color, lw=0.8, label=label)
        plain_axis(axis, f"{world}: RD", legend=7 if rows else 0, ylim=(0, 2.05))
    label_outside(axes, "step", "")
    return drawing


def claims_of(world: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{world}: RD of the L-estimates is below that of the I-estimates in the last quarter "
            "(ratio under 1; 0 where the I-estimates outgrow all numbers)",
            "the L-model performs better than the I-model",
            of_world("networks", world, late_ratio),
            lambda ratio: ratio < 1,
            figure="figure 5",
        ),
        Claim(
            f"{world}: … at 90 % or more of all steps",
            "… throughout training",
            of_world(
                "networks", world,
                lambda row: 1.0 if row["I"] is None and row["L"] else row.get("better"),
            ),
            lambda share: share >= MOST_STEPS,
            figure="figure 5",
        ),
        Claim(
            f"{world}: RD of the L-estimates falls late: lower at the end than in the middle",
            "it better captures the later stages (decreasing RD)",
            of_world("networks", world, of_l(lambda found: found["last"] - found["middle"])),
            lambda change: change < 0,
            figure="figure 5",
        ),
    )  # fmt: skip


def late_by_world(numbers: Numbers) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for row in numbers["networks"]:
        found.setdefault(row["world"], []).append(of_l(lambda own: own["late"])(row))
    return found


def starts_by_world(numbers: Numbers) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in numbers["networks"]:
        found.setdefault(row["world"], []).append(math.nan if row["t0"] is None else row["t0"])
    return found


STUDY = Study(
    title="The LE-ODE with estimated strengths imitates training",
    source="Zhang et al. 2021, figures 4 and 5",
    paper="the L-model imitates true dynamics reasonably well, better than the I-model, and late",
    minutes={"smoke": 0.1, "cpu": 4, "paper": 60},
    settings=networks.family_presets(),
    plan=networks.plan,
    measure=measure,
    claims=tuple(claim for world in WORLDS for claim in claims_of(world)),
    questions=(
        Question("How large is RD of the L-estimates in the last quarter?", late_by_world, medians),
        Question("From which step t₀ on is there an imitation?", starts_by_world, medians),
    ),
    figure=figure,
    departures=networks.DEPARTURES,
)
