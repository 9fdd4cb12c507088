"""Is transfer best where bottom and top layers improve the separation equally?

``lawscope study run separation/transfer``: a proposal of He & Su 2023 ("Training"), tried out. An
8-layer network learns five classes of Fashion-MNIST upstream; its lower four layers go into a
network for the other five classes. A budget of 300 epochs is shared between the two in eight ways.
Downstream either only the new top learns, or all layers do; three seeds: 72 trainings.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lawscope.studies import figures
from lawscope.studies.datasets import ImageData
from lawscope.studies.figures import SOFT, X_LABEL, Y_LABEL
from lawscope.studies.panels import (
    Settings,
    first_seeds,
    measured,
    presets,
    rank_correlation,
    yes_or_no,
)
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._family import he_su_study
from lawscope.studies.study import Figure, Lab, Numbers, Question
from lawscope.training.recipe import Recipe

# Upstream are classes that look unlike each other; downstream tops, coats and shirts, which do not.
UPSTREAM, DOWNSTREAM = (1, 3, 5, 7, 9), (0, 2, 4, 6, 8)
WITHIN = 0.01
ARMS = {"top": "only the top learns", "all": "all layers learn"}
PAPER: dict[str, Any] = {
    "depth": 8, "lr": 1e-3, "upstream": [10, 150, 300, 450, 540, 570, 585, 590, 595],
    "epochs": 600, "source": 500, "target": 100, "seeds": 3,
}  # fmt: skip
SMOKE = {"depth": 6, "lr": 3e-3, "upstream": [2, 5, 8], "epochs": 10, "source": 100, "seeds": 2}


def downstream(settings: Settings, arm: str, upstream: int, seed: int) -> Training:
    """Return a network with a lower half from so many epochs upstream, trained for the rest."""
    depth, bottom = settings["depth"], settings["depth"] // 2
    source = Training(
        Network.of("feedforward", depth=depth, classes=len(UPSTREAM)),
        Recipe(lr=settings["lr"], epochs=upstream, seed=seed),
        ImageData(per_class=settings["source"], classes=UPSTREAM),
        seed=seed,
    )
    return replace(
        source,
        recipe=replace(source.recipe, epochs=settings["epochs"] - upstream),
        data=ImageData(per_class=settings["target"], classes=DOWNSTREAM),
        start=source,
        copied=bottom,
        trained=(bottom, depth) if arm == "top" else None,
    )


def shares(settings: Settings, arm: str) -> list[Training]:
    """Return every share of the budget with every seed, for one way to train downstream."""
    return [
        downstream(settings, arm, upstream, seed)
        for upstream in settings["upstream"]
        for seed in first_seeds(settings["seeds"])
    ]


def measure(lab: Lab) -> Numbers:
    trainings = {arm: shares(lab.settings, arm) for arm in ARMS}
    found = {arm: [measure_balance(lab, t) for t in each] for arm, each in trainings.items()}
    return {arm: {"rows": rows, "means": means(rows)} for arm, rows in found.items()}


def measure_balance(lab: Lab, training: Training) -> Numbers:
    """Measure one network: its law, and the balance of its lower and upper half."""
    from lawscope.remedies.transfer_balance import compute_balance

    upstream = lab.settings["epochs"] - training.recipe.epochs
    row = {"upstream": upstream, **measured(lab, training)}
    if row["D"] is None:
        return {**row, "balance": None}
    found = compute_balance(lab.separation(training), training.copied)
    return {**row, "balance": found.balance, "bottom": found.bottom, "top": found.top}


def means(rows: list[Numbers]) -> list[Numbers]:
    """Return balance and test accuracy by share of the budget, mean over seeds."""
    balanced, found = [row for row in rows if row["balance"] is not None], []
    for share in sorted({row["upstream"] for row in balanced}):
        seeds = [row for row in balanced if row["upstream"] == share]
        names = ("balance", "test_accuracy")
        mean = {name: statistics.fmean(row[name] for row in seeds) for name in names}
        found.append({"upstream": share, **mean})
    return found


def loss_of_balance(means: list[Numbers]) -> float:
    """Return the best test accuracy minus that at the share nearest to balance."""
    balanced = min(means, key=lambda mean: abs(mean["balance"]))
    best = max(mean["test_accuracy"] for mean in means)
    return float(best - balanced["test_accuracy"])


def agreement(means: list[Numbers]) -> float:
    distances = [abs(mean["balance"]) for mean in means]
    return rank_correlation(distances, [mean["test_accuracy"] for mean in means])


def by_arm(read: Callable[[list[Numbers]], float]) -> Callable[[Numbers], dict[str, float]]:
    """Return a function from numbers to what is read off the means of each arm."""
    return lambda numbers: {name: read(numbers[arm]["means"]) for arm, name in ARMS.items()}


def figure(numbers: Numbers) -> Figure:
    """Draw a row per arm: curves of the first seed, balance over shares, accuracy over balance."""
    drawing, axes = figures.grid(len(ARMS), 3, "Balance in transfer learning", (3.4, 2.9))
    for arm, places in zip(ARMS, axes, strict=True):
        rows, mean = numbers[arm]["rows"], numbers[arm]["means"]
        first = [row for row in rows if row["seed"] == rows[0]["seed"]]
        names = [(f"{row['upstream']} upstream", row) for row in first]
        figures.overlay(places[0], names, ARMS[arm])
        places[0].set_ylabel(Y_LABEL, fontsize=8.5)
        shown = [row for row in rows if row["balance"] is not None]
        pairs = (("upstream", "balance"), ("balance", "test_accuracy"))
        for axis, (x, y) in zip(places[1:], pairs, strict=True):
            axis.plot([row[x] for row in shown], [row[y] for row in shown], ".", color=SOFT, ms=3)
            shades = figures.colours(len(mean))
            for each, color in zip(mean, shades, strict=True):
                axis.plot(each[x], each[y], "o", color=color)
            axis.set_ylabel(y.replace("_", " "), fontsize=8.5)
            figures.plain_axis(axis)
        places[1].set_title("large: means, small: seeds", fontsize=figures.SMALL, color=figures.INK)
        places[1].axhline(0, color=SOFT, lw=0.8, ls=":")
        places[2].axvline(0, color=SOFT, lw=0.8, ls=":")
        if mean:
            lost = f"accuracy lost at balance: {loss_of_balance(mean):.3f}"
            places[2].set_title(lost, fontsize=figures.SMALL, color=figures.INK)
    for axis, name in zip(axes[-1], (X_LABEL, "upstream epochs", "balance"), strict=True):
        axis.set_xlabel(name, fontsize=8.5)
    return drawing


STUDY = he_su_study(
    title="Is transfer best where bottom and top layers improve equally?",
    source="He & Su 2023, Training",
    paper="a sensible balance: equal improvement in bottom and top (proposed, not shown)",
    minutes={"smoke": 0.1, "cpu": 4, "paper": 6},
    settings=presets(
        PAPER, {"upstream": [10, 75, 150, 225, 270, 285, 290, 295], "epochs": 300}, SMOKE
    ),
    plan=lambda settings: [training for arm in ARMS for training in shares(settings, arm)],
    measure=measure,
    questions=(
        Question(
            f"Does the share nearest to balance test within {100 * WITHIN:g} % of the best "
            "(accuracy lost, mean over seeds)?",
            by_arm(loss_of_balance),
            yes_or_no(lambda lost: lost <= WITHIN),
        ),
        Question(
            "Is the test better the nearer to balance (rank correlation of |balance| with test "
            "accuracy at most −0.5)?",
            by_arm(agreement),
            yes_or_no(lambda correlation: correlation <= -0.5),
        ),
    ),
    figure=figure,
)
