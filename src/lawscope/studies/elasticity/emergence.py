"""Local elasticity comes with learning: steps on a sample move its own class more than others.

``lawscope study run elasticity/emergence``: the phenomenon that Zhang et al. 2021 build on (He & Su
2020), along the training of the networks of ``elasticity/estimation``. ``lawscope.elasticity`` on 8
test images a class: one small step on each, and how far it moves the logits of the others, in
float64.
"""

from __future__ import annotations

from collections.abc import Callable

import lawscope as ls
from lawscope.documents import drop_non_finite
from lawscope.lazy import nn
from lawscope.studies.elasticity import _networks as networks
from lawscope.studies.elasticity._networks import CIFAR_THREE, SHAPES, of_world
from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import Settings, collect, group_by, quietly, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

WORLDS = (SHAPES, CIFAR_THREE)
LEARNED = 0.75  # accuracy on the images measured on, of which chance is 1/3
STEPS = (0, 300, 1000, 2000, 4000, 10_000)


def looked_at(training: Training) -> list[int]:
    return [step for step in sorted(training.kept) if step in (*STEPS, training.recipe.epochs)]


def plan(settings: Settings) -> list[Training]:
    worlds = networks.with_checkpoints(settings, WORLDS).values()
    return [training for world in worlds for training in networks.trainings_of(settings, world)]


def measure(lab: Lab) -> Numbers:
    rows = []
    for name, world in networks.with_checkpoints(lab.settings, WORLDS).items():
        for training in networks.trainings_of(lab.settings, world):
            lab.tell(f"{name}, seed {training.seed}")
            history = [along(lab, training, step) for step in looked_at(training)]
            rows.append({"world": name, "seed": training.seed, "history": history})
    return {"networks": rows}


def along(lab: Lab, training: Training, step: int) -> Numbers:
    run, probes = lab.run(training), lab.settings["probes"]
    x, y = networks.probe_of(run.samples, 5 * probes)
    with quietly():
        found = ls.elasticity(
            run.network(step), [(x, y)], nn.CrossEntropyLoss(), probes=probes, progress=False
        )
    low, high = found.relative.interval.get("gap", (float("nan"), float("nan")))
    return drop_non_finite(
        {
            "step": step, "same": found.relative.same, "other": found.relative.other,
            "gap": found.relative.gap, "interval": [low, high], "signed": found.signed.gap,
            "kernel": found.kernel.gap, "accuracy": found.accuracy,
        }
    )  # fmt: skip


def rise(name: str) -> Callable[[Numbers], float | None]:
    """Return by how much the gap is larger at the first look after learning than at the start."""

    def read(row: Numbers) -> float | None:
        first, *later = row["history"]
        learned = next((each for each in later if each["accuracy"] >= LEARNED), None)
        if learned is None or learned[name] is None or first[name] is None:
            return None
        return float(learned[name] - first[name])

    return read


def figure(numbers: Numbers) -> Figure:
    worlds = group_by(numbers["networks"], "world")
    title = "Local elasticity along training, a colour for each seed"
    drawing, axes = grid(2, len(worlds), title, (4.2, 2.7))
    for column, (world, rows) in enumerate(worlds.items()):
        for row, color in zip(rows, COLOURS, strict=False):
            steps = [each["step"] for each in row["history"]]
            for name, style in (("same", "o-"), ("other", "o:")):
                values = [each[name] for each in row["history"]]
                label = f"{name} class" if row is rows[0] else None
                axes[0][column].plot(steps, values, style, color=color, ms=3, lw=1, label=label)
            gaps = [each["gap"] for each in row["history"]]
            axes[1][column].plot(steps, gaps, "o-", color=color, ms=3, lw=1)
        plain_axis(axes[0][column], f"{world}: |Δf(x′)|/|Δf(x)|", legend=7, xscale="symlog")
        plain_axis(axes[1][column], f"{world}: same − other", xscale="symlog")
    label_outside(axes, "step", "")
    return drawing


STUDY = Study(
    title="The gap between own class and others rises while a network learns",
    source="Zhang et al. 2021, local elasticity (He & Su 2020)",
    paper="training on a sample has a greater effect on similar samples",
    minutes={"smoke": 0.1, "cpu": 3, "paper": 60},
    settings=networks.family_presets({"probes": 8}, smoke={"probes": 4}),
    plan=plan,
    measure=measure,
    claims=tuple(
        Claim(
            f"{world}: the gap of relative similarities, own class less others, is larger once the "
            "accuracy is 0.75 than before training",
            "the emergence of local elasticity",
            of_world("networks", world, rise("gap")),
            lambda change: change > 0,
        )
        for world in WORLDS
    ),
    questions=(
        Question(
            "In how many networks does the gap of the kernel, which knows no labels, rise too?",
            collect("networks", "{world}", rise("kernel")),
            lambda found: "; ".join(
                f"{world}: {sum((v or 0) > 0 for v in values)} of {len(values)}"
                for world, values in found.items()
            ),
        ),
        Question(
            "Is the gap at the last step still above that before training?",
            lambda numbers: {
                row["world"] + f", seed {row['seed']}": row["history"][-1]["gap"]
                - row["history"][0]["gap"]
                for row in numbers["networks"]
            },
            yes_or_no(lambda change: change > 0),
        ),
    ),
    figure=figure,
    departures=networks.DEPARTURES,
)
