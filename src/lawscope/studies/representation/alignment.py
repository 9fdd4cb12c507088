"""Six alignments per layer along training, beside what chance and initialisation give.

``lawscope study run representation/alignment``: figure 1 of Ziyin, Chuang et al. 2024. A small
residual network (two blocks, then fully connected layers 400–64–10; SGD with momentum, decay
0.0005) and fully connected networks without biases (100–64–64–64–64–10, ReLU, SGD, decay 0, 0.001,
0.01) on 5000 images of Fashion-MNIST at 10×10; 3 seeds, from 10 on. Alignments are Pearson's
correlations of the entries on the 1000 test images; beside each stands its mean over random
rotations of H_a and G_b, which leaves W as it is: that alone gives 0.5 and more. The excess is (raw
− null)/(1 − null). cov(g, h) is compared with WWᵀ on the training images, since it is about
stationarity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lawscope.formatting import fixed
from lawscope.studies.figures import COLOURS, grid, plain_axis
from lawscope.studies.panels import collect, group_by, medians, middle, presets
from lawscope.studies.plan import Training
from lawscope.studies.representation import _layers as layers
from lawscope.studies.representation import _networks as networks
from lawscope.studies.representation._layers import RELATIONS
from lawscope.studies.representation._networks import FULLY_CONNECTED, RELU, RESIDUAL
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question, Study

NO_DECAY, STRONG = "ReLU, decay 0", "ReLU, decay 0.01"
DEVIATIONS = 5
KEPT = ("layer", "raw", "excess", "null", "sd", "state", "rank99")
CROSS = ("layer", "cross", "cross_null", "cross_sd", "asymmetry")
ALIGNED = 0.5
SETTINGS: dict[str, Any] = {**networks.PAPER, "decays": networks.DECAYS}


def cells(settings: Any) -> dict[str, tuple[tuple[str, ...], list[Training]]]:
    """Return the layers and the networks of every panel."""
    return {
        RESIDUAL: (FULLY_CONNECTED[RESIDUAL], networks.residual_networks(settings)),
        **{
            f"{RELU}, decay {decay:g}": (
                FULLY_CONNECTED[RELU], networks.mlps(settings, RELU, decay),
            )
            for decay in settings["decays"]
        },
    }  # fmt: skip


def plan(settings: Any) -> list[Training]:
    return [training for _, each in cells(settings).values() for training in each]


def measure(lab: Lab) -> Numbers:
    rows, ends = [], []
    for kind, (names, trainings) in cells(lab.settings).items():
        for training in trainings:
            lab.tell(f"{kind}, seed {training.seed}")
            run = lab.run(training)
            last = training.recipe.epochs
            for epoch in networks.along(last):
                for row in layers.measure_layers(lab, training, names, epoch=epoch):
                    own = {name: row[name] for name in KEPT}
                    rows.append({"kind": kind, "seed": training.seed, "epoch": epoch, **own})
            for epoch in (0, last):
                for row in layers.measure_layers(lab, training, names, epoch=epoch, split="train"):
                    own = {name: row[name] for name in CROSS}
                    rest = {"last": epoch == last, "test_accuracy": run.test_accuracy}
                    ends.append({"kind": kind, "seed": training.seed, **rest, **own})
    return {"rows": rows, "cross": ends}


def change(
    head: bool, where: Callable[[str], bool] = lambda kind: True
) -> Callable[[Numbers], dict[str, Any]]:
    """Return by how much the excess rises in training, by relation, of every network.

    Of the head, or the mean over hidden layers.
    """

    def read(numbers: Numbers) -> dict[str, list[float]]:
        own = [r for r in numbers["rows"] if (r["layer"] == "head") == head and where(r["kind"])]
        found: dict[str, list[float]] = {}
        for relation in RELATIONS:
            for mine in group_by(own, "kind", "seed").values():
                ends = (min(r["epoch"] for r in mine), max(r["epoch"] for r in mine))
                first, last = (
                    networks.average([r["excess"] for r in mine if r["epoch"] == epoch], relation)
                    for epoch in ends
                )
                found.setdefault(relation, []).append(last - first)
        if not found:
            raise NotTried("this preset has no such network")
        return found

    return read


def deviations(numbers: Numbers) -> dict[str, list[float]]:
    """Return how far alignments of the residual net are above their null, in its deviations."""
    found: dict[str, list[float]] = {}
    own = [row for row in numbers["rows"] if row["kind"] == RESIDUAL]
    last = max(row["epoch"] for row in own)
    for row in own:
        for relation in RELATIONS:
            if row["epoch"] == last:
                above = (row["raw"][relation] - row["null"][relation]) / row["sd"][relation]
                found.setdefault(f"{row['layer']}, {relation}", []).append(above)
    return found


def crossed(kinds: tuple[str, ...] = (), value: Any = "cross") -> Callable[[Numbers], Any]:
    return collect(
        "cross", "{kind}", value,
        where=lambda row: row["last"] and (
            not kinds or (row["kind"] in kinds and row["layer"] != "head")
        ),
    )  # fmt: skip


def canonical(numbers: Numbers) -> dict[str, list[int]]:
    """Return whether all six alignments certainly hold at the end, layer by layer."""
    found: dict[str, list[int]] = {}
    for row in numbers["rows"]:
        own = (r["epoch"] for r in numbers["rows"] if r["kind"] == row["kind"])
        if row["epoch"] == max(own):
            held = int(row["state"] == "CRH")
            found.setdefault(f"{row['kind']}, {row['layer']}", []).append(held)
    return found


def name_where(found: dict[str, list[Any]], none: str) -> str:
    """Name the panels in which something is so, in how many seeds; or say that there are none."""
    held = {name: sum(map(bool, values)) for name, values in found.items()}
    return (
        "; ".join(
            f"{name} ({count} of {len(found[name])} seeds)" for name, count in held.items() if count
        )
        or none
    )


def name_rising(found: dict[str, list[float]]) -> str:
    """Name the alignments that rise, or say that all do."""
    rising = {name: [value > 0 for value in values] for name, values in found.items()}
    all_rise = all(all(each) for each in rising.values())
    return f"all {len(rising)}" if all_rise else name_where(rising, "none")


def table(numbers: Numbers) -> list[list[str]]:
    """Return raw alignments with their null, before and after training, median over seeds."""
    rows = [["network", "layer", "", *RELATIONS]]
    for kind, own in group_by(numbers["rows"], "kind").items():
        last = max(row["epoch"] for row in own)
        for layer, mine in group_by(own, "layer").items():
            for epoch, name in ((0, "untrained"), (last, "trained")):
                seen = [r for r in mine if r["epoch"] == epoch]
                cells_ = [
                    f"{fixed(middle(r['raw'][relation] for r in seen), 2)} "
                    f"({fixed(middle(r['null'][relation] for r in seen), 2)})"
                    for relation in RELATIONS
                ]
                rows.append([kind, layer, name, *cells_])
    return rows


def figure(numbers: Numbers) -> Figure:
    kinds = group_by(numbers["rows"], "kind")
    title = "Six alignments along training: excess over random rotations"
    drawing, axes = grid(len(kinds), len(RELATIONS), title, (2.0, 1.9))
    for line, (kind, own) in zip(axes, kinds.items(), strict=True):
        names, lowest = group_by(own, "layer"), -1.05
        for axis, relation in zip(line, RELATIONS, strict=True):
            for (name, seen), color in zip(names.items(), COLOURS, strict=False):
                epochs = sorted({row["epoch"] for row in seen})
                values = [
                    middle(r["excess"][relation] for r in seen if r["epoch"] == epoch)
                    for epoch in epochs
                ]
                lowest = min([lowest, *(1.05 * value for value in values if value is not None)])
                label = name.removesuffix(".linear")
                axis.plot([e + 1 for e in epochs], values, "o-", color=color, ms=2, lw=1,
                          label=label)  # fmt: skip
            axis.axhline(0, color="#767d84", lw=0.6)
            first = axis is line[0]
            plain_axis(axis, relation if line is axes[0] else "", legend=6 if first else 0,
                       xscale="log")  # fmt: skip
        for axis in line:
            axis.set_ylim(lowest, 1.05)
        line[0].set_ylabel(kind, fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("epochs + 1", fontsize=7.5)
    return drawing


STUDY = Study(
    title="Six alignments of H, G and Z per layer along training",
    source="Ziyin, Chuang et al. 2024, figure 1 and section C.7",
    paper="all six relations hold significantly across two fully connected layers",
    minutes={"smoke": 0.1, "cpu": 6, "paper": 6},
    settings=presets(SETTINGS, smoke={**networks.SMOKE, "decays": [0.01]}),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "in both fully connected layers of the residual network every alignment is more than 5 "
            "deviations above its null (number of deviations)",
            "all six relations hold significantly across two fully connected layers",
            deviations,
            lambda above: above > DEVIATIONS,
            figure="figure 1",
        ),
        *(
            Claim(
                f"the excess of each of the six alignments rises in training, {where} (last less "
                "first, of every network)",
                "after training, the representation becomes highly structured",
                change(head),
                lambda difference: difference > 0,
            )
            for where, head in (("mean over hidden layers", False), ("at the head", True))
        ),
        Claim(
            "with decay 0.01 the cosine of −E[g_b h_bᵀ] and WWᵀ is at least 0.5 and 5 deviations "
            "above that of random rotations, in hidden layers on the training images",
            "cov(g, h) is well aligned with WWᵀ",
            crossed(
                (STRONG,),
                lambda row: min(
                    row["cross"] / ALIGNED,
                    (row["cross"] - row["cross_null"]) / DEVIATIONS / row["cross_sd"],
                ),
            ),
            lambda times: times >= 1,
            figure="section C.7",
        ),
    ),
    questions=(
        Question(
            "In which layers do all six alignments certainly hold (excess above 0.1)?",
            canonical,
            lambda found: name_where(found, "in none"),
        ),
        Question(
            "Without decay, how large is the cosine of −E[g_b h_bᵀ] and WWᵀ?",
            crossed((NO_DECAY,)),
            medians,
        ),
        Question(
            "How asymmetric is E[g_b h_bᵀ] at the end, ‖C − Cᵀ‖/‖C + Cᵀ‖ (0 at stationarity)?",
            crossed((), "asymmetry"),
            medians,
        ),
        Question(
            "Which alignments of hidden layers rise without decay?",
            change(head=False, where=lambda kind: kind == NO_DECAY),
            name_rising,
        ),
    ),
    figure=figure,
    table=table,
    departures=networks.DEPARTURES,
)  # fmt: skip
