"""Made-up reports on language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lawscope.laws.language_report import LanguageReport
from lawscope.laws.line import fit_line, log_or_nan
from lawscope.laws.next_token_result import NextToken
from lawscope.laws.uncertainty import Replicates

FALLING = 0.96 * 0.985 ** np.arange(9) * np.array([1.02, 1, 1.002, 1, 0.999, 1.001, 1, 0.998, 1.01])


def make_result(
    pr: ArrayLike, blocks: Sequence[str], interval: bool = True, **changes: Any
) -> NextToken:
    """A result with the given PR, the embedding first."""
    values = np.asarray(pr, dtype=np.float64)
    rng = np.random.default_rng(0)
    curves = log_or_nan(values[1:]) + 0.0005 * rng.standard_normal((5, len(values) - 1))
    replicates = Replicates(curves, "jackknife") if interval else None
    fields: dict[str, Any] = {
        "blocks": tuple(blocks),
        "target": "next",
        "pr": values,
        "pr_adjusted": values * 1.01,
        "pr_cv": values * 1.02,
        "pr_onehot": 0.5 + values / 2,
        "onehot_error": np.zeros(len(values)),
        "rank": np.full(len(values), 63),
        "condition": np.full(len(values), 12.3),
        "n": 12_800,
        "d": 64,
        "fit": fit_line(values[1:], replicates),
        "verdict": "holds",
        "reason": "r = −0.998 is below −0.9 with its whole interval.",
        "advice": ("The law holds: each block keeps about 98.5 % of PR.", "Second advice."),
        "final_norm": "LayerNorm",
        "settings": {"task": "causal", "folds": 5},
        "warnings": ("12800 tokens are few.",),
        "replicates": replicates,
    }
    return NextToken(**fields | changes)


def make_language_report(
    name: str = "a small GPT",
    pr: ArrayLike = FALLING,
    blocks: Sequence[str] | None = None,
    control: bool = True,
    interval: bool = True,
    **changes: Any,
) -> LanguageReport:
    """A report whose untrained control rises."""
    length = len(np.asarray(pr))
    named = blocks or ["embedding", *(f"transformer.h.{i}" for i in range(length - 1))]
    rising = 0.96 * 1.001 ** np.arange(length)
    untrained = make_result(rising, named, interval) if control else None
    law = make_result(pr, named, interval, control=untrained, **changes)
    settings = {"text": ["corpus.txt"], "window": 512}
    return LanguageReport(name, law, settings, {"lawscope": "0.1.0"})
