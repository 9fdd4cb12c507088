"""Is transfer best where bottom and top layers improve the separation equally?

``lawscope study run separation/transfer``: a proposal of 003 ("Training"), tried out. An 8-layer
network learns five classes of Fashion-MNIST upstream; its lower four layers go into a network for
the other five classes. A budget of 300 epochs is shared between the two in eight ways. Downstream
either only the new top learns, or all layers do; three seeds: 72 trainings.

The paper: a sensible balance of the training times is where the improvement in log D is roughly
the same in the bottom and the top layers.

Tried before: twelve layers, 100 samples per class upstream, up- and downstream classes exchanged
(one seed). The bottom then raised D downstream at every share of the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import (
    SOFT,
    X_LABEL,
    Y_LABEL,
    colours,
    grid,
    overlay,
    plain_axis,
)
from lawscope.studies.choice import measured, rank_correlation
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.separation._notes import above, told
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

# Upstream are classes that look unlike each other; downstream tops, coats and shirts, which do not.
UPSTREAM, DOWNSTREAM = (1, 3, 5, 7, 9), (0, 2, 4, 6, 8)
PAPER: dict[str, Any] = {
    "depth": 8,
    "lr": 1e-3,
    "upstream": [10, 150, 300, 450, 540, 570, 585, 590, 595],
    "epochs": 600,
    "source": 500,
    "target": 100,
    "seeds": 3,
}
CPU = {**PAPER, "upstream": [10, 75, 150, 225, 270, 285, 290, 295], "epochs": 300}
SMOKE = {
    **PAPER,
    "depth": 6,
    "lr": 3e-3,
    "upstream": [2, 5, 8],
    "epochs": 10,
    "source": 100,
    "seeds": 2,
}
WITHIN = 0.01
ARMS = {"top": "only the top learns", "all": "all layers learn"}


def downstream(settings: Mapping[str, Any], arm: str, upstream: int, seed: int) -> Training:
    """A network whose lower half comes from so many epochs upstream, trained on for the rest."""
    depth, bottom = settings["depth"], settings["depth"] // 2
    source = Training(
        Network.of("feedforward", depth=depth, classes=len(UPSTREAM)),
        Recipe(lr=settings["lr"], epochs=upstream, seed=seed),
        Data(per_class=settings["source"], classes=UPSTREAM),
        seed=seed,
    )
    return replace(
        source,
        recipe=replace(source.recipe, epochs=settings["epochs"] - upstream),
        data=Data(per_class=settings["target"], classes=DOWNSTREAM),
        start=source,
        copied=bottom,
        trained=(bottom, depth) if arm == "top" else None,
    )


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """Every share of the budget with every seed, both ways; upstream networks come along."""
    return [training for arm in ARMS for training in shares(settings, arm)]


def shares(settings: Mapping[str, Any], arm: str) -> list[Training]:
    """The networks of one way to train downstream."""
    return [
        downstream(settings, arm, upstream, seed)
        for upstream in settings["upstream"]
        for seed in range(settings["seeds"])
    ]


def measure(lab: Lab) -> Numbers:
    """Balance of bottom and top on downstream data, and downstream test accuracy, by arm."""
    numbers = {}
    for arm in ARMS:
        rows = [balanced_row(lab, training) for training in shares(lab.settings, arm)]
        numbers[arm] = {"rows": rows, "means": means(rows)}
    return numbers


def balanced_row(lab: Lab, training: Training) -> Numbers:
    """One network: its law, and the balance of its lower and upper half."""
    from lawscope.laws.transfer_balance import balance_of

    upstream = lab.settings["epochs"] - training.recipe.epochs
    row = {"upstream": upstream, **measured(lab, training)}
    if row["D"] is None:
        return {**row, "balance": None}
    told = balance_of(lab.separation(training), training.copied).to_dict()
    return {
        **row,
        "balance": told["balance"],
        "balance_interval": told["interval"]["balance"],
        "balance_verdict": told["verdict"],
        "bottom": told["bottom"],
        "top": told["top"],
    }


def means(rows: list[Numbers]) -> list[Numbers]:
    """Balance and test accuracy by share of the budget, mean over seeds."""
    found = []
    for share in sorted({row["upstream"] for row in rows}):
        seeds = [row for row in rows if row["upstream"] == share and row["balance"] is not None]
        if seeds:
            names = ("balance", "test_accuracy")
            mean = {name: sum(row[name] for row in seeds) / len(seeds) for name in names}
            found.append({"upstream": share, **mean})
    return found


def loss_of_balance(means: list[Numbers]) -> float:
    """Best test accuracy minus that at the share where bottom and top improve most equally.

    Example:
        >>> loss_of_balance([{"balance": -0.1, "test_accuracy": 0.5},
        ...                  {"balance": 0.5, "test_accuracy": 0.75}])
        0.25
    """
    balanced = min(means, key=lambda mean: abs(mean["balance"]))
    best = max(mean["test_accuracy"] for mean in means)
    return float(best - balanced["test_accuracy"])


def agreement(means: list[Numbers]) -> float:
    """Rank correlation of |balance| with test accuracy over shares."""
    return rank_correlation(
        [abs(mean["balance"]) for mean in means], [mean["test_accuracy"] for mean in means]
    )


def claims(arm: str) -> tuple[Claim, Claim]:
    """The proposal as two bars, for one way to train downstream."""
    return (
        Claim(
            f"{ARMS[arm]}: the most balanced share tests within {WITHIN:.0%} of the best, mean "
            "over seeds",
            "a sensible balance is where the improvement is roughly the same in bottom and top",
            lambda numbers: loss_of_balance(numbers[arm]["means"]),
            lambda loss: loss <= WITHIN,
        ),
        Claim(
            f"{ARMS[arm]}: the nearer to balance the better the test, rank correlation of "
            "|balance| with test accuracy at most −0.5",
            "a sensible balance",
            lambda numbers: agreement(numbers[arm]["means"]),
            lambda correlation: correlation <= -0.5,
        ),
    )


def figure(numbers: Numbers) -> Figure:
    """A row for each way: curves of the first seed, balance over shares, accuracy over balance."""
    drawing, axes = grid(len(ARMS), 3, "Balance in transfer learning", (3.4, 2.9))
    for arm, places in zip(ARMS, axes, strict=True):
        rows, mean = numbers[arm]["rows"], numbers[arm]["means"]
        first = [row for row in rows if row["seed"] == rows[0]["seed"]]
        names = [(f"{row['upstream']} upstream", row) for row in first]
        overlay(places[0], names, ARMS[arm], graded=True)
        places[0].set_ylabel(Y_LABEL, fontsize=8.5)
        shown = [row for row in rows if row["balance"] is not None]
        for axis, x, y in zip(
            places[1:], ("upstream", "balance"), ("balance", "test_accuracy"), strict=True
        ):
            axis.plot([row[x] for row in shown], [row[y] for row in shown], ".", color=SOFT, ms=3)
            for each, color in zip(mean, colours(len(mean), graded=True), strict=True):
                axis.plot(each[x], each[y], "o", color=color)
            axis.set_ylabel(y.replace("_", " "), fontsize=8.5)
            plain_axis(axis)
        places[1].axhline(0, color=SOFT, lw=0.8, ls=":")
        places[2].axvline(0, color=SOFT, lw=0.8, ls=":")
        judged = zip(("accuracy lost at balance", "rank correlation"), claims(arm), strict=True)
        above(places[2], (told(name, claim, numbers) for name, claim in judged))
    for axis, name in zip(axes[-1], (X_LABEL, "upstream epochs", "balance"), strict=True):
        axis.set_xlabel(name, fontsize=8.5)
    return drawing


STUDY = Study(
    title="Is transfer best where bottom and top layers improve equally?",
    source="003, Training",
    paper="a sensible balance: equal improvement in bottom and top",
    minutes={"smoke": 0.1, "cpu": 4, "paper": 6},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=(*claims("top"), *claims("all")),
    figure=figure,
)
