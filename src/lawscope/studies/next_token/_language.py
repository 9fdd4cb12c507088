"""Small language models trained on the embedded text, and the law on them as JSON values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lawscope.studies.choice import quietly
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.study import Numbers
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from lawscope.laws.next_token_result import NextToken
    from lawscope.studies.lab import Lab

# One GPT for all studies: 6 blocks, d = 64, rotary positions, windows of 32 tokens. Its vocabulary
# is the first 512 tokens of the embedded byte pairs, in the order in which they were learned.
GPT: dict[str, Any] = {
    "text": "king-james-bible",
    "vocabulary": 512,
    "window": 32,
    "width": 64,
    "depth": 6,
    "batch": 16,
    "lr": 3e-3,
    "steps": 1000,
    "checkpoints": [0, 10, 30, 100, 300, 1000],
    "tokens": 60_000,
    "seeds": 3,
}
LARGER: dict[str, Any] = {
    **GPT,
    "vocabulary": 1024,
    "window": 256,
    "width": 256,
    "depth": 12,
    "batch": 32,
    "lr": 1e-3,
    "steps": 20_000,
    "checkpoints": [0, 10, 30, 100, 300, 1000, 3000, 10_000, 20_000],
    "tokens": 150_000,
}
TINY: dict[str, Any] = {
    **GPT,
    "vocabulary": 300,
    "window": 16,
    "width": 16,
    "depth": 4,
    "steps": 3,
    "checkpoints": [0, 1, 3],
    "tokens": 3200,
    "seeds": 1,
}
WEIGHT_DECAY = 0.1


def training_of(settings: Mapping[str, Any], seed: int = 0, **network: Any) -> Training:
    """The training of one language model; ``network`` overrides options of the builder.

    Without a ``style`` it is our GPT with rotary positions.
    """
    options = {
        "vocabulary": settings["vocabulary"],
        "width": settings["width"],
        "depth": settings["depth"],
        "context": settings["window"],
    }
    own = {"rotary": True, **network}
    return Training(
        Network.of("language", **{**options, **(network if "style" in network else own)}),
        Recipe("adamw", settings["lr"], settings["steps"], settings["batch"], WEIGHT_DECAY, seed),
        Data(
            f"text:{settings['text']}",
            size=settings["window"],
            vocabulary=settings["vocabulary"],
        ),
        seed,
        tuple(settings["checkpoints"]),
    )


def gpts(settings: Mapping[str, Any]) -> list[Training]:
    """The GPT of the settings, one for each seed."""
    return [training_of(settings, seed) for seed in range(settings["seeds"])]


def law_of(lab: Lab, training: Training, **how: Any) -> Numbers:
    """The law on one language model, with how it ended.

    Args:
        lab: where it is.
        training: its settings.
        how: settings of :meth:`~lawscope.studies.lab.Lab.next_token`.
    """
    lab.tell(f"measuring {training.describe()}")
    run = lab.run(training)
    ending = {"seed": training.seed, "loss": run.loss, "test_accuracy": run.test_accuracy}
    with quietly():
        found = lab.next_token(training, tokens=lab.settings["tokens"], **how)
    return {**ending, **numbers_of(found)}


def numbers_of(found: NextToken) -> Numbers:
    """A measurement as JSON values; lists begin with the embedding, residuals with block 1.

    Returns:
        PR in sample, cross-validated and one-hot; r, ρ and slope with their 95 % intervals; the
        residuals of the line; ``bend``, where the last blocks certainly leave it; and the same of
        the untrained ``control``, or None.
    """
    from lawscope.laws.line import log_or_nan
    from lawscope.laws.next_token_verdict import find_bend
    from lawscope.laws.separation_result import finite

    fit = found.fit
    bend = find_bend(log_or_nan(found.pr[1:]), found.replicates)
    numbers: Numbers = finite(
        {
            "pr": found.pr.tolist(),
            "pr_cv": found.pr_cv.tolist(),
            "pr_onehot": found.pr_onehot.tolist(),
            "r": fit.pearson,
            "rho": fit.rho,
            "slope": fit.slope,
            "interval": {
                short: list(fit.interval[name])
                for name, short in (("pearson", "r"), ("rho", "rho"), ("slope", "slope"))
                if name in fit.interval
            },
            "residuals": fit.residuals.tolist(),
            "bend": None
            if bend is None
            else {"blocks": bend.blocks, "share": bend.share, "interval": list(bend.interval)},
            "verdict": found.verdict,
            "reason": found.reason,
            "n": found.n,
            "d": found.d,
        }
    )
    return {**numbers, "control": None if found.control is None else numbers_of(found.control)}


def each(rows: Sequence[Numbers], name: str) -> list[Any]:
    """One number of every row.

    Example:
        >>> each([{"r": -0.9}, {"r": -0.8}], "r")
        [-0.9, -0.8]
    """
    return [row[name] for row in rows]


def slope_of(pr: Sequence[float]) -> float:
    """Slope of log PR against the block.

    Example:
        >>> round(slope_of([0.8, 0.4, 0.2]), 12) == round(-math.log(2), 12)
        True
    """
    logs = [math.log(value) for value in pr]
    middle = (len(logs) - 1) / 2
    spread = math.fsum((i - middle) ** 2 for i in range(len(logs)))
    return math.fsum((i - middle) * log for i, log in enumerate(logs)) / spread


def certain(sign: int) -> Callable[[Sequence[Sequence[float]]], bool]:
    """A predicate on intervals of slopes: every one lies on one side of zero.

    Example:
        >>> certain(-1)([[-0.2, -0.1], [-0.3, -0.2]]), certain(-1)([[-0.2, 0.1]]), certain(1)([])
        (True, False, False)
    """
    return lambda ends: bool(ends) and all(sign * end > 0 for pair in ends for end in pair)
