"""Open questions of the talk: imbalanced classes, mini-batches, and E that is not semi-definite.

``lawscope study run elasticity/sampling``: "Future works" of Zhang et al. 2021. Networks on shapes
whose first class has four times as many images as the others, against the L-model with the
strengths of balanced networks: once with the sampling matrix P whose columns are the shares of the
classes, once with 1/K. Networks with mini-batches of 8 against those with single images. And the
I-model with random symmetric E that has a negative eigenvalue and grows as ∫1/√t.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import lawscope as ls
from lawscope.lazy import np
from lawscope.studies.elasticity import _networks as networks
from lawscope.studies.elasticity._networks import SHAPES_WORLD, SHORT_SHAPES, TINY_SHAPES, thinned
from lawscope.studies.elasticity.estimation import fit
from lawscope.studies.figures import COLOURS, grid, plain_axis
from lawscope.studies.panels import (
    Settings,
    collect,
    each_median,
    group_by,
    medians,
    presets,
    yes_or_no,
)
from lawscope.studies.study import Figure, Lab, Numbers, Question, Study

K = 3
BALANCED, IMBALANCED, BATCHES = "balanced", "imbalanced", "batches of 8"
NOISE, SEPARATED = 0.25, 0.95


def worlds(world: Settings, most: int) -> dict[str, Settings]:
    few = most // 4
    return {
        BALANCED: world,
        IMBALANCED: {**world, "per_class": [most, few, few]},
        BATCHES: {**world, "batch": 8},
    }


PAPER: dict[str, Any] = {
    "worlds": worlds(SHAPES_WORLD, 2000), "seeds": 5, "matrices": 40, "n": 50, "draws": 5,
    "time": 10_000,
}  # fmt: skip
SHORT: Mapping[str, Any] = {**SHORT_SHAPES, "steps": 20_000}
CPU = {"worlds": worlds(SHORT, 2000)}
SMOKE = {
    "worlds": worlds({**TINY_SHAPES, "steps": 20}, 40),
    "seeds": 2,
    "matrices": 2,
    "n": 10,
    "time": 100,
}


def measure(lab: Lab) -> Numbers:
    records = {
        name: [
            networks.trajectory_of(lab, training)
            for training in networks.trainings_of(lab.settings, world)
        ]
        for name, world in lab.settings["worlds"].items()
    }
    counts = lab.settings["worlds"][IMBALANCED]["per_class"]
    shares = [count / sum(counts) for count in counts]
    return {
        "imbalanced": imitate(records, shares),
        "strengths": [strength(name, each) for name, own in records.items() for each in own],
        "matrices": [general(lab.settings, seed) for seed in range(lab.settings["matrices"])],
    }


def imitate(records: Mapping[str, list[Numbers]], shares: list[float]) -> list[Numbers]:
    """Return RD of two imitations of imbalanced networks with the strengths of balanced ones."""
    from lawscope.theory.elastic_sde.model import ElasticSDE, own_logits

    rows = []
    for donor, record in zip(records[BALANCED], records[IMBALANCED], strict=True):
        own = fit([donor], "L")
        row: Numbers = {"seed": record["seed"], "t0": None, "with": None, "without": None}
        if own is not None and not own.voids:
            late = record["step"] >= own.t0
            genuine = record["means"][late] - record["means"][late].mean(axis=-1, keepdims=True)
            row |= {"t0": own.t0, "steps": thinned(own.steps)}
            row["genuine"] = [thinned(each) for each in own_logits(genuine).T]
            for name, P in (("with", np.tile(shares, (K, 1))), ("without", None)):
                sde = ElasticSDE(
                    own.alpha, own.beta, K, model="L", sampling=P, start=own.t0, times=own.steps
                )
                try:
                    means = sde.mean(own.steps, genuine[0])
                except ls.LawscopeError:  # outgrows floating-point numbers
                    continue
                means = means - means.mean(axis=-1, keepdims=True)
                row[name] = float(ls.relative_difference(genuine, means).mean())
                row[f"{name}_own"] = [thinned(each) for each in own_logits(means).T]
        rows.append(row)
    return rows


def strength(world: str, record: Numbers) -> Numbers:
    """Return what a network made of its classes: Â − B̂ since U kept its sign, and U."""
    from lawscope.theory.elastic_sde.model import own_logits

    U = own_logits(record["means"]).sum(axis=-1)
    return {
        "world": world, "seed": record["seed"], "accuracy": record["test_accuracy"],
        "U": float(U[-1]), "steps": thinned(record["step"]), "path": thinned(U),
    }  # fmt: skip


def general(settings: Settings, seed: int) -> Numbers:
    """Return the share of separable pairs under a random symmetric E with a negative eigenvalue."""
    from scipy.linalg import expm

    from lawscope.theory.elastic_sde.separability import count_separable

    rng = np.random.default_rng([seed, K])
    lowest = 0.0
    while lowest >= 0:
        side = np.triu(rng.uniform(-1.5, 1.5, (K, K)), 1)
        E = np.eye(K) + side + side.T
        values, vectors = np.linalg.eigh(E)
        lowest = float(values[0])
    C = ls.ElasticSDE(K=K, model="I", elasticity=E).matrix(0.0)
    X0, t = rng.standard_normal((K, K)), float(settings["time"])
    means = (expm((2 * math.sqrt(1 + t) - 2) * C) @ X0.ravel()).reshape(K, K)
    n, draws = settings["n"], settings["draws"]
    samples = means + math.sqrt(NOISE * t) * rng.standard_normal((draws, n, K, K))
    top = vectors[:, -1]
    return {
        "seed": seed, "lowest": lowest, "pairs": count_separable(samples).pairs,
        # The fastest direction takes over: classes differ by their entries in its eigenvector.
        "apart": float(min(abs(top[i] - top[j]) for i in range(K) for j in range(i))),
    }  # fmt: skip


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, 3, "Sampling effects", (3.8, 2.9))
    left, middle_, right = axes[0]
    shown = next((row for row in numbers["imbalanced"] if row["with"] is not None), None)
    if shown is not None:
        for k, color in zip(range(K), COLOURS, strict=False):
            left.plot(shown["steps"], shown["genuine"][k], color=color, lw=1.2, label=f"class {k}")
            left.plot(shown["steps"], shown["with_own"][k], "--", color=color, lw=1.2)
            if "without_own" in shown:
                left.plot(shown["steps"], shown["without_own"][k], ":", color=color, lw=1.2)
    words = "imbalanced; dashed: with P, dotted: without"
    networks.steps_axis(left, words, legend=7 if shown else 0, yscale="symlog")
    # Room above the curves for the legend.
    left.set_ylim(top=1e3 * left.get_ylim()[1])
    left.set_ylabel("own logit of the class mean", fontsize=8.5)
    by_world = group_by(numbers["strengths"], "world").items()
    for (world, rows), color in zip(by_world, COLOURS, strict=False):
        for row in rows:
            label = world if row["seed"] == 0 else None
            middle_.plot(row["steps"], row["path"], color=color, lw=0.8, label=label)
    networks.steps_axis(middle_, "U along training", legend=7)
    rows = numbers["matrices"]
    right.plot([r["lowest"] for r in rows], [r["pairs"] for r in rows], "o", color=COLOURS[0], ms=3)
    plain_axis(right, "symmetric E, not semi-definite", ylim=(-0.05, 1.05))
    right.set_xlabel("lowest eigenvalue of E", fontsize=8.5)
    right.set_ylabel("share of separable pairs", fontsize=8.5)
    return drawing


def are_separated(found: dict[str, list[float]]) -> str:
    """Write in how many random E all pairs separate, and in how many none does."""
    shares = found["random E"]
    apart, none = sum(v >= SEPARATED for v in shares), sum(v <= 1 - SEPARATED for v in shares)
    if apart == len(shares):
        return f"yes, all pairs in all {apart} random E"
    return f"all pairs in {apart} of {len(shares)} random E, none in {none}"


STUDY = Study(
    title="Imbalanced sampling, mini-batches and general E: simulated against trained",
    source="Zhang et al. 2021, future works",
    paper="a sampling matrix P may model imbalanced classes; symmetric E may do as well",
    minutes={"smoke": 0.1, "cpu": 3, "paper": 30},
    settings=presets(PAPER, CPU, SMOKE),
    plan=networks.plan,
    measure=measure,
    questions=(
        Question(
            "Does the sampling matrix make the imitation of imbalanced networks better? (RD with P "
            "over RD without)",
            collect("imbalanced", "RD with over without",
                    lambda r: None if None in (r["with"], r["without"])
                    else r["with"] / r["without"]),
            yes_or_no(lambda ratio: ratio < 1),
        ),
        Question(
            "How large is RD with P?",
            collect("imbalanced", "RD with P", "with"),
            medians,
        ),
        Question(
            "At which U do mini-batches of 8 end, and at which single images?",
            collect("strengths", "{world}", "U"),
            each_median(),
        ),
        Question(
            "Do symmetric E ∝ 1/√t with a negative eigenvalue separate too? (share of pairs)",
            collect("matrices", "random E", "pairs"),
            are_separated,
        ),
    ),
    figure=figure,
    departures={"cpu": "20,000 steps", "paper": "LeNet's widths, and our own shapes"},
)  # fmt: skip
