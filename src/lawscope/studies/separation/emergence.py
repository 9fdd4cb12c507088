"""The law is not there at the start, comes into effect, and does so before neural collapse.

``lawscope study run separation/emergence``: figure 9 of He & Su 2023. 20-layer feed-forward
networks on Fashion-MNIST with Adam, measured after 0, 10, 20, 30, 50, 100, 200, 300 and 600 epochs,
with NC1 = Tr(SSw SSb⁺)/K at the last hidden layer beside it. At ``cpu`` three learning rates, three
seeds. For minority collapse 8-layer networks on 500 images of each of five classes and 5 of the
others are followed too, with the mean cosine between the classifiers of the small classes.
"""

from __future__ import annotations

from typing import Any

from lawscope.lazy import torch
from lawscope.studies.datasets import ImageData
from lawscope.studies.figures import COLOURS, grid, label_outside, law_panel, plain_axis
from lawscope.studies.panels import Settings, choice, collect, measured, medians, training_of
from lawscope.studies.plan import Training
from lawscope.studies.separation._family import FEW_RATES, adam_presets, feedforward, he_su_study
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question

# So many classes are the large ones, as many the small ones.
MAJORITY = 5
SETTINGS = adam_presets(
    {
        "depth": 20, "checkpoints": [0, 10, 20, 30, 50, 100, 200, 300, 600],
        "imbalanced": {"depth": 8, "per_class": [500] * MAJORITY + [5] * MAJORITY},
    },
    cpu={"rates": FEW_RATES},
    smoke={
        "depth": 5, "checkpoints": [0, 1, 2, 4], "epochs": 4,
        "imbalanced": {"depth": 4, "per_class": [40] * MAJORITY + [4] * MAJORITY},
    },
)  # fmt: skip
CLASSES = 10
STRAIGHT, COLLAPSED, MERGED = -0.98, 0.1, 0.9
LAW = ("epoch", "D", "D_interval", "r", "rho", "interval", "verdict")


def candidates(settings: Settings) -> list[Training]:
    return feedforward(settings, depth=settings["depth"], checkpoints=settings["checkpoints"])


def imbalanced(settings: Settings) -> list[Training]:
    """Return networks on classes of unequal sizes."""
    how = settings["imbalanced"]
    data = ImageData(per_class=tuple(how["per_class"]))
    return feedforward(settings, data, settings["checkpoints"], depth=how["depth"])


def along(lab: Lab, trainings: list[Training]) -> list[Numbers]:
    """Choose one network per seed by its end; its ``history`` is the law at every checkpoint."""
    rows = choice(lab, trainings)["chosen"]
    histories = [measure_history(lab, training_of(row, trainings)) for row in rows]
    return [{**row, "history": each} for row, each in zip(rows, histories, strict=True)]


def measure_history(lab: Lab, training: Training) -> list[Numbers]:
    """Measure the law after each epoch kept, except where D has no logarithm."""
    rows = [{"epoch": e, **measured(lab, training, epoch=e)} for e in sorted(training.kept)]
    return [{name: row[name] for name in LAW} for row in rows if row["D"] and all(row["D"])]


def measure(lab: Lab) -> Numbers:
    networks = along(lab, candidates(lab.settings))
    for row in (row for network in networks for row in network["history"]):
        row["nc1"] = row["D"][-1] / CLASSES
    unequal = along(lab, imbalanced(lab.settings))
    for network in unequal:
        run = lab.run(training_of(network, imbalanced(lab.settings)))
        for row in network["history"]:
            row["cosine"] = minority_cosine(run.network(row["epoch"]))
    return {"networks": networks, "imbalanced": unequal}


def minority_cosine(network: Any) -> float:
    """Return the mean cosine between the classifiers of the small classes."""
    weights = network.head.weight.detach().double()[MAJORITY:]
    units = weights / weights.norm(dim=1, keepdim=True)
    pairs = torch.triu_indices(len(units), len(units), 1)
    return float((units @ units.T)[pairs[0], pairs[1]].mean())


def law_epoch(network: Numbers) -> int | None:
    """Return the first checkpoint at which r ≤ −0.98."""
    rows = network["history"]
    return next((h["epoch"] for h in rows if h["r"] is not None and h["r"] <= STRAIGHT), None)


def rho_after_law(network: Numbers) -> float | None:
    """Return how much ρ changes from the epoch of the law to the end."""
    rho = {h["epoch"]: h["rho"] for h in network["history"]}
    begun = law_epoch(network)
    return None if begun is None else float(rho[max(rho)] - rho[begun])


def lead(network: Numbers) -> int | None:
    """Return the epochs from the law to NC1 ≤ 0.1, or to the end where NC1 stays above."""
    law, history = law_epoch(network), network["history"]
    collapsed = (int(h["epoch"]) for h in history if h["nc1"] <= COLLAPSED)
    return None if law is None else next(collapsed, int(history[-1]["epoch"])) - law


def lead_over_merging(numbers: Numbers) -> dict[str, list[int | None]]:
    """Return the epochs from the law to minority collapse, of networks whose minority merges."""
    found = []
    for network in numbers.get("imbalanced", ()):
        merged = [h["epoch"] for h in network["history"] if h["cosine"] >= MERGED]
        law = law_epoch(network)
        if merged:
            found.append(None if law is None else merged[0] - law)
    if not found:
        raise NotTried(f"the minority merges in none of these networks (cosine ≥ {MERGED})")
    return {"epochs between": found}


def last_cosine(numbers: Numbers) -> dict[str, list[float]]:
    if "imbalanced" not in numbers:
        raise NotTried("these numbers have no networks on imbalanced data")
    return {"cosine": [network["history"][-1]["cosine"] for network in numbers["imbalanced"]]}


def figure(numbers: Numbers) -> Figure:
    """Draw a panel per checkpoint for the first seed; below, r, ρ and NC1 of all over epochs."""
    first = numbers["networks"][0]["history"]
    rows = -(-len(first) // 3)
    drawing, axes = grid(rows + 1, 3, "The law of data separation during training")
    places = [axis for row in axes[:rows] for axis in row]
    for axis, at in zip(places, first, strict=False):
        law_panel(axis, at, f"epoch {at['epoch']}")
    for axis in places[len(first) :]:
        axis.set_axis_off()
    label_outside(axes[:rows])
    for axis, name, title in zip(axes[rows], ("r", "rho", "nc1"), ("r", "ρ", "NC1"), strict=True):
        for network, color in zip(numbers["networks"], COLOURS, strict=False):
            history, label = network["history"], f"seed {network['seed']}"
            epochs, values = [h["epoch"] for h in history], [h[name] for h in history]
            axis.plot(epochs, values, "o-", color=color, ms=3, lw=1, label=label)
        axis.set_xlabel("epoch", fontsize=8.5)
        plain_axis(axis, title)
    axes[rows][0].axhline(STRAIGHT, color="grey", lw=0.8, ls=":", label=f"r = {STRAIGHT:g}")
    axes[rows][0].legend(fontsize=7, frameon=False)
    axes[rows][2].set_yscale("log")
    axes[rows][2].axhline(COLLAPSED, color="grey", lw=0.8, ls=":", label=f"NC1 = {COLLAPSED:g}")
    axes[rows][2].legend(fontsize=7, frameon=False)
    return drawing


STUDY = he_su_study(
    title="The law emerges during training, before neural collapse",
    source="He & Su 2023, figure 9",
    paper="absent at the start, emerges gradually and earlier than neural collapse, then ρ falls",
    minutes={"smoke": 0.1, "cpu": 2, "paper": 2},
    settings=SETTINGS,
    departures={"cpu": "3 of 5 rates"},
    plan=lambda settings: [*candidates(settings), *imbalanced(settings)],
    measure=measure,
    claims=(
        Claim(
            "there is no law before training: r > −0.98 at epoch 0",
            "the law does not emerge at the beginning",
            collect("networks", "r at epoch 0", lambda n: n["history"][0]["r"]),
            lambda r: r > STRAIGHT,
        ),
        Claim(
            "the law emerges: r ≤ −0.98 at some later checkpoint",
            "it gradually emerges during training",
            collect("networks", "lowest r", lambda n: min(h["r"] for h in n["history"][1:])),
            lambda r: r <= STRAIGHT,
        ),
        Claim(
            "once the law has emerged, ρ falls until the end",
            "after that the decay ratio is decreased along the training process",
            collect("networks", "change of ρ", rho_after_law),
            lambda change: change < 0,
        ),
        Claim(
            "r ≤ −0.98 is reached at an earlier checkpoint than NC1 ≤ 0.1",
            "the law emerges earlier than neural collapse",
            collect("networks", "epochs between", lead),
            lambda epochs: epochs > 0,
        ),
        Claim(
            "on imbalanced data r ≤ −0.98 is reached at an earlier checkpoint than a cosine of 0.9 "
            "between minority classifiers, of networks whose minority merges",
            "the law emerges earlier than minority collapse",
            lead_over_merging,
            lambda epochs: epochs > 0,
        ),
    ),
    questions=(
        Question(
            "How far do the classifiers of the small classes merge (cosine at the end)?",
            last_cosine,
            medians,
        ),
    ),
    figure=figure,
)
