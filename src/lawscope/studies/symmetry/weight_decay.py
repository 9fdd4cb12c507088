"""Weight decay costs units and ranks: dead, identical, and blocks in the correlations.

``lawscope study run symmetry/weight-decay``: the figures on activation patterns of Ziyin 2024. A
feed-forward network without normalisation and a small residual one on Fashion-MNIST at 10×10, SGD
with momentum, weight decay 0 to 0.03, 3 seeds. Correlations are those of the last hidden layer on
the training images, before and after its activation; units are put side by side by hierarchical
clustering, which finds blocks where there are any. A unit is in a block if it correlates by more
than 0.9, up to sign, with another living one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lawscope as ls
from lawscope.documents import drop_non_finite
from lawscope.lazy import np, torch
from lawscope.studies.figures import COLOURS, draw_seeds, plain_axis, stacked
from lawscope.studies.panels import Panels, collect, group_by, presets, quietly, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.study import Axes, Claim, Figure, Lab, NotTried, Numbers, Question, Study
from lawscope.studies.symmetry import _networks as networks
from lawscope.studies.symmetry._networks import MLP, RESIDUAL

PLAIN, TALK = 0.0, 1e-3  # the decays of the talk's figure
BLOCK = 0.9  # correlation
RARE, COMMON = 0.1, 0.3  # shares of units in blocks
PICTURED = 50  # units at most in a picture, evenly spaced
SIDES = ("before", "after")
CORRELATIONS = "RdBu_r"  # colours
SETTINGS: dict[str, Any] = {
    "training": networks.PAPER_TRAINING,
    "kinds": [MLP, RESIDUAL],
    "decays": [PLAIN, 1e-4, TALK, 3e-3, 1e-2, 3e-2],
    "seeds": 3,
}
CPU = {"training": networks.CPU_TRAINING}
SMOKE = {"training": networks.SMOKE_TRAINING, "decays": [PLAIN, TALK, 3e-2], "seeds": 1}
PANELS = Panels(networks.trainings_of, kind="kinds", decay="decays")


def measure(lab: Lab) -> Numbers:
    rows, pictures = [], []
    shown = {PLAIN, TALK, max(lab.settings["decays"])}
    for cell in PANELS.cells(lab.settings):
        kind, decay = cell.values()
        for training in PANELS.candidates(lab.settings, **cell):
            lab.tell(f"{kind}, decay {decay:g}, seed {training.seed}")
            row, found = units_of(lab, training, kind)
            rows.append({**cell, "seed": training.seed, **row})
            if training.seed == 0 and decay in shown:
                pictures.append({**cell, **found})
    return {"networks": rows, "pictures": pictures}


def units_of(lab: Lab, training: Training, kind: str) -> tuple[Numbers, Numbers]:
    """Return what is left of the units of a network, and its block-ordered correlations."""
    run = lab.run(training)
    network, x = run.network(), run.samples.x
    with quietly():
        found = ls.symmetry(network, lab.batches(x, run.samples.y), progress=False)
    outputs: dict[str, Any] = {}
    hooks = [
        network.get_submodule(name).register_forward_hook(
            lambda module, inputs, output, side=side: outputs.update({side: output})
        )
        for side, name in zip(SIDES, networks.LAST[kind], strict=True)
    ]
    with torch.no_grad():
        network(x)
    for hook in hooks:
        hook.remove()
    values = {side: outputs[side].double().numpy() for side in SIDES}
    alive = np.ones(values["after"].shape[1], dtype=bool)
    alive[found.layers[-1].dead] = False
    correlations = {side: correlate(each[:, alive]) for side, each in values.items()}
    drawn = np.arange(0, alive.sum(), max(1, -(-alive.sum() // PICTURED)))
    order = drawn[put_side_by_side(correlations["after"][np.ix_(drawn, drawn)])]
    row = {
        "accuracy": run.accuracy, "test_accuracy": run.test_accuracy,
        "dead": found.dead / found.units, "copies": found.copies / found.units,
        "rank": found.layers[-1].activations.effective,
        "weight_rank": found.layers[-1].weights.effective, "alive": int(alive.sum()),
        **{f"blocks_{side}": share_in_blocks(each) for side, each in correlations.items()},
    }  # fmt: skip
    pictures = {
        side: (100 * each[np.ix_(order, order)]).round().astype(int).tolist()
        for side, each in correlations.items()
    }
    return drop_non_finite(row), pictures


def correlate(values: np.ndarray) -> np.ndarray:
    """Return the correlations of columns; 0 with one that never changes."""
    from lawscope.laws.symmetry.metrics import correlate_units

    return correlate_units(np.cov(values, rowvar=False).reshape(values.shape[1], -1))


def share_in_blocks(correlation: np.ndarray) -> float | None:
    """Return the share of units that correlate by more than 0.9 with another; None of one unit."""
    others = np.abs(correlation) - np.eye(len(correlation))
    return float((others.max(axis=1) > BLOCK).mean()) if len(correlation) > 1 else None


def put_side_by_side(correlation: np.ndarray) -> np.ndarray:
    """Return the order of the leaves of average linkage by 1 − |correlation|."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(correlation) < 3:
        return np.arange(len(correlation))
    distance = 1 - np.abs(correlation)
    np.fill_diagonal(distance, 0)
    return np.asarray(leaves_list(linkage(squareform(distance, checks=False), "average")))


def change(name: str, *, to: float | None = None) -> Callable[[Numbers], dict[str, list[Any]]]:
    """Return by how much a number of a network changes from decay 0 to another, the largest."""

    def read(numbers: Numbers) -> dict[str, list[Any]]:
        rows = numbers["networks"]
        last = max(row["decay"] for row in rows) if to is None else to
        found: dict[str, list[Any]] = {}
        for row in rows:
            if row["decay"] == last:
                first = next(
                    r for r in rows
                    if (r["kind"], r["seed"], r["decay"]) == (row["kind"], row["seed"], PLAIN)
                )  # fmt: skip
                there = row[name] is not None and first[name] is not None
                found.setdefault(row["kind"], []).append(row[name] - first[name] if there else None)
        if not found:
            raise NotTried("this preset lacks one of the decays")
        return found

    return read


def at(decay: float, name: str) -> Callable[[Numbers], dict[str, list[Any]]]:
    return collect("networks", "{kind}", name, where=lambda row: row["decay"] == decay)


def figure(numbers: Numbers) -> Figure:
    kinds = group_by(numbers["networks"], "kind")
    shown = list(dict.fromkeys(p["decay"] for p in numbers["pictures"]))
    parts, heights = [(1, 4), (len(kinds), 2 * len(shown))], (2.4, 2.0 * len(kinds))
    drawing, (above, below) = stacked(parts, "Units against weight decay", heights, 11)
    names = {"dead": "dead units", "copies": "copies", "rank": "rank of activations",
             "weight_rank": "rank of weights"}  # fmt: skip
    decays = list(dict.fromkeys(row["decay"] for row in numbers["networks"]))
    for axis, (name, title) in zip(above[0], names.items(), strict=True):
        for (kind, own), color in zip(kinds.items(), COLOURS, strict=False):
            cells = [[row for row in own if row["decay"] == decay] for decay in decays]
            draw_seeds(axis, range(len(decays)), cells, name, color=color, label=kind)
        axis.set_xticks(range(len(decays)), [f"{decay:g}" for decay in decays], rotation=45)
        plain_axis(axis, title, legend=7 if name == "dead" else 0)
        axis.set_xlabel("weight decay", fontsize=8.5)
    for row, kind in zip(below, kinds, strict=True):
        own = [p for p in numbers["pictures"] if p["kind"] == kind]
        pairs = [(picture, side) for picture in own for side in SIDES]
        for axis, (picture, side) in zip(row, pairs, strict=True):
            heading = f"{kind}, decay {picture['decay']:g},\n{side} activation"
            draw_blocks(axis, picture[side], heading)
    name_correlations(below)
    return drawing


def name_correlations(axes: list[list[Axes]]) -> None:
    """Draw one colour bar beside all pictures, also where all units of some are dead."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    scale = ScalarMappable(Normalize(-1, 1), CORRELATIONS)
    every = [axis for row in axes for axis in row]
    bar = axes[0][0].figure.colorbar(scale, ax=every, shrink=0.6, aspect=30)
    bar.set_label("correlation of two units", fontsize=8.5)
    bar.ax.tick_params(labelsize=8)


def draw_blocks(axis: Axes, correlation: list[list[int]], title: str) -> None:
    if correlation:
        axis.imshow(correlation, cmap=CORRELATIONS, vmin=-100, vmax=100, interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    axis.set_title(title, fontsize=8)


STUDY = Study(
    title="Dead units, ranks and blocks of identical neurons against weight decay",
    source="Ziyin 2024, figure 5 and activation patterns",
    paper="with weight decay neurons are grouped into homogeneous blocks; rank falls",
    minutes={"smoke": 0.1, "cpu": 3, "paper": 120},
    settings=presets(SETTINGS, CPU, SMOKE),
    plan=PANELS.plan,
    measure=measure,
    claims=(
        Claim(
            "the share of dead units is larger at the largest decay than at 0",
            "rescaling symmetry → sparsity",
            change("dead"),
            lambda difference: difference > 0,
        ),
        Claim(
            "the effective rank of the last hidden layer's activations is lower at the largest "
            "decay than at 0",
            "activation pattern of ResNet18: low rank",
            change("rank"),
            lambda difference: difference < 0,
        ),
        Claim(
            "the share of copies (correlation above 0.99) is larger at the largest decay than at 0",
            "permutation symmetry → identical neurons",
            change("copies"),
            lambda difference: difference > 0,
        ),
        Claim(
            "without decay at most 10 % of the last hidden layer's units are in blocks "
            "(correlation above 0.9, before the activation)",
            "such block structures are very rare when there is no weight decay",
            at(PLAIN, "blocks_before"),
            lambda share: share <= RARE,
            figure="figure 5",
        ),
        *(
            Claim(
                f"{side} the activation, with decay 0.001 at least 30 % of the last hidden layer's "
                "units are in blocks (correlation above 0.9)",
                "grouped into homogeneous blocks at weight decay 0.001",
                at(TALK, f"blocks_{side}"),
                lambda share: share >= COMMON,
                figure="figure 5",
            )
            for side in SIDES
        ),
    ),
    questions=(
        Question(
            "Are at least 30 % of units in blocks before the activation at the largest decay?",
            lambda numbers: at(
                max(row["decay"] for row in numbers["networks"]), "blocks_before"
            )(numbers),
            yes_or_no(lambda share: share >= COMMON),
        ),
        Question(
            "Is the rank lower at decay 0.001 than at 0?",
            change("rank", to=TALK),
            yes_or_no(lambda difference: difference < 0),
        ),
        Question(
            "Is test accuracy at the largest decay within 3 points of that at 0?",
            change("test_accuracy"),
            yes_or_no(lambda difference: difference > -0.03),
        ),
    ),
    figure=figure,
    departures=networks.DEPARTURES,
)  # fmt: skip
