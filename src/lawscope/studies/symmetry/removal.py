"""Symmetry removed: what comes back, and whether two trainings meet without aligned neurons.

``lawscope study run symmetry/removal``: "removing symmetry also removes the constraint" (Ziyin
2024). The feed-forward networks of ``symmetry/weight-decay`` with decay 0.01 and 0.03, plain and
with ``lawscope.remove_symmetry``: weights decay to a fixed random θ₀ of standard deviation 0.05 or
0.2 instead of to zero. Part of the rank of such weights is that of θ₀ itself, so ranks are those of
W − θ₀ in the last hidden layer, and the network is also run without θ₀. The barrier of two
trainings is how far the loss, halfway between their weights and at eight other places, lies above
the line between their ends; neurons are not aligned. Seeds are of first weights and order; θ₀ is
the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from typing import Any

import lawscope as ls
from lawscope.lazy import Tensor, nn, torch
from lawscope.studies.figures import COLOURS, draw_seeds, plain_axis, wrapped
from lawscope.studies.panels import (
    Settings,
    collect,
    group_by,
    medians,
    presets,
    quietly,
    yes_or_no,
)
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study
from lawscope.studies.symmetry import _networks as networks
from lawscope.studies.symmetry._networks import MLP, SIGMAS
from lawscope.training.loop import evaluate

# By optimizer.
WAYS = {"momentum": "plain", **{name: f"removed, σ = {s:g}" for name, s in SIGMAS.items()}}
MATRIX = "layer3.linear.weight"
PLACES = 9
SETTINGS: dict[str, Any] = {
    "training": networks.PAPER_TRAINING, "decays": [1e-2, 3e-2], "seeds": 3,
}  # fmt: skip
CPU = {"training": networks.CPU_TRAINING}
SMOKE = {"training": networks.SMOKE_TRAINING, "decays": [1e-2], "seeds": 2}
LABEL = "decay {decay:g}"


def plan(settings: Settings) -> list[Training]:
    return [
        training
        for decay in settings["decays"]
        for optimizer in WAYS
        for training in networks.trainings_of(settings, MLP, decay, optimizer)
    ]


def measure(lab: Lab) -> Numbers:
    rows, barriers = [], []
    for decay in lab.settings["decays"]:
        for optimizer, way in WAYS.items():
            trainings = networks.trainings_of(lab.settings, MLP, decay, optimizer)
            lab.tell(f"decay {decay:g}, {way}")
            cell = {"decay": decay, "way": way}
            for training in trainings:
                rows.append({**cell, "seed": training.seed, **network_of(lab, training)})
            runs = [lab.run(training) for training in trainings]
            # Each network with the next, and the last with the first.
            for a, b in pairwise([*runs, runs[0]][: len(runs) + (len(runs) > 2)]):
                curve = loss_between(a.network(), b.network(), a.samples.x, a.samples.y)
                row = {**cell, "seed": a.training.seed, "curve": curve}
                barriers.append({**row, "barrier": height(curve)})
    return {"networks": rows, "barriers": barriers}


def network_of(lab: Lab, training: Training) -> Numbers:
    """Return units, ranks and accuracies of a network, and what it does without θ₀."""
    run = lab.run(training)
    network, samples = run.network(), run.samples
    with quietly():
        found = ls.symmetry(network, lab.batches(samples.x, samples.y), progress=False)
    row: Numbers = {
        "accuracy": run.accuracy, "test_accuracy": run.test_accuracy,
        "dead": found.dead / found.units, "copies": found.copies / found.units,
        "activations": found.layers[-1].activations.effective,
        "W": found.layers[-1].weights.effective, "learned": found.layers[-1].weights.effective,
        "anchor": None, "ablated": None,
    }  # fmt: skip
    if training.recipe.optimizer in SIGMAS:
        # The same θ₀ as in training: it depends on the seed and the shapes alone.
        how = {"sigma": SIGMAS[training.recipe.optimizer], "decay": training.recipe.weight_decay}
        removed = ls.remove_symmetry(network, seed=0, **how)
        ranks: Any = removed.table().set_index("parameter").loc[MATRIX]
        row |= {"learned": float(ranks["θ − θ₀"]), "anchor": float(ranks["θ₀"])}
        with removed.ablated():
            row["ablated"] = evaluate(network, samples.x_test, samples.y_test).accuracy
    return row


def loss_between(a: nn.Module, b: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    """Return the training loss along the line between two networks, ends included."""
    first, last, between = a.state_dict(), b.state_dict(), deepcopy(a)
    losses = []
    for t in torch.linspace(0, 1, PLACES).tolist():
        between.load_state_dict({name: torch.lerp(first[name], last[name], t) for name in first})
        losses.append(evaluate(between, x, y).loss)
    return losses


def height(losses: list[float]) -> float:
    """Return the largest height of a curve above the line between its ends."""
    steps = len(losses) - 1
    line = [losses[0] + (losses[-1] - losses[0]) * i / steps for i in range(steps + 1)]
    return max(loss - level for loss, level in zip(losses, line, strict=True))


def gain(name: str, over: str = "W") -> Callable[[Numbers], dict[str, list[float]]]:
    """Return by how much a number is above that of the plain network of the same seed."""

    def read(numbers: Numbers) -> dict[str, list[float]]:
        rows = numbers["networks"]
        plain = {(r["decay"], r["seed"]): r[over] for r in rows if r["way"] == "plain"}
        return collect(
            "networks", "decay {decay:g}, {way}",
            lambda row: row[name] - plain[row["decay"], row["seed"]],
            where=lambda row: row["way"] != "plain",
        )(numbers)  # fmt: skip

    return read


def relative_barrier(numbers: Numbers) -> dict[str, list[float]]:
    """Return barriers with removal over the plain one of the same pair."""
    rows = numbers["barriers"]
    plain = {(r["decay"], r["seed"]): r["barrier"] for r in rows if r["way"] == "plain"}
    return collect(
        "barriers", "decay {decay:g}, {way}",
        lambda row: row["barrier"] / max(plain[row["decay"], row["seed"]], 1e-12),
        where=lambda row: row["way"] != "plain",
    )(numbers)  # fmt: skip


def figure(numbers: Numbers) -> Figure:
    drawing, _, places = wrapped(4, "Symmetry removed", (3.8, 2.8), columns=2)
    ways = list(WAYS.values())
    decays = group_by(numbers["networks"], "decay")
    panels = {
        "dead": "dead units", "learned": "rank of W − θ₀ (dotted: of W)", "test_accuracy":
        "test accuracy (dotted: without θ₀)",
    }  # fmt: skip
    beside = {"learned": "W", "test_accuracy": "ablated"}
    for axis, (name, title) in zip(places, panels.items(), strict=False):
        for (decay, own), color in zip(decays.items(), COLOURS, strict=False):
            cells = [[row for row in own if row["way"] == way] for way in ways]
            draw_seeds(axis, range(3), cells, name, color=color, label=f"decay {decay:g}")
            if name in beside:
                draw_seeds(axis, range(3), cells, beside[name], color=color, label="", style="x")
        axis.set_xticks(range(3), [way.replace(", ", "\n") for way in ways], fontsize=7)
        plain_axis(axis, title.replace("dotted", "crosses"), legend=7 if name == "dead" else 0)
    between = [i / (PLACES - 1) for i in range(PLACES)]
    for way, color in zip(ways, COLOURS, strict=False):
        for decay, style in zip(decays, ("-", ":"), strict=False):
            for row in numbers["barriers"]:
                if (row["way"], row["decay"], row["seed"]) == (way, decay, 0):
                    words = f"{way}, decay {decay:g}"
                    places[3].plot(between, row["curve"], style, color=color, lw=1.2, label=words)
    plain_axis(places[3], "loss between two trainings")
    places[3].set_ylim(top=1.7 * places[3].get_ylim()[1])
    places[3].legend(fontsize=6, frameon=False, loc="upper center")
    return drawing


STUDY = Study(
    title="Symmetry removed: ranks, units and the barrier between two trainings",
    source="Ziyin 2024, removing symmetry",
    paper="removing symmetry also removes the constraint",
    minutes={"smoke": 0.1, "cpu": 1, "paper": 60},
    settings=presets(SETTINGS, CPU, SMOKE),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "with symmetry removed, the effective rank of the last hidden layer's weights W is "
            "larger than with plain decay",
            "removing symmetry also removes the constraint",
            gain("W"),
            lambda difference: difference > 0,
        ),
        Claim(
            "with symmetry removed, the effective rank of what was learned, W − θ₀, is larger than "
            "that of W with plain decay",
            "removing symmetry also removes the constraint",
            gain("learned"),
            lambda difference: difference > 0,
        ),
        Claim(
            "with symmetry removed, the effective rank of the last hidden layer's activations is "
            "larger than with plain decay",
            "removing symmetry also removes the constraint",
            gain("activations", over="activations"),
            lambda difference: difference > 0,
        ),
    ),
    questions=(
        Question(
            "With symmetry removed, are fewer units dead or copies than with plain decay?",
            lambda numbers: {
                label: [a + b for a, b in zip(dead, copies, strict=True)]
                for (label, dead), copies in zip(
                    gain("dead", over="dead")(numbers).items(),
                    gain("copies", over="copies")(numbers).values(),
                    strict=True,
                )
            },
            yes_or_no(lambda difference: difference < 0),
        ),
        Question(
            "With symmetry removed, is test accuracy at least that of plain decay?",
            gain("test_accuracy", over="test_accuracy"),
            yes_or_no(lambda difference: difference >= 0),
        ),
        Question(
            "What test accuracy is left without θ₀?",
            collect("networks", "decay {decay:g}, {way}", "ablated",
                    where=lambda row: row["ablated"] is not None),
            medians,
        ),
        Question(
            "Without aligning neurons, is the barrier between two trainings less than half of that "
            "of plain decay (ratio)?",
            relative_barrier,
            yes_or_no(lambda ratio: ratio < 0.5),
        ),
        Question(
            "How high is the barrier of plain decay?",
            collect("barriers", LABEL, "barrier", where=lambda row: row["way"] == "plain"),
            medians,
        ),
    ),
    figure=figure,
    departures=networks.DEPARTURES,
)  # fmt: skip
