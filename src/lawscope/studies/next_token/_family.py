"""Small language models trained on the embedded text, the law on them, and panels of PR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import lawscope as ls
from lawscope.documents import drop_non_finite
from lawscope.formatting import fixed
from lawscope.studies import figures
from lawscope.studies.datasets import TextData
from lawscope.studies.figures import COLOURS, INK, SOFT, with_interval
from lawscope.studies.panels import Number, Settings, collect, first_seeds, presets, quietly
from lawscope.studies.plan import LanguageModelling, Network, Training
from lawscope.studies.study import Axes, Lab, Numbers
from lawscope.training.recipe import Recipe

# One GPT for all studies: 6 blocks, d = 128, rotary positions, windows of 32 tokens. Its vocabulary
# is the first 512 tokens of the embedded byte pairs, in the order in which they were learned. With
# d = 64 and a tenth of the steps it had not learned enough to have the law.
GPT: dict[str, Any] = {
    "text": "king-james-bible", "vocabulary": 512, "window": 32, "width": 128, "depth": 6,
    "batch": 16, "lr": 3e-3, "steps": 10_000,
    "checkpoints": [0, 10, 30, 100, 300, 1000, 3000, 10_000], "tokens": 60_000, "seeds": 3,
}  # fmt: skip
LARGER: dict[str, Any] = {
    **GPT, "vocabulary": 1024, "window": 256, "width": 256, "depth": 12, "batch": 32, "lr": 1e-3,
    "steps": 20_000, "checkpoints": [0, 10, 30, 100, 300, 1000, 3000, 10_000, 20_000],
    "tokens": 150_000,
}  # fmt: skip
TINY: dict[str, Any] = {
    **GPT, "vocabulary": 300, "window": 16, "width": 16, "depth": 4, "steps": 3,
    "checkpoints": [0, 1, 3], "tokens": 3200, "seeds": 1,
}  # fmt: skip
OURS = "GPT trained here"
STRAIGHT = -0.9
DEPARTURES = {
    "cpu": "a GPT of 6 blocks, d = 128, and 5 million tokens of training instead of pretrained "
    "models of 100 million to 13 billion parameters",
    "paper": "a GPT of 12 blocks, d = 256, trained here",
}


def gpt_presets(
    paper: Settings | None = None, cpu: Settings | None = None, smoke: Settings | None = None
) -> dict[str, dict[str, Any]]:
    """Return the settings of every preset: those of its GPT, and what a study adds or changes."""
    return presets({**LARGER, **(paper or {})}, {**GPT, **(cpu or {})}, {**TINY, **(smoke or {})})


def training_of(settings: Settings, seed: int = 0, **network: Any) -> Training:
    """Plan the training of one language model; ``network`` overrides options of the builder."""
    window, vocabulary = settings["window"], settings["vocabulary"]
    lr, steps, batch = (settings[name] for name in ("lr", "steps", "batch"))
    options = {
        "vocabulary": vocabulary, "width": settings["width"], "depth": settings["depth"],
        "context": window, **({} if "style" in network else {"rotary": True}), **network,
    }  # fmt: skip
    return Training(
        Network.of("language", **options),
        Recipe("adamw", lr, steps, batch, weight_decay=0.1, seed=seed),
        TextData(settings["text"], window, vocabulary),
        seed,
        tuple(settings["checkpoints"]),
        task=LanguageModelling(None if network.get("causal", True) else vocabulary),
    )


def gpts(settings: Settings, **network: Any) -> list[Training]:
    """Plan the GPT of the settings, or another network, one for each seed."""
    return [training_of(settings, seed, **network) for seed in first_seeds(settings["seeds"])]


def of_networks(value: Number) -> Callable[[Numbers], dict[str, list[Any]]]:
    """Return the value of a sentence about the GPT trained here: a number of every network."""
    return collect("networks", OURS, value)


def law_of(lab: Lab, training: Training, **how: Any) -> Numbers:
    """Measure the law on one language model, with how it ended."""
    lab.tell(f"measuring {training.describe()}")
    run = lab.run(training)
    ending = {"seed": training.seed, "loss": run.loss, "test_accuracy": run.test_accuracy}
    with quietly():
        found = lab.next_token(training, tokens=lab.settings["tokens"], **how)
    return {**ending, **numbers_of(found)}


def numbers_of(found: ls.NextToken) -> Numbers:
    """Return JSON values of a law; lists begin with the embedding, residuals with block 1."""
    from lawscope.laws.line import log_or_nan
    from lawscope.laws.next_token.verdict import find_bend

    fit, bend = found.fit, find_bend(log_or_nan(found.pr[1:]), found.replicates)
    names = {"pearson": "r", "rho": "rho", "slope": "slope"}
    ends = {short: list(fit.interval[n]) for n, short in names.items() if n in fit.interval}
    numbers = drop_non_finite(
        {
            **{name: getattr(found, name).tolist() for name in ("pr", "pr_cv", "pr_onehot")},
            **{short: getattr(fit, name) for name, short in names.items()},
            "interval": ends,
            "residuals": fit.residuals.tolist(),
            "bend": bend and {**asdict(bend), "interval": list(bend.interval)},
            **{name: getattr(found, name) for name in ("verdict", "reason", "n", "d")},
        }
    )
    return {**numbers, "control": None if found.control is None else numbers_of(found.control)}


def draw_pr(
    axis: Axes, pr: Sequence[float], *, color: str = COLOURS[0], label: str | None = None,
    line: bool = False, embedding: bool = True,
) -> None:  # fmt: skip
    """PR of the embedding (hollow) and of the blocks, with the fitted line or joined."""
    blocks = range(1, len(pr))
    style = "o" if line else "o-"
    axis.plot(blocks, pr[1:], style, color=color, ms=4, lw=1.2, mec="white", mew=0.5, label=label)
    if embedding:
        axis.plot([0], pr[:1], "o", color=color, ms=4, mfc="none")
    if line:
        axis.plot(blocks, figures.fitted(pr[1:]), "-", color=color, lw=1.2, alpha=0.7)


def finish_pr(axis: Axes, title: str = "") -> None:
    """Whole blocks on the axis, a title, and a legend where something has a name."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    figures.plain_axis(axis, title)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7, frameon=False, labelcolor=INK)


def label_pr(axes: Sequence[Sequence[Axes]]) -> None:
    figures.label_outside(axes, "block (0 is the embedding)", "prediction residual, 1 − R²")


def with_control(axis: Axes, row: Numbers, title: str) -> None:
    """One model with its line, and the untrained network beside it."""
    note = f"r = {with_interval(row, 'r')}\nρ = {with_interval(row, 'rho', 4)}"
    draw_pr(axis, row["pr"], line=True, label=note)
    control = row["control"]
    if control is not None:
        draw_pr(axis, control["pr"], color=SOFT, line=True, label=f"untrained, {short(control)}")
    finish_pr(axis, title)


def short(row: Numbers) -> str:
    """``r = +0.98``, with its sign."""
    return f"r = {'+' if row['r'] > 0 else ''}{fixed(row['r'], 2)}"
