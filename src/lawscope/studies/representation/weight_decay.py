"""Weight decay and the noise of small batches: what they do to representations, told apart.

``lawscope study run representation/weight-decay``: the title of the talk's part, "Noise +
Regularization = Compact Representations" (Ziyin, Chuang et al. 2024). Fully connected networks
without biases (100–64–64–64–64–10) on 5000 images of Fashion-MNIST at 10×10, SGD: ReLU with decay
0, 0.001, 0.01 in batches of 4, 16, 128, tanh in batches of 16; 3 seeds, from 10 on. Compact is a
small number of eigenvectors that hold 99 % of H_b on the test images, the mean over hidden layers;
the alignment is the mean excess of the six. Two comparisons: after equal numbers of steps, and at
the first epoch kept at which the training loss is as low as the worst of the compared networks ever
gets. At equal loss what training has fitted is the same; at equal steps it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lawscope.formatting import fixed, signed
from lawscope.studies.figures import COLOURS, draw_seeds, grid, plain_axis
from lawscope.studies.panels import collect, each_median, group_by, middle, presets
from lawscope.studies.plan import Training
from lawscope.studies.representation import _layers as layers
from lawscope.studies.representation import _networks as networks
from lawscope.studies.representation._layers import RELATIONS
from lawscope.studies.representation._networks import BATCH, HIDDEN, RELU, TANH
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question, Study
from lawscope.training.loop import evaluate

STEPS, LOSS = "equal steps", "equal loss"
COMPARISONS = (STEPS, LOSS)
EMERGES = (
    "the fluctuation–dissipation theorem leads to the emergence of the canonical representation, "
    "where weights, representation and gradients are all aligned"
)
SETTINGS: dict[str, Any] = {
    **networks.PAPER, "decays": networks.DECAYS, "batches": [4, BATCH, 128],
}  # fmt: skip
SMOKE = {**networks.SMOKE, "decays": [0.0, 0.01], "batches": [16, 128]}


def groups(settings: Any) -> dict[str, list[tuple[float, int, list[Training]]]]:
    """Return, by what is compared, networks that differ in one thing: decay, batch, trainings."""
    decays, batches = settings["decays"], settings["batches"]

    def cell(kind: str, decay: float, batch: int) -> tuple[float, int, list[Training]]:
        return decay, batch, networks.mlps(settings, kind, decay, batch)

    return {
        **{f"{RELU}, batch {b}": [cell(RELU, d, b) for d in decays] for b in batches},
        f"{TANH}, batch {BATCH}": [cell(TANH, d, BATCH) for d in decays],
        **{f"{RELU}, decay {d:g}": [cell(RELU, d, b) for b in batches] for d in decays},
    }


def plan(settings: Any) -> list[Training]:
    return [t for cells in groups(settings).values() for *_, each in cells for t in each]


def measure(lab: Lab) -> Numbers:
    losses: dict[str, dict[int, float]] = {}
    seen: dict[tuple[str, int], Numbers] = {}
    rows = []
    for group, cells in groups(lab.settings).items():
        for *_, trainings in cells:
            for training in trainings:
                if training.key not in losses:
                    losses[training.key] = losses_of(lab, training)
        for index in range(lab.settings["seeds"]):
            own = {t[index].key: losses[t[index].key] for *_, t in cells}
            level = max(min(each.values()) for each in own.values())
            for decay, batch, trainings in cells:
                training = trainings[index]
                mine = losses[training.key]
                reached = min(epoch for epoch, loss in mine.items() if loss <= level)
                for comparison, epoch in zip(COMPARISONS, (max(mine), reached), strict=True):
                    if (training.key, epoch) not in seen:
                        lab.tell(f"{group}: {training.describe()}, epoch {epoch}")
                        seen[training.key, epoch] = summary_of(lab, training, epoch)
                    rows.append(
                        {
                            "group": group, "decay": decay, "batch": batch, "seed": training.seed,
                            "comparison": comparison, "epoch": epoch, "loss": mine[epoch],
                            **seen[training.key, epoch],
                        }
                    )  # fmt: skip
    return {"rows": rows}


def losses_of(lab: Lab, training: Training) -> dict[int, float]:
    """Return the training loss after every epoch that is kept."""
    run = lab.run(training)
    data = run.samples
    return {e: evaluate(run.network(e), data.x, data.y).loss for e in sorted(run.weights)}


def summary_of(lab: Lab, training: Training, epoch: int) -> Numbers:
    """Return the means over hidden layers of excess alignments and of the 99 % rank."""
    run = lab.run(training)
    found = layers.measure_layers(lab, training, HIDDEN, epoch=epoch)
    excess = {name: networks.average([row["excess"] for row in found], name) for name in RELATIONS}
    test = evaluate(run.network(epoch), run.samples.x_test, run.samples.y_test)
    return {
        "excess": excess, "mean": sum(excess.values()) / len(excess),
        "rank99": networks.average(found, "rank99"), "test_accuracy": test.accuracy,
    }  # fmt: skip


def compare(name: str, of: str, comparison: str) -> Callable[[Numbers], dict[str, list[float]]]:
    """Return a number at the largest decay or smallest batch less that at the other end.

    ``of`` is what differs in a group, "decay" or "batch".
    """

    def read(numbers: Numbers) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        fixed_ = "batch" if of == "decay" else "decay"
        compared = (row for row in numbers["rows"] if row["comparison"] == comparison)
        for group, own in group_by(compared, "group").items():
            values = sorted({row[of] for row in own})
            if len({row[fixed_] for row in own}) > 1 or len(values) < 2:
                continue
            ends = (values[0], values[-1]) if of == "decay" else (values[-1], values[0])
            by_seed = {(row["seed"], row[of]): row[name] for row in own}
            found[group] = [
                by_seed[seed, ends[1]] - by_seed[seed, ends[0]]
                for seed in sorted({row["seed"] for row in own})
            ]
        if not found:
            raise NotTried("this preset compares no two of these")
        return found

    return read


def of_each(of: str, comparison: str) -> Callable[[Numbers], dict[str, list[float]]]:
    """Return the same of each of the six alignments, over all groups."""

    def read(numbers: Numbers) -> dict[str, list[float]]:
        rows = [{**row, **row["excess"]} for row in numbers["rows"]]
        found = {}
        for relation in RELATIONS:
            groups_ = compare(relation, of, comparison)({"rows": rows})
            found[relation] = [value for values in groups_.values() for value in values]
        return found

    return read


def table(numbers: Numbers) -> list[list[str]]:
    """Return every comparison, median over seeds."""
    titles = ["networks", "decay", "batch", "compared at", "loss", "test accuracy", "99 % rank"]
    rows = [[*titles, *RELATIONS]]
    cells = group_by(numbers["rows"], "group", "decay", "batch", "comparison")
    for (group, decay, batch, comparison), own in cells.items():
        rows.append(
            [
                group, f"{decay:g}", str(batch), comparison,
                *(fixed(middle(r[name] for r in own), digits)
                  for name, digits in (("loss", 2), ("test_accuracy", 3), ("rank99", 1))),
                *(fixed(middle(r["excess"][name] for r in own), 2) for name in RELATIONS),
            ]
        )  # fmt: skip
    return rows


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(2, 4, "Decay and noise, at equal steps and at equal loss", (2.9, 2.5))
    for line, comparison in zip(axes, COMPARISONS, strict=True):
        own = [row for row in numbers["rows"] if row["comparison"] == comparison]
        for place, (of, name) in enumerate(
            (of, name) for name in ("rank99", "mean") for of in ("decay", "batch")
        ):
            axis = line[place]
            groups_ = group_by((row for row in own if of not in row["group"]), "group")
            for (group, seen), color in zip(groups_.items(), COLOURS, strict=False):
                values = sorted({row[of] for row in seen})
                cells = [[row for row in seen if row[of] == value] for value in values]
                draw_seeds(axis, range(len(values)), cells, name, color=color, label=group)
                axis.set_xticks(range(len(values)), [f"{value:g}" for value in values])
            title = "99 % rank of H_b" if name == "rank99" else "mean excess of six"
            plain_axis(axis, f"{title}, {comparison}", legend=6 if line is axes[0] else 0)
            axis.set_xlabel(of, fontsize=8)
    return drawing


STUDY = Study(
    title="Weight decay and batch size: compactness and alignment at equal steps and equal loss",
    source="Ziyin, Chuang et al. 2024, title of the talk's part",
    paper="Noise + Regularization = Compact Representations",
    minutes={"smoke": 0.1, "cpu": 9, "paper": 9},
    settings=presets(SETTINGS, smoke=SMOKE),
    plan=plan,
    measure=measure,
    claims=(
        *(
            Claim(
                f"the 99 % rank of H_b is lower with the largest decay than without, at {how}",
                "regularization: compact representations",
                compare("rank99", "decay", how),
                lambda difference: difference < 0,
            )
            for how in COMPARISONS
        ),
        *(
            Claim(
                f"the 99 % rank of H_b is lower in the smallest batches, with the most noise, than "
                f"in the largest, at {how}",
                "noise: compact representations",
                compare("rank99", "batch", how),
                lambda difference: difference < 0,
            )
            for how in COMPARISONS
        ),
        *(
            Claim(
                f"the mean excess of the six alignments is higher with the largest decay than "
                f"without, at {how}",
                EMERGES,
                compare("mean", "decay", how),
                lambda difference: difference > 0,
            )
            for how in COMPARISONS
        ),
        *(
            Claim(
                f"the mean excess of the six alignments is higher in the smallest batches than in "
                f"the largest, at {how}",
                EMERGES,
                compare("mean", "batch", how),
                lambda difference: difference > 0,
            )
            for how in COMPARISONS
        ),
    ),
    questions=(
        Question(
            "By how much does test accuracy change with the largest decay, at equal steps?",
            compare("test_accuracy", "decay", STEPS),
            each_median(lambda change: f"{signed(100 * change, 1)} points"),
        ),
        Question(
            "How far apart are the losses compared at equal loss (largest over smallest)?",
            collect("rows", "{group}", "loss", where=lambda row: row["comparison"] == LOSS),
            lambda found: f"{max(max(v) / min(v) for v in found.values()):.2f}",
        ),
        *(
            Question(
                f"By how much does each alignment change with the largest decay, at {how}?",
                of_each("decay", how),
                each_median(lambda change: signed(change, 2)),
            )
            for how in COMPARISONS
        ),
    ),
    figure=figure,
    table=table,
    departures=networks.DEPARTURES,
)  # fmt: skip
