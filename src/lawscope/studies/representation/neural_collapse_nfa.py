"""Special cases of the hypothesis, and what alignment is good for.

``lawscope study run representation/neural-collapse-nfa``: what Ziyin, Chuang et al. 2024 say the
hypothesis joins and means. Fully connected networks without biases (100–64–64–64–64–10, ReLU and
tanh, decay 0, 0.001, 0.01, 30 epochs in batches of 16) on 5000 images of Fashion-MNIST at 10×10,
measured on the 1000 test images; and networks with BatchNorm (3 hidden layers of 100, momentum, lr
0.1, decay 0.0005, 2100 epochs on 1000 images, as in ``collapse/terminal``), measured on their
training images, where collapse is. 3 seeds, from 10 on; definitions and bars were found on seeds 0
to 2. A first run had the networks without biases collapse, in 400 epochs; their NC1 was still 0.3.

Neural collapse says H_a ∝ WᵀW at the head. The neural feature ansatz says it of WᵀW and
E[∇_{h_a}ℓ ∇_{h_a}ℓᵀ] (the talk) or, in the literature, the outputs' Jacobian. Correlated updates:
the gain d·Tr(ZH)/(Tr Z·Tr H) of Z = WᵀW, and of the update's, after 1 to 3000 steps of SGD with
decay 0.01. What it is good for: the loss when h_b is moved along eigenvectors of H_b by 0.3 of its
root mean square (the first eighth, the last, random directions beside); the fewest eigenvectors of
H_b that keep the loss within 1 %; and whether Wᵀ takes h_b back to h_a, up to a factor, beside a
rotated W.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lawscope.formatting import fixed, signed
from lawscope.lazy import Tensor, nn, torch
from lawscope.studies.datasets import ImageData, samples_of
from lawscope.studies.figures import COLOURS, grid, plain_axis
from lawscope.studies.panels import (
    collect,
    each_median,
    group_by,
    medians,
    middle,
    presets,
    quietly,
    rank_correlation,
)
from lawscope.studies.plan import Network, Training
from lawscope.studies.representation import _layers as layers
from lawscope.studies.representation import _networks as networks
from lawscope.studies.representation._descent import Batches, begin
from lawscope.studies.representation._layers import RELATIONS
from lawscope.studies.representation._networks import FULLY_CONNECTED, HIDDEN, RATE, RELU, TANH
from lawscope.studies.study import Axes, Claim, Figure, Lab, NotTried, Numbers, Question, Study
from lawscope.training.recipe import Recipe

COLLAPSE = 0.1  # NC1
NONE, MILD, STRONG = 0.0, 1e-3, 1e-2
MOVED, RANDOM = 0.3, 16  # of √Tr H_b; directions
WITHIN = 0.01
TICKS = (0.1, 0.2, 0.5, 1, 2, 5)
EARLY = [0, 1, 5, 20, 50, 100, 300, 1000, 3000]
SETTINGS: dict[str, Any] = {
    **networks.PAPER, "kinds": [RELU, TANH], "decays": networks.DECAYS,
    "collapse_per_class": 100, "collapse_epochs": 2100, "early": EARLY,
}  # fmt: skip
SMOKE = {
    **networks.SMOKE, "kinds": [RELU], "decays": [STRONG], "collapse_per_class": 5,
    "collapse_epochs": 3, "early": [0, 1, 5],
}  # fmt: skip


def cells(settings: Any) -> dict[tuple[str, float], list[Training]]:
    return {
        (kind, decay): networks.mlps(settings, kind, decay)
        for kind in settings["kinds"]
        for decay in settings["decays"]
    }


def collapsing(settings: Any) -> list[Training]:
    """Plan networks that are trained far beyond fitting: those of the study of neural collapse."""
    recipe = Recipe("momentum", 0.1, settings["collapse_epochs"], 128, 5e-4)
    data = ImageData(per_class=settings["collapse_per_class"])
    return [
        Training(Network.of("feedforward", depth=4), replace(recipe, seed=seed), data, seed, (0,))
        for seed in networks.seeds_of(settings)
    ]


def plan(settings: Any) -> list[Training]:
    return [t for each in cells(settings).values() for t in each] + collapsing(settings)


def look(lab: Lab, training: Training, epoch: int) -> list[Numbers]:
    """Return ansatz and use of every fully connected layer of a network."""
    names = FULLY_CONNECTED[RELU]
    of_loss = layers.measure_layers(lab, training, names, epoch=epoch)
    of_output = layers.measure_layers(lab, training, names, epoch=epoch, gradient="output")
    run = lab.run(training)
    network, data = run.network(epoch), run.samples
    rows = []
    for loss, output in zip(of_loss, of_output, strict=True):
        row = {
            "layer": loss["layer"], "excess": loss["excess"], "rank99": loss["rank99"],
            "nfa_loss": loss["excess"]["backward GWA"], "nfa_loss_raw": loss["raw"]["backward GWA"],
            "nfa_output": output["excess"]["backward GWA"],
            "nfa_output_raw": output["raw"]["backward GWA"],
        }  # fmt: skip
        if loss["layer"] in HIDDEN:
            images = lab.settings["images"]
            row |= use_of(network, loss["layer"], data.x_test[:images], data.y_test[:images])
        rows.append(row)
    return rows


def use_of(network: nn.Module, name: str, x: Tensor, y: Tensor) -> Numbers:
    """Return robustness along and across H_b, compactness and invertibility of a layer."""
    before, after = layers.split_network(network, name)
    W = network.get_parameter(f"{name}.weight").detach().double()
    with torch.no_grad():
        h = before.double()(x.double())
        a = before[:-1](x.double())
        after.double()
        start = float(torch.nn.functional.cross_entropy(after(h), y))
    H = h.T @ h / len(h)
    values, vectors = torch.linalg.eigh(H)
    values, vectors = values.flip(0), vectors.flip(1)
    generator = torch.Generator().manual_seed(0)
    d = len(H)
    random = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=h.dtype))[0]

    @torch.no_grad()
    def loss(output: Tensor) -> float:
        return float(torch.nn.functional.cross_entropy(after(output), y))

    size = MOVED * float(H.trace()) ** 0.5

    def cost(direction: Tensor) -> float:
        """Return what a move to either side costs."""
        return (loss(h + size * direction) + loss(h - size * direction)) / 2 - start

    along = [cost(vectors[:, i]) for i in range(d)]
    across = sum(cost(random[:, i]) for i in range(RANDOM)) / RANDOM
    eighth = max(1, d // 8)
    g = layers.gradients_at(after, h, y)
    _, G_vectors = torch.linalg.eigh(g.T @ g / len(g))
    bases = {"H": vectors, "G": G_vectors.flip(1), "random": random}

    def fewest(basis: Tensor) -> int:
        """Return the fewest directions from which on every cut keeps the loss within 1 %."""
        kept = d
        for k in range(d - 1, 0, -1):
            P = basis[:, :k]
            if loss(h @ P @ P.T) - start > WITHIN * start:
                break
            kept = k
        return kept

    return {
        "important": sum(along[:eighth]) / eighth / across,
        "unimportant": sum(along[-eighth:]) / eighth / across,
        "across": across,
        "spearman": rank_correlation([float(v) for v in values], along),
        **{f"fewest_{name}": fewest(basis) for name, basis in bases.items()},
        **invert(W, a, h),
    }


def invert(W: Tensor, a: Tensor, h: Tensor) -> Numbers:
    """Return how much of h_a Wᵀh_b gives back, up to a factor, beyond a rotated W."""

    def rest(back: Tensor) -> float:
        c = float((a * back).sum() / (back * back).sum())
        return float(((a - c * back) ** 2).sum() / (a**2).sum())

    generator = torch.Generator().manual_seed(1)
    rotated = []
    for _ in range(5):
        Q = torch.linalg.qr(torch.randn(W.shape[1], W.shape[1], generator=generator,
                                        dtype=W.dtype))[0]  # fmt: skip
        V = W @ Q
        rotated.append(rest(a @ V.T @ V))
    by_chance = sum(rotated) / len(rotated)
    return {"invertible": 1 - rest(h @ W) / by_chance}


def follow(lab: Lab) -> list[Numbers]:
    """Return the gain of W and of its change over the first steps of SGD, by layer."""
    from lawscope.theory.representation import align

    settings, seeds = lab.settings, list(networks.seeds_of(lab.settings))
    data = samples_of(ImageData(per_class=settings["per_class"]))
    batches = Batches(data.x, data.y, seeds, networks.BATCH)
    stack, rows = begin(seeds, RELU), []
    first = list(stack.weights)
    test = [data.x_test.double().expand(len(seeds), -1, -1), data.y_test.expand(len(seeds), -1)]
    generator = torch.Generator().manual_seed(2)
    for step in range(settings["early"][-1] + 1):
        if step in settings["early"]:
            # What weight decay has left of the first weights is not an update.
            left = (1 - RATE * STRONG) ** step
            inputs = stack.look(*test).inputs
            for index in (1, 2, 3):
                for at, seed in enumerate(seeds):
                    h, W = inputs[index][at], stack.weights[index][at]
                    H, change = h @ h.T / h.shape[1], W - left * first[index][at]
                    rotations = [
                        torch.linalg.qr(torch.randn(H.shape, generator=generator, dtype=H.dtype))[0]
                        for _ in range(5)
                    ]
                    Z = (W.T @ W).numpy()
                    rows.append(
                        {
                            "step": step, "layer": index + 1, "seed": seed,
                            "gain": gain(W, H),
                            "update": gain(change, H) if step else None,
                            "alignment": align(H.numpy(), Z),
                            "null": sum(align((Q @ H @ Q.T).numpy(), Z) for Q in rotations) / 5,
                        }
                    )  # fmt: skip
        stack.step(stack.look(*batches.draw()), RATE, STRONG)
    return rows


def gain(W: Tensor, H: Tensor) -> float:
    """Return d·Tr(WᵀW·H)/(Tr WᵀW·Tr H): 1 if unrelated, d if all lies in one direction."""
    Z = W.T @ W
    return float(len(H) * (Z * H).sum() / Z.trace() / H.trace())


def measure(lab: Lab) -> Numbers:
    rows = []
    for (kind, decay), trainings in cells(lab.settings).items():
        for training in trainings:
            lab.tell(f"{kind}, decay {decay:g}, seed {training.seed}")
            run = lab.run(training)
            about = {"kind": kind, "decay": decay, "seed": training.seed}
            for epoch in (0, training.recipe.epochs):
                for row in look(lab, training, epoch):
                    ended = {"trained": epoch > 0, "test_accuracy": run.test_accuracy}
                    rows.append({**about, **ended, **row})
    collapsed = []
    for training in collapsing(lab.settings):
        lab.tell(f"neural collapse, seed {training.seed}")
        for epoch in (0, training.recipe.epochs):
            with quietly():
                nc1 = lab.collapse(training, epoch=epoch).nc1.papyan
            for moments in ("raw", "centred"):
                (found,) = layers.measure_layers(
                    lab, training, ("head",), epoch=epoch, split="train", moments=moments
                )
                collapsed.append(
                    {
                        "seed": training.seed, "trained": epoch > 0, "moments": moments,
                        "nc1": nc1,
                        "accuracy": lab.run(training).accuracy, "raw": found["raw"],
                        "null": found["null"], "excess": found["excess"],
                    }
                )  # fmt: skip
    lab.tell("the first steps")
    return {"rows": rows, "collapse": collapsed, "early": follow(lab)}


def of_hidden(
    value: Any, where: Callable[[Any], bool] = lambda row: True, trained: bool = True
) -> Callable[[Numbers], dict[str, list[Any]]]:
    """Return a number of hidden layers, by kind and decay; of all layers and seeds."""
    return collect(
        "rows", "{kind}, decay {decay:g}", value,
        where=lambda row: row["layer"] in HIDDEN and row["trained"] == trained and where(row),
    )  # fmt: skip


def of_collapse(value: Any, moments: str, most: float = math.inf) -> Any:
    """Return a number of the networks trained to collapse, where NC1 is at most so much."""
    return collect(
        "collapse", "head, {moments} moments", value,
        where=lambda row: row["moments"] == moments and row["trained"] and row["nc1"] <= most,
    )  # fmt: skip


def with_decay(decay: float) -> Callable[[Any], bool]:
    return lambda row: row["decay"] == decay


def early(value: str, where: Callable[[Any], bool]) -> Callable[[Numbers], dict[str, list[Any]]]:
    return collect("early", "step {step}", value, where=where)


def predict(use: Callable[[Any], float], within: bool) -> Callable[[Numbers], dict[str, float]]:
    """Return rank correlations of what a layer is good for with its alignments.

    ``within`` takes the mean of each kind and decay from both, so that decay does not drive both.
    """

    def read(numbers: Numbers) -> dict[str, float]:
        own = [r for r in numbers["rows"] if r["trained"] and r["layer"] in HIDDEN]
        found = {}
        for relation in (*RELATIONS, "99 % rank"):
            pairs = [
                (r["rank99"] if relation == "99 % rank" else r["excess"][relation], use(r), r)
                for r in own
            ]
            if within:
                cells_: dict[tuple[str, float], list[Any]] = {}
                for a, b, r in pairs:
                    cells_.setdefault((r["kind"], r["decay"]), []).append((a, b))
                centres = {
                    cell: [sum(values) / len(values) for values in zip(*each, strict=True)]
                    for cell, each in cells_.items()
                }
                pairs = [
                    (a - centres[r["kind"], r["decay"]][0], b - centres[r["kind"], r["decay"]][1],
                     r)
                    for a, b, r in pairs
                ]  # fmt: skip
            found[relation] = rank_correlation([p[0] for p in pairs], [p[1] for p in pairs])
        return found

    return read


def cost_of_decay(numbers: Numbers) -> dict[str, list[float]]:
    """Return the test accuracy without decay less that with decay 0.01, in percentage points."""
    found = {}
    for kind, own in group_by(numbers["rows"], "kind").items():
        if not {NONE, STRONG} <= {row["decay"] for row in own}:
            raise NotTried("this preset lacks one of the decays")
        right = {(row["decay"], row["seed"]): row["test_accuracy"] for row in own}
        seeds = dict.fromkeys(row["seed"] for row in own)
        found[kind] = [100 * (right[NONE, seed] - right[STRONG, seed]) for seed in seeds]
    return found


def write_correlations(found: dict[str, float]) -> str:
    return "; ".join(f"{name}: {signed(value, 2)}" for name, value in found.items())


def table(numbers: Numbers) -> list[list[str]]:
    """Return ansatz and use by network and layer, median over seeds."""
    names = {
        "nfa_loss": "ansatz, loss", "nfa_output": "ansatz, output", "important": "important",
        "unimportant": "unimportant", "fewest_H": "fewest, H", "fewest_G": "fewest, G",
        "fewest_random": "fewest, random", "rank99": "99 % rank", "invertible": "invertible",
    }  # fmt: skip
    rows = [["network", "decay", "layer", "", *names.values()]]
    cells_ = group_by(numbers["rows"], "kind", "decay", "layer", "trained")
    for (kind, decay, layer, trained), own in cells_.items():
        values = [
            fixed(middle(r[name] for r in own), 1 if "fewest" in name or name == "rank99" else 2)
            if name in own[0] else ""
            for name in names
        ]  # fmt: skip
        state = "trained" if trained else "untrained"
        rows.append([kind, f"{decay:g}", layer, state, *values])
    return rows


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(2, 3, "Special cases, and what alignment is good for", (3.4, 2.6))
    updates, robust, compact, ansatz, collapse, back = (a for line in axes for a in line)
    draw_updates(updates, numbers["early"])
    hidden = [r for r in numbers["rows"] if r["trained"] and r["layer"] in HIDDEN]
    kinds = group_by(hidden, "kind", "decay")
    draw_pair(robust, hidden, {"important": "first eighth", "unimportant": "last eighth"})
    draw_pair(ansatz, hidden, {"nfa_loss": "loss", "nfa_output": "outputs"})
    draw_pair(back, hidden, {"invertible": ""})
    for ((kind, decay), own), color in zip(kinds.items(), COLOURS, strict=False):
        ranks, fewest = ([r[name] for r in own] for name in ("rank99", "fewest_H"))
        compact.plot(ranks, fewest, "o", ms=4, color=color, label=f"{kind}, {decay:g}")
    plain_axis(robust, "cost of a move, over random", 7, yscale="log")
    robust.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
    robust.minorticks_off()
    plain_axis(compact, "fewest directions for the loss", 6, xlabel="99 % rank of H_b")
    plain_axis(ansatz, "ansatz: excess of WᵀW with G_a", 7)
    plain_axis(back, "h_a given back by Wᵀ")
    draw_collapse(collapse, numbers["collapse"])
    return drawing


def draw_updates(axis: Axes, rows: list[Any]) -> None:
    """Draw the gain of the weights and of their change along the first steps."""
    steps = sorted({row["step"] for row in rows})
    for name, label, color in (("update", "W − κW₀", COLOURS[1]), ("gain", "W", COLOURS[0])):
        seen = [s for s in steps if s or name == "gain"]
        values = [middle(r[name] for r in rows if r["step"] == s) for s in seen]
        axis.plot([s + 1 for s in seen], values, "o-", color=color, ms=3, lw=1, label=label)
    scales = {"xscale": "log", "yscale": "log", "xlabel": "steps + 1"}
    plain_axis(axis, "gain of h_a along the first steps", 7, **scales)


def draw_pair(axis: Axes, rows: list[Any], names: dict[str, str]) -> None:
    """Draw numbers of every hidden layer side by side, by kind and decay."""
    kinds = list(dict.fromkeys((r["kind"], r["decay"]) for r in rows))
    for order, (name, words) in enumerate(names.items()):
        shift = 0.2 * order - 0.1 * (len(names) - 1)
        places = [kinds.index((r["kind"], r["decay"])) + shift for r in rows]
        axis.plot(places, [r[name] for r in rows], ".", color=COLOURS[order], ms=5, label=words)
    axis.set_xticks(range(len(kinds)), [f"{k}\n{d:g}" for k, d in kinds], fontsize=7)


def draw_collapse(axis: Axes, rows: list[Any]) -> None:
    """Draw the alignment of H_a and WᵀW at the head, before and after collapse."""
    for trained, color, words in ((False, "#b4b9be", "untrained"), (True, COLOURS[0], "trained")):
        own = [r for r in rows if r["trained"] == trained]
        places = [int(r["moments"] == "centred") for r in own]
        values = [r["raw"]["backward RWA"] for r in own]
        axis.plot(places, values, "o", color=color, ms=5, label=words)
    axis.set_xticks([0, 1], ["raw", "centred"])
    plain_axis(axis, "neural collapse: H_a with WᵀW at the head", 7, ylim=(-0.1, 1.05))


STUDY = Study(
    title="Neural collapse, feature ansatz, correlated updates; compactness, robustness, inverse",
    source="Ziyin, Chuang et al. 2024, Table 1 and the meaning of the hypothesis",
    paper="NC, NFA and CU are parts of the CRH; compact and robust representations; invertible",
    minutes={"smoke": 0.1, "cpu": 8, "paper": 8},
    settings=presets(SETTINGS, smoke=SMOKE),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "where NC1 is at most 0.1, H_a of the head, centred, and WᵀW correlate by at least 0.9",
            "when NC happens, E[h_a h_aᵀ] ∝ WᵀW",
            of_collapse(lambda row: row["raw"]["backward RWA"], "centred", COLLAPSE),
            lambda alignment: alignment >= 0.9,
        ),
        Claim(
            "neural feature ansatz of the talk: the excess of WᵀW with E[∇ℓ∇ℓᵀ] is above 0.3 in "
            "hidden layers with decay 0.01",
            "during the training of fully connected networks WᵀW ∝ E[∇_{h_a}ℓ ∇_{h_a}ℓᵀ]",
            of_hidden("nfa_loss", with_decay(STRONG)),
            lambda excess: excess > 0.3,
        ),
        Claim(
            "neural feature ansatz of the literature: the excess of WᵀW with the same moment of "
            "the outputs' gradients is above 0.3 in hidden layers with decay 0.01",
            "during the training of fully connected networks",
            of_hidden("nfa_output", with_decay(STRONG)),
            lambda excess: excess > 0.3,
        ),
        Claim(
            "a few steps after the start h_a correlates with W: the alignment of H_a and WᵀW is "
            "above that of rotations after 5 and 20 steps (difference)",
            "the common observation that h_a is correlated with W a few steps after training",
            collect(
                "early", "step {step}", lambda row: row["alignment"] - row["null"],
                where=lambda row: row["step"] in (5, 20),
            ),
            lambda above: above > 0,
            figure="Table 1, CU",
            each="layers",
        ),
        Claim(
            "neuron variation is aligned with its importance: a move along the first eighth of the "
            "eigenvectors of H_b costs more than 1.5 times what a random one does",
            "neuron variation is aligned with its importance",
            of_hidden("important"),
            lambda ratio: ratio > 1.5,
        ),
        Claim(
            "a move along the last eighth of the eigenvectors of H_b, in which neurons vary least, "
            "costs less than 0.8 times what a random one does",
            "robust to perturbations",
            of_hidden("unimportant"),
            lambda ratio: ratio < 0.8,
        ),
        Claim(
            "compact: the eigenvectors of H_b that keep the loss within 1 % are fewer than half of "
            "what random directions take (ratio)",
            "representation is fully compact",
            of_hidden(lambda row: row["fewest_H"] / row["fewest_random"]),
            lambda ratio: ratio < 0.5,
            each="layers",
        ),
        Claim(
            "invertible: with decay 0.01 cWᵀh_b gives back h_a with less than half of the error of "
            "a rotated W (1 − ratio)",
            "the information processing becomes invertible",
            of_hidden("invertible", with_decay(STRONG)),
            lambda back: back > 0.5,
        ),
    ),
    questions=(
        Question(
            "Is the change of W aligned with h_a in the first 50 steps (gain; 64 is the most)?",
            early("update", lambda row: 1 <= row["step"] <= 50),
            medians,
        ),
        Question(
            "From which step on is W itself above chance in every layer and seed?",
            lambda numbers: min(
                (
                    step for step in sorted({r["step"] for r in numbers["early"]})
                    if all(r["alignment"] > r["null"] for r in numbers["early"]
                           if r["step"] >= step)
                ),
                default=None,
            ),
            lambda step: "from none" if step is None else f"from step {step}",
        ),
        Question(
            "How large is NC1 at the end of the networks that collapse?",
            of_collapse("nc1", "raw"),
            medians,
        ),
        Question(
            "How large is the alignment of H_a and WᵀW at collapse, of raw moments?",
            of_collapse(lambda row: row["raw"]["backward RWA"], "raw"),
            medians,
        ),
        Question(
            "How large are all six alignments at collapse, of centred moments? (excess, smallest "
            "over seeds)",
            lambda numbers: {
                relation: min(
                    row["excess"][relation] for row in numbers["collapse"]
                    if row["trained"] and row["moments"] == "centred"
                    and row["excess"][relation] is not None
                )
                for relation in RELATIONS
            },
            write_correlations,
        ),
        Question(
            "Without decay, how large is the excess of WᵀW with gradients of the outputs?",
            of_hidden("nfa_output", with_decay(NONE)),
            medians,
        ),
        Question(
            "Without decay, how large is the excess of WᵀW with gradients of the loss?",
            of_hidden("nfa_loss", with_decay(NONE)), medians,
        ),
        Question(
            "How invertible are layers without decay?",
            of_hidden("invertible", with_decay(NONE)),
            medians,
        ),
        Question(
            "Before training, what does a move along the first eighth cost, over a random one?",
            of_hidden("important", trained=False),
            medians,
        ),
        Question(
            "How far is the fewest number of directions from the 99 % rank of H_b?",
            of_hidden(lambda row: abs(row["fewest_H"] - row["rank99"])),
            medians,
        ),
        *(
            Question(
                f"How well does alignment predict {what}? Rank correlation, {how}",
                predict(use, within),
                write_correlations,
            )
            for what, use in (
                ("the fewest directions", lambda row: row["fewest_H"]),
                (
                    "the cost of important over unimportant moves",
                    lambda row: row["important"] / max(row["unimportant"], 1e-3),
                ),
                ("invertibility", lambda row: row["invertible"]),
            )
            for how, within in (("over all layers", False), ("within kind and decay", True))
        ),
        Question(
            "What does decay 0.01 cost in test accuracy? (percentage points)",
            cost_of_decay,
            each_median(lambda points: f"{fixed(points, 1)} points"),
        ),
    ),
    figure=figure,
    table=table,
    departures=networks.DEPARTURES,
)  # fmt: skip
