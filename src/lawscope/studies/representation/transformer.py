"""Power laws between the spectra of H and G: heads of a transformer, and fully connected nets.

``lawscope study run representation/transformer``: figure 3 of Ziyin, Chuang et al. 2024, whose
transformer of six layers has λ_h ∝ λ_g^α with α = 3 in the first layer, 2 in the second and 1 in
all others. Here a GPT of 6 blocks, d = 96, 3 heads of 32, rotary positions, on the King James Bible
in 512 byte-pair tokens: AdamW, lr 0.003 with warm-up and a cosine to a tenth, decay 0.1, 5000 steps
of 16 windows of 64 tokens (9 minutes on one core), 3 seeds, from 10 on. H_b and G_b of every head
of q, k and v, of the projection after attention and of both feed-forward layers, on 12 600 held-out
tokens. The talk does not say which part of a head it shows. α is nearest to one of its three lines
when it is within 0.5 of it. Three ways to pair eigenvalues: sorted, as the figure seems to do,
which makes nearly a line of any two smooth spectra, of untrained networks too; H read in the
eigenvectors of G; G in those of H. Recipe and length were set before the first of these networks
was measured; the claims' bars, when one of the three had been looked at. Fully connected networks:
100–64–64–64–64–10 on Fashion-MNIST at 10×10, ReLU, decay 0, 0.001, 0.01.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import lawscope as ls
from lawscope.formatting import fixed, signed
from lawscope.lazy import Tensor, nn
from lawscope.studies.datasets import TextData
from lawscope.studies.figures import COLOURS, grid, label_outside, plain_axis
from lawscope.studies.panels import (
    collect,
    each_median,
    medians,
    middle,
    presets,
    quietly,
    rank_correlation,
    yes_or_no,
)
from lawscope.studies.plan import LanguageModelling, Network, Training
from lawscope.studies.representation import _layers as layers
from lawscope.studies.representation import _networks as networks
from lawscope.studies.representation._layers import NO_PHASE, RELATIONS, name_phase
from lawscope.studies.representation._networks import HIDDEN, RELU
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study
from lawscope.training.recipe import Recipe

HEADS = ("q", "k", "v")
WORDS = dict(zip(HEADS, ("queries", "keys", "values"), strict=True))
PARTS = {"project": "attention out", "feed.0": "feed-forward in", "feed.2": "feed-forward out"}
MODULES = (*HEADS, *PARTS.values())
# Layer → exponent of the talk; all further ones have 1.
TALK = {1: 3, 2: 2}
NEAREST, STRAIGHT, MATCHED = 0.5, 0.9, 0.8
WAYS = ("sorted", "in_g", "in_h")
GPT: dict[str, Any] = {
    "vocabulary": 512, "window": 64, "width": 96, "heads": 3, "depth": 6, "batch": 16, "lr": 3e-3,
    "gpt_steps": 5000, "checkpoints": [0, 100, 300, 1000, 3000], "looked_at": [0, 3000, 5000],
    "windows": 200,
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    **networks.PAPER, **GPT, "decays": networks.DECAYS,
    "width": 256, "heads": 8, "vocabulary": 1024, "window": 256, "batch": 32, "lr": 1e-3,
    "gpt_steps": 20_000, "checkpoints": [0, 10_000], "looked_at": [0, 10_000, 20_000],
}  # fmt: skip
SMOKE = {
    **networks.SMOKE, **GPT, "vocabulary": 260, "window": 16, "width": 16, "heads": 2, "depth": 2,
    "gpt_steps": 2, "checkpoints": [0, 1], "looked_at": [0, 1, 2], "windows": 10, "decays": [0.01],
}  # fmt: skip


SMALLER = (
    "a small GPT on the King James Bible; the talk does not say how large its transformer is, nor "
    "which part of a head is shown"
)


def transformers(settings: Any) -> list[Training]:
    names = ("vocabulary", "width", "heads", "depth")
    return [
        Training(
            Network.of(
                "language", context=settings["window"], rotary=True,
                **{name: settings[name] for name in names},
            ),
            Recipe("adamw", settings["lr"], settings["gpt_steps"], settings["batch"], 0.1, seed),
            TextData(window=settings["window"], vocabulary=settings["vocabulary"]),
            seed,
            tuple(settings["checkpoints"]),
            task=LanguageModelling(),
        )
        for seed in networks.seeds_of(settings)
    ]  # fmt: skip


def connected(settings: Any) -> dict[str, list[Training]]:
    return {
        f"{RELU}, decay {decay:g}": networks.mlps(settings, RELU, decay)
        for decay in settings["decays"]
    }


def plan(settings: Any) -> list[Training]:
    return [*transformers(settings), *(t for each in connected(settings).values() for t in each)]


def look(lab: Lab, training: Training, step: int) -> list[Numbers]:
    """Return the spectra of every layer, and every head, of a transformer."""

    def next_token_loss(output: Tensor, following: Tensor | None) -> Tensor:
        assert following is not None
        return nn.functional.cross_entropy(output.flatten(0, 1), following.flatten())

    run = lab.run(training)
    windows = run.samples.x_test[: lab.settings["windows"]]
    batches = [(part[:, :-1], part[:, 1:]) for part in windows.split(50)]
    with quietly():
        found = ls.alignment(
            run.network(step), batches, next_token_loss,
            heads=True, positions=windows.shape[1], null=2, folds=3, progress=False,
        )  # fmt: skip
    rows = []
    for layer in found.layers:
        _, block, name = layer.name.split(".", 2)
        part, _, head = name.removeprefix("attend.").rstrip("]").partition("[")
        module = PARTS.get(part, part)
        if module in MODULES and bool(head) == (module in HEADS):
            rows.append(
                {"module": module, "layer": int(block) + 1, "head": int(head) if head else None,
                 **brief_of(layers.numbers_of(layer))}
            )  # fmt: skip
    return rows


def brief_of(row: Numbers) -> Numbers:
    """Return what is kept of a layer; of its alignments the smallest of each side."""
    names = [f"{way}_{what}" for way in WAYS for what in ("exponent", "r2")]
    names += ["p", "q", "r2_p", "r2_q", "alpha", "phase", "nearest"]
    return {
        **{name: row[name] for name in names},
        "backward": min(row["raw"][name] for name in RELATIONS[:3]),
        "forward": min(row["raw"][name] for name in RELATIONS[3:]),
        "forward_excess": min(row["excess"][name] for name in RELATIONS[3:]),
    }


def measure(lab: Lab) -> Numbers:
    rows, dense, losses = [], [], []
    for training in transformers(lab.settings):
        run = lab.run(training)
        losses.append({"seed": training.seed, "loss": run.loss, "accuracy": run.test_accuracy})
        for step in lab.settings["looked_at"]:
            lab.tell(f"transformer, seed {training.seed}, step {step}")
            for row in look(lab, training, step):
                rows.append({"seed": training.seed, "step": step, **row})
    for kind, trainings in connected(lab.settings).items():
        for training in trainings:
            lab.tell(f"{kind}, seed {training.seed}")
            for epoch in (0, training.recipe.epochs):
                for row in layers.measure_layers(lab, training, HIDDEN, epoch=epoch):
                    dense.append(
                        {"kind": kind, "seed": training.seed, "trained": epoch > 0,
                         "layer": int(row["layer"][5]), **brief_of(row)}
                    )  # fmt: skip
    return {"rows": rows, "dense": dense, "losses": losses}


def at(
    when: int, value: Any, which: Callable[[Any], bool] = lambda row: row["module"] in HEADS,
    label: str = "{module}, layer {layer}",
) -> Callable[[Numbers], dict[str, list[Any]]]:  # fmt: skip
    """Return a number of the transformers, by module and layer; of heads, all of all seeds.

    ``when`` counts the steps looked at: 0 is untrained, −1 the end.
    """

    def read(numbers: Numbers) -> dict[str, list[Any]]:
        step = sorted({row["step"] for row in numbers["rows"]})[when]
        return collect(
            "rows", label, value,
            where=lambda row: row["step"] == step and which(row),
        )(numbers)  # fmt: skip

    return read


def in_layer(*numbers: int) -> Callable[[Any], bool]:
    return lambda row: row["module"] in HEADS and row["layer"] in numbers


def is_near(exponent: int) -> Callable[[float], bool]:
    return lambda alpha: abs(alpha - exponent) <= NEAREST


def moved(numbers: Numbers) -> dict[str, list[float]]:
    """Return how far the sorted exponents still move, from the last but one look to the last."""
    before, after = (at(when, "sorted_exponent", lambda row: True)(numbers) for when in (-2, -1))
    return {
        label: [b - a for a, b in zip(before[label], values, strict=True)]
        for label, values in after.items()
    }


def trend(numbers: Numbers) -> dict[str, list[float]]:
    """Return the rank correlation of the sorted exponent with the layer, by module and seed."""
    step = max(row["step"] for row in numbers["rows"])
    found: dict[str, list[float]] = {}
    for module in MODULES:
        for seed in sorted({row["seed"] for row in numbers["rows"]}):
            own = [
                row for row in numbers["rows"]
                if (row["module"], row["seed"], row["step"]) == (module, seed, step)
            ]  # fmt: skip
            numbers_ = sorted({row["layer"] for row in own})
            values = [
                middle(r["sorted_exponent"] for r in own if r["layer"] == n) for n in numbers_
            ]
            found.setdefault(module, []).append(rank_correlation(numbers_, values))
    return found


def of_dense(value: Any, trained: bool = True) -> Callable[[Numbers], dict[str, list[Any]]]:
    return collect("dense", "{kind}", value, where=lambda row: row["trained"] == trained)


def tally(name: Callable[[Any], str]) -> Callable[[Numbers], dict[str, dict[str, int]]]:
    """Return how often each name occurs at the end, by module, the most frequent first."""

    def read(numbers: Numbers) -> dict[str, dict[str, int]]:
        found = at(-1, name, lambda row: True)(numbers)
        counts: dict[str, Counter[str]] = {}
        for label, names in found.items():
            counts.setdefault(label.rpartition(", layer ")[0], Counter()).update(names)
        return {module: dict(each.most_common()) for module, each in counts.items()}

    return read


def write_tally(found: dict[str, dict[str, int]]) -> str:
    """Write how often each name occurs in every module, or that no head and no layer has one."""
    total = sum(sum(names.values()) for names in found.values())
    if all(set(names) == {NO_PHASE} for names in found.values()):
        return f"none of {total}"

    def share(name: str, names: dict[str, int]) -> str:
        count, of = names[name], sum(names.values())
        return f"{name} in {f'all {of}' if count == of else f'{count} of {of}'}"

    return "; ".join(
        f"{module}: {', '.join(share(name, names) for name in names)}"
        for module, names in found.items()
    )


def write_ranges(measured: dict[str, list[Any]]) -> str:
    """Write between which ends the medians of layers lie: in heads together, and elsewhere.

    Where there are only heads: in each kind of them.
    """
    found: dict[str, list[float]] = {}
    for label, values in measured.items():
        found.setdefault(label.rpartition(", layer ")[0], []).append(middle(values))
    heads = [value for name in HEADS for value in found.get(name, ())]
    others = [value for name in found if name not in HEADS for value in found[name]]
    groups = {f"in {WORDS[name]}": found[name] for name in HEADS if name in found}
    if others:
        groups = {"in queries, keys and values": heads, "elsewhere": others}
    return "; ".join(
        f"{' to '.join(dict.fromkeys(fixed(end, 1) for end in (min(ends), max(ends))))} {where}"
        for where, ends in groups.items()
    )


def table(numbers: Numbers) -> list[list[str]]:
    """Return exponents with R² of every module, median over heads and seeds."""
    rows = [["network", "layer", "sorted α (R²)", "untrained", "H in G's basis", "G in H's basis",
             "p (R²)", "q (R²)", "(p+1)/q"]]  # fmt: skip
    steps = sorted({row["step"] for row in numbers["rows"]})
    cells: list[tuple[str, int, list[Any], list[Any]]] = []
    for module in MODULES:
        for layer in sorted({r["layer"] for r in numbers["rows"]}):
            own = [r for r in numbers["rows"] if (r["module"], r["layer"]) == (module, layer)]
            first, last = ([r for r in own if r["step"] == step] for step in (steps[0], steps[-1]))
            cells.append((module, layer, first, last))
    for kind in dict.fromkeys(row["kind"] for row in numbers["dense"]):
        for layer in sorted({row["layer"] for row in numbers["dense"]}):
            own = [r for r in numbers["dense"] if (r["kind"], r["layer"]) == (kind, layer)]
            first, last = ([r for r in own if r["trained"] == t] for t in (False, True))
            cells.append((kind, layer, first, last))

    def write(seen: list[Any], name: str, r2: str) -> str:
        return (
            f"{fixed(middle(r[name] for r in seen), 2)} ({fixed(middle(r[r2] for r in seen), 2)})"
        )

    for name, layer, first, last in cells:
        ways = [write(last, f"{way}_exponent", f"{way}_r2") for way in WAYS]
        ways.insert(1, write(first, "sorted_exponent", "sorted_r2"))
        rows.append([name, str(layer), *ways, write(last, "p", "r2_p"), write(last, "q", "r2_q"),
                     fixed(middle(r["alpha"] for r in last), 1)])  # fmt: skip
    return rows


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(2, 4, "Exponents of λ_h ∝ λ_g^α, sorted and matched", (2.9, 2.4))
    steps = sorted({row["step"] for row in numbers["rows"]})
    panels = [axis for line in axes for axis in line]
    for axis, module in zip(panels, MODULES, strict=False):
        own = [row for row in numbers["rows"] if row["module"] == module]
        numbers_ = sorted({row["layer"] for row in own})
        for step, name, color, label in (
            (steps[0], "sorted_exponent", "#b4b9be", "sorted, untrained"),
            (steps[-1], "in_g_exponent", COLOURS[1], "H in G's basis"),
            (steps[-1], "sorted_exponent", COLOURS[0], "sorted"),
        ):
            seen = [row for row in own if row["step"] == step and row[name] is not None]
            axis.plot([r["layer"] for r in seen], [r[name] for r in seen], ".", color=color, ms=4,
                      alpha=0.6)  # fmt: skip
            lines = [middle(r[name] for r in seen if r["layer"] == n) for n in numbers_]
            axis.plot(numbers_, lines, "-", color=color, lw=1, label=label)
        talk = [TALK.get(n, 1) for n in numbers_]
        axis.plot(numbers_, talk, "x--", color="#1d2126", ms=4, lw=0.7, label="the talk")
        axis.set_xticks(numbers_)
        plain_axis(axis, module)
    panels[0].legend(loc="upper right", fontsize=6, frameon=False)
    for axis, name, title in zip(
        panels[6:], ("sorted_exponent", "in_g_exponent"), ("sorted", "H in G's basis"), strict=True
    ):
        for kind, color in zip(dict.fromkeys(r["kind"] for r in numbers["dense"]), COLOURS,
                               strict=False):  # fmt: skip
            for trained, style in ((False, ":"), (True, "-")):
                own = [r for r in numbers["dense"] if (r["kind"], r["trained"]) == (kind, trained)]
                numbers_ = sorted({r["layer"] for r in own})
                lines = [middle(r[name] for r in own if r["layer"] == n) for n in numbers_]
                axis.plot(numbers_, lines, style, color=color, lw=1.2,
                          label=kind if trained else None)  # fmt: skip
        axis.plot([], [], ":", color="#767d84", lw=1.2, label="untrained")
        axis.set_xticks(sorted({row["layer"] for row in numbers["dense"]}))
        plain_axis(axis, f"fully connected, {title}")
        # Room above the curves for the legend.
        low, high = axis.get_ylim()
        axis.set_ylim(top=high + 0.5 * (high - low))
        axis.legend(loc="upper left", fontsize=6, frameon=False)
    label_outside(axes, "layer", "exponent α")
    return drawing


STUDY = Study(
    title="Power laws between the spectra of H and G, per head of a transformer",
    source="Ziyin, Chuang et al. 2024, figure 3 and section C.8",
    paper="α = 3 in the first layer, 2 in the second, 1 in all layers after it",
    minutes={"smoke": 0.1, "cpu": 30, "paper": 3000},
    settings=presets(SETTINGS, {**networks.PAPER, **GPT}, SMOKE),
    plan=plan,
    measure=measure,
    claims=(
        *(
            Claim(
                f"{words} of the transformer: in every head α of sorted eigenvalues is nearest to "
                f"{exponent} (of 1, 2, 3; within 0.5)",
                said,
                at(-1, "sorted_exponent", which),
                is_near(exponent),
                figure="figure 3",
            )
            for words, exponent, said, which in (
                ("first layer", 3, "the first layer has an exponent of 3", in_layer(1)),
                ("second layer", 2, "the second has an exponent of 2", in_layer(2)),
                (
                    "further layers", 1, "all the layers after it have an exponent of 1",
                    in_layer(*range(3, 100)),
                ),
            )
        ),
        Claim(
            "sorted eigenvalues of H_b and G_b make a line in every head: R² at least 0.9",
            "the spectra of H, G, Z are power-laws of each other when the CRH is violated",
            at(-1, "sorted_r2", label="{module}"),
            lambda r2: r2 >= STRAIGHT,
            figure="figure 3",
        ),
        Claim(
            "in hidden layers of fully connected networks sorted eigenvalues of H_b and G_b make a "
            "line: R² at least 0.9",
            "see section C.8 for fully connected nets",
            of_dense("sorted_r2"),
            lambda r2: r2 >= STRAIGHT,
            figure="section C.8",
            each="layers",
        ),
    ),
    questions=(
        Question(
            "What is α of sorted eigenvalues, from the first layer to the last?",
            at(-1, "sorted_exponent", lambda row: True), write_ranges,
        ),
        Question(
            "Is R² of sorted eigenvalues at least 0.9 before training?",
            at(0, "sorted_r2", lambda row: True, "{module}"),
            yes_or_no(lambda r2: r2 >= STRAIGHT, "cases"),
        ),
        Question(
            "Is there a matched law (H in the eigenvectors of G: R² at least 0.8)?",
            at(-1, "in_g_r2", lambda row: True, "{module}"),
            yes_or_no(lambda r2: r2 >= MATCHED, "cases"),
        ),
        Question(
            "How large is R² of the matched law before training?",
            at(0, "in_g_r2", lambda row: True, "{module}"), medians,
        ),
        Question(
            "What is α of H in the eigenvectors of G?",
            at(-1, "in_g_exponent", lambda row: True), write_ranges,
        ),
        Question(
            "What is α of G in the eigenvectors of H?", at(-1, "in_h_exponent", lambda row: True),
            write_ranges,
        ),
        Question(
            "How does α of sorted eigenvalues change with depth? (rank correlation with the layer)",
            trend,
            each_median(lambda value: signed(value, 2)),
        ),
        Question(
            "How far do sorted exponents still move in the last two fifths of training?",
            moved,
            lambda found: "; ".join(
                f"{module}: at most " + fixed(
                    max(abs(middle(v)) for k, v in found.items() if k.startswith(f"{module},")), 2
                )
                for module in MODULES
            ),
        ),
        Question(
            "Which heads and layers are in a phase of Table 1?",
            tally(lambda row: name_phase(row["phase"])),
            write_tally,
        ),
        Question(
            "Which phase is nearest to heads and layers without one?",
            tally(lambda row: name_phase(row["nearest"])),
            write_tally,
        ),
        Question(
            "How large are the three forward alignments of heads (the smallest, raw)?",
            at(-1, "forward"),
            write_ranges,
        ),
        Question(
            "How far are the three forward alignments of heads above random rotations (the "
            "smallest excess)?",
            at(-1, "forward_excess"),
            write_ranges,
        ),
        Question(
            "How large are the three backward alignments of heads (the smallest, raw)?",
            at(-1, "backward"),
            write_ranges,
        ),
        Question(
            "In fully connected nets, is R² of sorted eigenvalues at least 0.9 before training?",
            of_dense("sorted_r2", trained=False),
            yes_or_no(lambda r2: r2 >= STRAIGHT, "layers"),
        ),
        Question(
            "In fully connected nets, is there a matched law (H in the eigenvectors of G: R² at "
            "least 0.8)?",
            of_dense("in_g_r2"), yes_or_no(lambda r2: r2 >= MATCHED, "layers"),
        ),
        Question(
            "How good are the language models (test accuracy of the next token)?",
            collect("losses", "GPT", "accuracy"), medians,
        ),
    ),
    figure=figure,
    table=table,
    departures=dict.fromkeys(("cpu", "paper"), SMALLER),
)  # fmt: skip
