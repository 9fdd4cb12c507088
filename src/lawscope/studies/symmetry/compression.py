"""Symmetry put in on purpose: weights written as products, which plain SGD makes sparse or thin.

``lawscope study run symmetry/compression``: "one can leverage symmetry to design training
algorithms" (Ziyin 2024; Ziyin & Wang 2023). First linear regression, 60 samples of 12 inputs, by
full-batch ``torch.optim.SGD`` with weight decay on u∘v, or on UV with 4 outputs: against proximal
gradient descent on the L1 or nuclear-norm penalty, in float64. Then feed-forward networks (two
hidden layers of 100) on Fashion-MNIST at 10×10, plain and written as u∘v and UV, plain SGD with
weight decays from 0 to 0.003 (u∘v) or 0.03: weights or singular values above 0.001 of the largest
of their layer are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import lawscope as ls
from lawscope.lazy import nn, torch
from lawscope.studies.datasets import ImageData
from lawscope.studies.figures import COLOURS, draw_seeds, label_outside, plain_axis, wrapped
from lawscope.studies.panels import Settings, collect, group_by, medians, presets, yes_or_no
from lawscope.studies.plan import Network, Training
from lawscope.studies.registry import NETWORKS
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question, Study
from lawscope.training.recipe import Recipe

WAYS = {"plain": "plain", "sparse": "u∘v", "low-rank": "UV"}
SMALL = 1e-3  # share of the largest of a layer
EQUAL = 1e-3
# A gradient passes to u through v, which is small: u∘v stands, and needs, larger rates.
RATES = {"plain": 0.1, "sparse": 1.0, "low-rank": 0.1}
PAPER: dict[str, Any] = {
    "epochs": 400, "batch": 32, "per_class": 500, "seeds": 3,
    "decays": {
        "plain": [0.0, 1e-3, 3e-3, 1e-2, 3e-2], "sparse": [0.0, 5e-4, 1e-3, 2e-3, 3e-3],
        "low-rank": [0.0, 3e-3, 1e-2, 2e-2, 3e-2],
    },
    "regression": {"steps": 20_000, "decay": 0.1},
}  # fmt: skip
CPU = {"epochs": 100, "per_class": 100}
SMOKE = {
    "epochs": 2, "per_class": 10, "seeds": 1, "decays": {way: [0.0, 3e-3] for way in WAYS},
    "regression": {"steps": 200, "decay": 0.1},
}  # fmt: skip
LABEL = "{way}, decay {decay:g}"


@NETWORKS.register("redundant")
def redundant(way: str, width: int = 100) -> nn.Module:
    """Build a feed-forward network whose weights are products; ``plain`` ones are not."""
    from lawscope.zoo.networks.feedforward import feedforward

    network = feedforward(3, width=width, norm=False)
    if way != "plain":
        ls.impose_symmetry(network, way)  # type: ignore[arg-type]
    return network


def trainings_of(settings: Settings, way: str, decay: float) -> list[Training]:
    epochs, batch = settings["epochs"], settings["batch"]
    return [
        Training(
            Network.of("redundant", way=way),
            Recipe("sgd", RATES[way], epochs, batch, decay, seed),
            ImageData(per_class=settings["per_class"]),
            seed,
        )
        for seed in range(settings["seeds"])
    ]


def plan(settings: Settings) -> list[Training]:
    return [
        training
        for way in WAYS
        for decay in settings["decays"][way]
        for training in trainings_of(settings, way, decay)
    ]


def measure(lab: Lab) -> Numbers:
    rows = []
    for way in WAYS:
        for decay in lab.settings["decays"][way]:
            lab.tell(f"{way}, decay {decay:g}")
            for training in trainings_of(lab.settings, way, decay):
                cell = {"way": way, "decay": decay, "seed": training.seed}
                rows.append({**cell, **size_of(lab, training)})
    regressions = [
        {"way": way, "seed": seed, **regress(way, seed, **lab.settings["regression"])}
        for way in ("sparse", "low-rank")
        for seed in range(lab.settings["seeds"])
    ]
    return {"networks": rows, "regressions": regressions}


def size_of(lab: Lab, training: Training) -> Numbers:
    """Return accuracy, the share of weights that are not small, and the mean rank of layers."""
    run = lab.run(training)
    row: Numbers = {"accuracy": run.accuracy, "test_accuracy": run.test_accuracy}
    if not math.isfinite(run.loss):
        return row | {"kept": None, "rank": None}
    network = run.network()
    weights = [m.weight.detach() for m in network.modules() if isinstance(m, torch.nn.Linear)]
    kept = sum(int((w.abs() > SMALL * w.abs().max()).sum()) for w in weights)
    ranks = [int(torch.linalg.matrix_rank(w, rtol=SMALL)) for w in weights]
    return row | {
        "kept": kept / sum(w.numel() for w in weights),
        "rank": sum(ranks) / sum(min(w.shape) for w in weights),
    }


def regress(way: str, seed: int, steps: int, decay: float) -> Numbers:
    """Return how far SGD on products ends from the solution of the penalty."""
    generator = torch.Generator().manual_seed(seed)
    outputs = 1 if way == "sparse" else 4
    X = torch.randn(60, 12, generator=generator, dtype=torch.float64)
    W = torch.randn(outputs, 12, generator=generator, dtype=torch.float64)
    W = W * (torch.arange(12) < 4) if way == "sparse" else W[:, :2] @ W[:2]
    Y = X @ W.T + 0.3 * torch.randn(60, outputs, generator=generator, dtype=torch.float64)
    torch.manual_seed(seed)
    model = nn.Linear(12, outputs, bias=False, dtype=torch.float64)
    ls.impose_symmetry(model, way)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, weight_decay=decay)
    for _ in range(steps):
        optimizer.zero_grad()
        ((model(X) - Y) ** 2).sum().div(2 * len(X)).backward()
        optimizer.step()
    found, solution = model.weight.detach(), solve(X, Y, decay, way)
    scale = solution.abs().max()
    return {
        "difference": float((found - solution).abs().max() / scale),
        "found": found.flatten().tolist(), "solution": solution.flatten().tolist(),
    }  # fmt: skip


def solve(X: Any, Y: Any, decay: float, way: str) -> Any:
    """Return the minimum of |XWᵀ − Y|²/2n + λ‖W‖₁, or with the nuclear norm, step by step."""
    from lawscope.theory.landscapes import soft_threshold

    n = len(X)
    step = float(n / torch.linalg.matrix_norm(X, 2) ** 2)
    W = torch.zeros(Y.shape[1], X.shape[1], dtype=torch.float64)
    for _ in range(5000):
        W = W - step * (X @ W.T - Y).T @ X / n
        if way == "sparse":
            W = W.sign() * (W.abs() - step * decay).clamp_min(0)
        else:
            W = torch.from_numpy(soft_threshold(W.numpy(), step * decay))
    return W


def best(way: str, name: str, loss: float = 0.02) -> Callable[[Numbers], dict[str, list[Any]]]:
    """Return the least size at a test accuracy so little below the best plain network's."""

    def read(numbers: Numbers) -> dict[str, list[Any]]:
        rows, found = numbers["networks"], []
        for seed in sorted({row["seed"] for row in rows}):
            own = [row for row in rows if row["seed"] == seed]
            bar = max(r["test_accuracy"] for r in own if r["way"] == "plain") - loss
            kept = [r[name] for r in own if r["way"] == way and r["test_accuracy"] >= bar]
            sizes = [size for size in kept if size is not None]
            found.append(min(sizes) if sizes else None)
        if not found:
            raise NotTried("there are no networks")
        return {WAYS[way]: found}

    return read


def figure(numbers: Numbers) -> Figure:
    drawing, _, places = wrapped(4, "Symmetry put in on purpose", (3.8, 2.7), columns=2)
    for column, (name, title) in enumerate({"kept": "weights kept", "rank": "rank kept"}.items()):
        axis = places[column]
        for way, color in zip(WAYS, COLOURS, strict=False):
            own = [row for row in numbers["networks"] if row["way"] == way]
            axis.plot([row[name] for row in own], [row["test_accuracy"] for row in own], "o",
                      ms=3, color=color, label=WAYS[way])  # fmt: skip
        plain_axis(axis, f"share of {title}", legend=7, xscale="log")
        axis.set_xlabel(f"share of {title}", fontsize=8.5)
        axis.set_ylabel("test accuracy", fontsize=8.5)
    for way, color in zip(WAYS, COLOURS, strict=False):
        own = [row for row in numbers["networks"] if row["way"] == way and row["decay"]]
        cells = group_by(own, "decay")
        draw_seeds(
            places[2], list(cells), list(cells.values()), "kept", color=color, label=WAYS[way]
        )
    plain_axis(places[2], "share of weights kept", legend=7, xscale="log", yscale="log")
    places[2].set_xlabel("weight decay", fontsize=8.5)
    for row in numbers["regressions"]:
        color = COLOURS[1 if row["way"] == "sparse" else 2]
        places[3].plot(row["solution"], row["found"], "o", ms=3, color=color)
    plain_axis(places[3], "weights of the regression")
    label_outside([[places[3]]], "with the penalty", "of SGD on products")
    return drawing


STUDY = Study(
    title="Weights as products: sparse and low-rank networks by plain SGD",
    source="Ziyin 2024; Ziyin & Wang 2023",
    paper="one can leverage symmetry to design training algorithms",
    minutes={"smoke": 0.1, "cpu": 2, "paper": 60},
    settings=presets(PAPER, CPU, SMOKE),
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "linear regression on u∘v, or UV, ends at the solution of the L1, or nuclear-norm, "
            "penalty to 1e-3 of its largest entry",
            "a redundant parametrisation with weight decay is the same problem as L1",
            collect("regressions", "{way}", "difference"),
            lambda difference: difference < EQUAL,
            exact=True,
        ),
        Claim(
            "u∘v: at most a quarter of the weights are left at a test accuracy within 2 points of "
            "the best plain network",
            "rescaling symmetry → sparsity",
            best("sparse", "kept"),
            lambda share: share <= 0.25,
        ),
        Claim(
            "UV: at most half of the ranks are left at a test accuracy within 2 points of the best "
            "plain network",
            "rotation symmetry → low rankness",
            best("low-rank", "rank"),
            lambda share: share <= 0.5,
        ),
    ),
    questions=(
        Question(
            "Do plain networks within 2 points of the best have a quarter of small weights or "
            "more?",
            best("plain", "kept"),
            yes_or_no(lambda share: share <= 0.75),
        ),
        Question(
            "Do plain networks within 2 points of the best lose half of their ranks?",
            best("plain", "rank"),
            yes_or_no(lambda share: share <= 0.5),
        ),
        # Both asked after a look at the numbers.
        Question("What share of weights does u∘v keep within 5 points of the best plain network?",
                 best("sparse", "kept", 0.05), medians),
        Question("What share of ranks does UV keep within 5 points of the best plain network?",
                 best("low-rank", "rank", 0.05), medians),
    ),
    figure=figure,
    departures={
        "cpu": "small networks on 1000 images of 10×10 and 3200 steps; rates and decays were "
        "raised after a first run, in which 1900 steps were too few for any weight to vanish",
        "paper": "small networks on Fashion-MNIST at 10×10",
    },
)  # fmt: skip
