"""The loss across mirrors of trained networks: even, and curved up where units merged or died.

``lawscope study run symmetry/mirror``: ℓ(s) = c₀s² + c₁s⁴ of Ziyin 2024. ``lawscope.mirror`` in
float64 on the first hidden layer of tanh networks and of the feed-forward ones of
``symmetry/weight-decay``, decay included in the loss; weight decay 0, 0.001, 0.01, 0.03, 3
seeds. Pairs of units are exchanged: the nearest by their weights in and out, and some that are as
far as the median; single units are flipped: the smallest and the largest. *Merged* are pairs that
differ by less than 1 % of their size, *distinct* ones that differ by more than half of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lawscope as ls
from lawscope.lazy import nn, np
from lawscope.studies.figures import COLOURS, grid, legend_below, plain_axis
from lawscope.studies.panels import Panels, collect, group_by, medians, presets, quietly
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study
from lawscope.studies.symmetry import _networks as networks
from lawscope.studies.symmetry._networks import MLP, TANH

LAYERS = {MLP: ("layer1.linear", "layer2.linear"), TANH: ("0", "2")}
MERGED, DISTINCT = 0.01, 0.5
EVEN = 1e-6
SETTINGS: dict[str, Any] = {
    "training": networks.PAPER_TRAINING, "kinds": [MLP, TANH], "decays": [0.0, 1e-3, 1e-2, 3e-2],
    "pairs": 6, "seeds": 3,
}  # fmt: skip
CPU = {"training": networks.CPU_TRAINING}
SMOKE = {"training": networks.SMOKE_TRAINING, "decays": [0.0, 1e-2], "pairs": 1, "seeds": 1}
PANELS = Panels(networks.trainings_of, kind="kinds", decay="decays")


def measure(lab: Lab) -> Numbers:
    rows = []
    for cell in PANELS.cells(lab.settings):
        kind, decay = cell.values()
        for training in PANELS.candidates(lab.settings, **cell):
            lab.tell(f"{kind}, decay {decay:g}, seed {training.seed}")
            found = mirrors_of(lab, training, kind, decay)
            rows += [{**cell, "seed": training.seed, **row} for row in found]
    return {"mirrors": rows}


def mirrors_of(lab: Lab, training: Training, kind: str, decay: float) -> list[Numbers]:
    """Return the loss across some mirrors of a network."""
    run = lab.run(training)
    network, data = run.network().double(), [(run.samples.x.double(), run.samples.y)]
    layers: list[Any] = [network.get_submodule(name) for name in LAYERS[kind]]
    parts = [layers[0].weight, layers[0].bias[:, None], layers[1].weight.T]
    units = np.hstack([part.detach().numpy() for part in parts])
    sizes = np.linalg.norm(units, axis=1)
    # Units that died are all the same; what is asked of pairs is asked of living ones.
    living = np.flatnonzero(sizes > 1e-3 * sizes.max())
    i, j = np.triu_indices(len(living), 1)
    pairs = np.stack([living[i], living[j]], axis=1)
    apart = np.linalg.norm(units[pairs[:, 0]] - units[pairs[:, 1]], axis=1)
    apart = 2 * apart / sizes[pairs].sum(axis=1)
    order, count = np.argsort(apart), lab.settings["pairs"]
    middle = len(order) // 2
    chosen = [*order[:count], *order[middle : middle + count]]
    by_size = np.argsort(sizes)
    flips = [*by_size[:1], *by_size[-1:]]
    looks: list[tuple[Any, float]] = [(tuple(pairs[k].tolist()), float(apart[k])) for k in chosen]
    looks += [(int(unit), float(sizes[unit] / sizes.max())) for unit in flips]
    rows: list[Numbers] = []
    for those, distance in looks:
        with quietly():
            found = ls.mirror(
                network, data, nn.CrossEntropyLoss(), LAYERS[kind][0], those, decay=decay
            )
        rows.append(
            {
                "what": "exchange" if isinstance(those, tuple) else "flip", "apart": distance,
                "c0": found.c0, "c1": found.c1, "oddness": found.oddness,
                "s": np.round(found.s, 6).tolist() if len(rows) in (0, count) else None,
                "losses": found.losses.tolist() if len(rows) in (0, count) else None,
            }
        )  # fmt: skip
    return rows


def where(what: str, kind: str | None = None, **ends: float) -> Callable[[Numbers], bool]:
    low, high = ends.get("above", -1.0), ends.get("below", float("inf"))
    return lambda row: (
        row["what"] == what and kind in (None, row["kind"]) and low < row["apart"] < high
    )


def positive(found: dict[str, list[float]]) -> str:
    return "; ".join(
        f"{kind}: {sum(value > 0 for value in values)} of {len(values)}"
        for kind, values in found.items()
    )


def figure(numbers: Numbers) -> Figure:
    kinds = list(dict.fromkeys(row["kind"] for row in numbers["mirrors"]))
    drawing, axes = grid(len(kinds), 2, "Loss across mirrors", (4.0, 2.7))
    for kind, (left, right) in zip(kinds, axes, strict=True):
        rows = [r for r in numbers["mirrors"] if r["kind"] == kind and r["what"] == "exchange"]
        decays = group_by(rows, "decay")
        for (decay, own), color in zip(decays.items(), COLOURS, strict=False):
            drawn = [row for row in own if row["losses"] and row["seed"] == 0]
            for row, style in zip(drawn, ("-", ":"), strict=False):
                reach = max(row["s"])
                left.plot(
                    [s / reach for s in row["s"]], [v / reach**2 for v in row["losses"]], style,
                    color=color, lw=1.2, label=f"decay {decay:g}" if style == "-" else None,
                )  # fmt: skip
            right.plot(
                [row["apart"] for row in own], [row["c0"] for row in own], "o", ms=3, color=color,
                label=f"decay {decay:g}",
            )  # fmt: skip
        plain_axis(left, f"{kind}: nearest (–) and middle (··) pair")
        left.set_xlabel("s / place of the network", fontsize=8.5)
        left.set_ylabel("(ℓ(s) − ℓ(0)) / place²", fontsize=8.5)
        right.axhline(0, color="grey", lw=0.6)
        right.set_yscale("symlog", linthresh=1e-4)
        right.margins(y=0.1)
        plain_axis(right, f"{kind}: c₀ of pairs")
        right.set_xlabel("distance of the units", fontsize=8.5)
    legend_below(drawing, ncols=4)
    return drawing


STUDY = Study(
    title="Across a mirror the loss is even, and c₀ tells merged units from distinct ones",
    source="Ziyin 2024, implication for the loss landscape",
    paper="ℓ(s) = c₀s² + c₁s⁴ + O(s⁶); the sign of c₀ determines the local geometry",
    minutes={"smoke": 0.1, "cpu": 1, "paper": 30},
    settings=presets(SETTINGS, CPU, SMOKE),
    plan=PANELS.plan,
    measure=measure,
    claims=(
        Claim(
            "exchange of two units: the loss is even in s (oddness under 1e-6)",
            "1d projections are symmetric around the mirror surface",
            collect("mirrors", "{kind}", "oddness", where=where("exchange", above=1e-4)),
            lambda oddness: oddness < EVEN,
            exact=True,
        ),
        Claim(
            "flip of a tanh unit: the loss is even in s (oddness under 1e-6)",
            "1d projections are symmetric around the mirror surface",
            collect("mirrors", "{kind}", "oddness", where=where("flip", TANH, above=1e-4)),
            lambda oddness: oddness < EVEN,
            exact=True,
        ),
        Claim(
            "merged tanh units (they differ by less than 1 %) have c₀ > 0",
            "the sign of c₀ determines the local geometry",
            collect("mirrors", "{kind}", "c0", where=where("exchange", TANH, below=MERGED)),
            lambda c0: c0 > 0,
        ),
        Claim(
            "distinct units (they differ by more than half of their size) have c₀ < 0",
            "the sign of c₀ determines the local geometry",
            collect("mirrors", "{kind}, decay {decay:g}", "c0",
                    where=where("exchange", above=DISTINCT)),
            lambda c0: c0 < 0,
            each="pairs",
        ),
    ),
    questions=(
        Question(
            "How odd is the loss when a ReLU unit is flipped, which is not a symmetry?",
            collect("mirrors", "{kind}", "oddness", where=where("flip", MLP, above=1e-4)),
            medians,
        ),
        Question(
            "Of pairs of every distance, how many have c₀ > 0?",
            collect("mirrors", "{kind}, decay {decay:g}", "c0", where=where("exchange")),
            positive,
        ),
        Question(
            "Of distinct pairs, how many have c₁ > 0?",
            collect("mirrors", "{kind}", "c1", where=where("exchange", above=DISTINCT)),
            positive,
        ),
    ),
    figure=figure,
    departures={
        "cpu": f"{networks.DEPARTURES['cpu']}; decay 0.03 added after that run, in which no "
        "tanh units had merged",
        "paper": networks.DEPARTURES["paper"],
    },
)  # fmt: skip
