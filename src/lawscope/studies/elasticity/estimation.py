"""How strongly classes move themselves and each other along training: α̂, β̂ and their integrals.

``lawscope study run elasticity/estimation``: figure 2 of Zhang et al. 2021. Networks of two
convolutions and three dense layers, one image a step, lr 0.005: shapes (K = 3) and, where a data
directory has it, CIFAR-10 (K = 2 and 3); mean logits of 20 test images a class every 20 steps. I-
and L-model, each network by itself, the L-model from the first step on from which U keeps its sign;
seeds are first weights, order and images drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import lawscope as ls
from lawscope.documents import drop_non_finite
from lawscope.lazy import np
from lawscope.studies.elasticity import _networks as networks
from lawscope.studies.elasticity._networks import CIFAR_THREE, CIFAR_TWO, SHAPES, of_world, thinned
from lawscope.studies.figures import COLOURS, grid, label_outside
from lawscope.studies.panels import Row, collect, group_by, yes_or_no
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

Kind = Literal["I", "L"]
MODELS: tuple[Kind, ...] = ("I", "L")
SEPARATED = 0.99  # accuracy
MOST_STEPS = 0.9  # share of steps at which a strength must be the larger
WINDOW = 151


def measure(lab: Lab) -> Numbers:
    rows, fits = [], []
    for world, settings in networks.worlds_of(lab.settings).items():
        records = [
            networks.trajectory_of(lab, training)
            for training in networks.trainings_of(lab.settings, settings)
        ]
        for record in records:
            lab.tell(f"{world}, seed {record['seed']}")
            rows.append({"world": world, **ending(record), **estimate(record)})
        fits += [{"world": world, **pooled(records, model)} for model in MODELS]
    return {"networks": rows, "fits": fits}


def ending(record: Numbers) -> Numbers:
    """Return how a training ended: loss and accuracy on training data, accuracy on test data."""
    return {k: record[k] for k in ("seed", "train_loss", "train_accuracy", "test_accuracy")}


def trajectory(records: list[Numbers]) -> ls.ElasticTrajectory:
    means = np.stack([record["means"] for record in records])
    # The networks are float32.
    return ls.ElasticTrajectory(records[0]["step"], means, rounding=float(np.finfo(np.float32).eps))


def fit(records: list[Numbers], model: Kind, t0: Any = "auto") -> ls.ElasticFit | None:
    """Return the fit of one network or of several; None where t₀ leaves too few steps."""
    try:
        return ls.fit_elastic(trajectory(records), model, t0, WINDOW)
    except ls.LawscopeError:
        return None


def estimate(record: Numbers) -> Numbers:
    """Return, of each model: t₀, A − B at the end, and how often α̂ > β̂ while classes separate."""
    found: Numbers = {"void_from_0": bool((zero := fit([record], "L", 0)) is None or zero.voids)}
    separated = record["step"][record["accuracy"] >= SEPARATED]
    until = float(separated[0]) if len(separated) else math.inf
    for model in MODELS:
        own = fit([record], model)
        if own is None:
            found[model] = None
            continue
        during = own.steps <= max(until, own.t0)
        larger = float(np.mean((own.alpha > own.beta)[during]))
        found[model] = drop_non_finite(
            {
                "t0": own.t0, "gap": float(own.gap[-1]), "A": float(own.A[-1]),
                "B": float(own.B[-1]), "larger": larger if np.isfinite(own.gap[-1]) else math.nan,
            }
        )  # fmt: skip
    return found


def pooled(records: list[Numbers], model: Kind) -> Numbers:
    """Return the estimates over all trials with their intervals, thinned."""
    found = fit(records, model)
    if found is None:
        return {"model": model, "t0": None}
    curves: dict[str, Any] = {}
    for name in ("A", "B", "alpha", "beta"):
        low, high = found.intervals[name].T
        curves[name] = [thinned(each) for each in (getattr(found, name), low, high)]
    return {"model": model, "t0": found.t0, "steps": thinned(found.steps), **curves}


def of_model(model: str, name: str) -> Callable[[Numbers], Any]:
    return lambda row: None if row[model] is None else row[model][name]


def figure(numbers: Numbers) -> Figure:
    worlds = group_by(numbers["fits"], "world")
    title = "Estimated strengths of local elasticity, mean over networks with 95 % intervals"
    drawing, axes = grid(4, len(worlds), title, (4.0, 2.4))
    for column, (world, own) in enumerate(worlds.items()):
        for index, each in enumerate(own):
            for offset, names in enumerate((("A", "B"), ("alpha", "beta"))):
                axis = axes[2 * index + offset][column]
                if each["t0"] is not None:
                    draw(axis, each, names)
                networks.steps_axis(axis, f"{world}, {each['model']}-model", legend=7)
    label_outside(axes, "step", "")
    return drawing


def draw(axis: Any, each: Row, names: tuple[str, str]) -> None:
    symbols = {"A": "Â", "B": "B̂", "alpha": "α̂", "beta": "β̂"}
    for name, color in zip(names, COLOURS, strict=False):
        middle, low, high = (
            [math.nan if v is None else v for v in values] for values in each[name]
        )
        axis.plot(each["steps"], middle, color=color, lw=1.2, label=symbols[name])
        axis.fill_between(each["steps"], low, high, color=color, alpha=0.2, lw=0)
    axis.axhline(0, color="grey", lw=0.5)


def claims_of(world: str) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            f"{world}: α̂ > β̂ ({model}-model) at 90 % or more of the steps from t₀ until the "
            "accuracy is 0.99, or to the end",
            "α̂ lies above β̂",
            of_world("networks", world, of_model(model, "larger")),
            lambda share: share >= MOST_STEPS,
        )
        for model in MODELS
    )


STUDY = Study(
    title="α̂ and β̂ of trained networks: a class moves itself more than the others",
    source="Zhang et al. 2021, figure 2",
    paper="Â grows, B̂ falls or stays; α̂ > β̂ while classes separate",
    minutes={"smoke": 0.1, "cpu": 4, "paper": 60},
    settings=networks.family_presets(),
    plan=networks.plan,
    measure=measure,
    claims=(
        Claim(
            "networks on shapes reach the talk's condition: training loss under 0.01, test "
            "accuracy 0.99 or more",
            "training and validation losses converge to zero",
            of_world(
                "networks", SHAPES,
                lambda row: row["test_accuracy"] if row["train_loss"] < 0.01 else None,
            ),
            lambda accuracy: accuracy >= SEPARATED,
        ),
        *claims_of(SHAPES),
        *claims_of(CIFAR_TWO),
        *claims_of(CIFAR_THREE),
    ),
    questions=(
        Question(
            "Do networks on CIFAR-10 reach the talk's validation accuracy of more than 90 %?",
            collect("networks", "{world}", "test_accuracy", lambda row: row["world"] != SHAPES),
            yes_or_no(lambda accuracy: accuracy > 0.9),
        ),
        Question(
            "Is Â − B̂ of the L-model above 0 at the end, in every network?",
            collect("networks", "{world}", of_model("L", "gap")),
            yes_or_no(lambda gap: gap > 0),
        ),
        Question(
            "Is the estimate from t₀ = 0 void, because U changes its sign or starts at rounding?",
            lambda numbers: {"void": [float(row["void_from_0"]) for row in numbers["networks"]]},
            yes_or_no(lambda void: void == 1, "networks"),
        ),
    ),
    figure=figure,
    departures=networks.DEPARTURES,
)  # fmt: skip
