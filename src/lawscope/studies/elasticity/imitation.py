"""The LE-ODE with estimated strengths against the training it imitates.

``lawscope study run elasticity/imitation``: figures 4 and 5 of Zhang et al. 2021. α̂ and β̂ of each
network of ``elasticity/estimation`` are put into the L-model, once estimated by the I-model and
once by the L-model, from the class means at t₀ on; RD compares with the genuine class means. t₀ is
the first step from which U keeps its sign, for both estimates; from t₀ = 0 neither means anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lawscope as ls
from lawscope.lazy import np
from lawscope.studies.elasticity import _networks as networks
from lawscope.studies.elasticity._networks import CIFAR_THREE, CIFAR_TWO, SHAPES, of_world, thinned
from lawscope.studies.elasticity.estimation import MODELS, Kind, fit
from lawscope.studies.figures import COLOURS, grid, label_outside
from lawscope.studies.panels import collect, medians
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

WORLDS = (SHAPES, CIFAR_TWO, CIFAR_THREE)
MOST_STEPS = 0.9
LATER = 0.05  # of all steps: another start, after the plateau


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
    first = fit([record], "L")
    if first is None or first.voids:
        return {"t0": None, "later": None, "unfiltered": None, **dict.fromkeys(MODELS)}
    found: Numbers = {"t0": first.t0, "steps": thinned(first.steps)}
    curves = {}
    for model in MODELS:
        genuine, means = simulate(record, model, first.t0)
        found["genuine"] = [thinned(each) for each in own_logits(genuine)]
        if means is None:
            found[model] = None
            continue
        curves[model] = difference(genuine, means)
        found[model] = {
            "RD": thinned(curves[model]), "late": late(curves[model]),
            "middle": float(curves[model][len(means) // 2]), "last": float(curves[model][-1]),
            "own": [thinned(each) for each in own_logits(means)],
        }  # fmt: skip
    both = len(curves) == len(MODELS)
    found["better"] = float(np.mean(curves["L"] <= curves["I"])) if both else None
    variants = {
        "later": simulate(record, "L", LATER * record["step"][-1]),
        "unfiltered": simulate(record, "L", first.t0, filtered=False),
    }
    for name, (genuine, means) in variants.items():
        found[name] = None if means is None else late(difference(genuine, means))
    return found


def simulate(record: Numbers, model: Kind, t0: float, *, filtered: bool = True) -> tuple[Any, Any]:
    """Return genuine and imitated class means from t₀ on, centred; None for one that is void.

    What is added to all logits of a sample means nothing to softmax, nor to the L-model.
    """
    means = record["means"][record["step"] >= t0]
    genuine = means - means.mean(axis=-1, keepdims=True)
    own = fit([record], model, t0)
    try:
        imitated = None if own is None else own.simulate("L", filtered).means[0]
    except ls.LawscopeError:  # outgrows floating-point numbers, or is void
        imitated = None
    return genuine, None if imitated is None else imitated - imitated.mean(-1, keepdims=True)


def difference(genuine: Any, imitated: Any) -> Any:
    return ls.relative_difference(genuine, imitated).mean(axis=-1)


def late(curve: Any) -> float:
    """Return the mean over the last quarter."""
    return float(curve[-len(curve) // 4 :].mean())


def own_logits(means: Any) -> Any:
    """Return X^k_k of centred logits, (K, T)."""
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
    title = "Training (solid) and its imitation by the L-model (dashed)"
    drawing, axes = grid(3, len(worlds), title, (4.0, 2.5))
    for column, world in enumerate(worlds):
        rows = [row for row in numbers["networks"] if row["world"] == world and row["L"]]
        for row, model in ((row, model) for row in rows[:1] for model in MODELS):
            axis = axes[MODELS.index(model)][column]
            for k, genuine in enumerate(row["genuine"]):
                color = COLOURS[k]
                axis.plot(row["steps"], genuine, color=color, lw=1.2, label=f"class {k}")
                if row[model] is not None:
                    axis.plot(row["steps"], row[model]["own"][k], "--", color=color, lw=1.2)
            networks.steps_axis(axis, f"{world}: α̂, β̂ estimated by the {model}-model", legend=7)
        axis = axes[2][column]
        for row in rows:
            for model, color in zip(MODELS, COLOURS, strict=False):
                if row[model] is not None:
                    label = f"{model}-estimates" if row is rows[0] else None
                    axis.plot(row["steps"], row[model]["RD"], color=color, lw=0.8, label=label)
        title = f"{world}: RD of the imitations, all seeds"
        networks.steps_axis(axis, title, legend=7 if rows else 0, ylim=(0, 2.8))
    label_outside(axes, "step", "own logit of the class mean")
    axes[2][0].set_ylabel("relative difference RD", fontsize=8.5)
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
            f"{world}: at 90 % or more of all steps RD of the L-estimates is below that of the "
            "I-estimates",
            "throughout training",
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


def by_world(value: Callable[[Numbers], float | None]) -> Callable[[Numbers], Any]:
    return collect("networks", "{world}", value)


STUDY = Study(
    title="The LE-ODE with estimated strengths, against the training it imitates",
    source="Zhang et al. 2021, figures 4 and 5",
    paper="the L-model imitates true dynamics reasonably well, better than the I-model, and late",
    minutes={"smoke": 0.1, "cpu": 4, "paper": 60},
    settings=networks.family_presets(),
    plan=networks.plan,
    measure=measure,
    claims=tuple(claim for world in WORLDS for claim in claims_of(world)),
    questions=(
        Question(
            "How large is RD of the L-estimates in the last quarter?",
            by_world(of_l(lambda found: found["late"])),
            medians,
        ),
        Question(
            "How large is this RD when both estimate and imitation begin after the plateau, at 5 % "
            "of the steps?",
            by_world(lambda row: row["later"]),
            medians,
        ),
        Question(
            "How large is this RD without the filter, which smooths α̂ and β̂ over 3000 steps?",
            by_world(lambda row: row["unfiltered"]),
            medians,
        ),
        Question(
            "From which step t₀ on is there an imitation?", by_world(lambda row: row["t0"]), medians
        ),
    ),
    figure=figure,
    departures=networks.DEPARTURES,
)
