"""Made-up results and reports of every shape the renderers have to cope with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from tests.populations import make_population

import lawscope as ls
from lawscope.laws.collapse.result import Collapse
from lawscope.laws.line import Replicates, fit_line, log_or_nan
from lawscope.laws.next_token.result import NextToken
from lawscope.laws.provenance import Provenance
from lawscope.laws.report import Report
from lawscope.laws.separation.result import Separation

NASTY = (
    "<script>alert(1)</script>",
    "</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><b>&amp;",
    "<!--",
)
FALLING = 12 * 0.45 ** np.arange(8) * np.array([1.1, 0.9, 1.05, 0.95, 1.08, 1.0, 0.93, 1.02])
PR = 0.96 * 0.985 ** np.arange(9) * np.array([1.02, 1, 1.002, 1, 0.999, 1.001, 1, 0.998, 1.01])


def make_separation(
    values: ArrayLike = FALLING,
    stations: Sequence[str] | None = None,
    class_names: Sequence[str] = ("apple", "pear", "plum"),
    interval: bool = True,
    control: bool = True,
    **changes: Any,
) -> Separation:
    """A result with the given D; classes spread around it, D̂ of the population is 5 % larger."""
    rng = np.random.default_rng(0)
    D = np.asarray(values, dtype=np.float64)
    L, K = len(D), len(class_names)
    stations = stations or ["input", *(f"layers.{index}" for index in range(L - 1))]
    weights = np.geomspace(0.4, 2.5, K)
    jitter = np.exp(0.1 * rng.standard_normal((L, K)))
    fit = fit_line(D)
    untrained = 12 * 1.04 ** np.arange(L)
    fields: dict[str, Any] = {
        "stations": tuple(stations),
        "layers": ("",) * L,
        "values": D,
        "classwise": D[:, None] * weights / weights.mean() * jitter,
        "classes": np.arange(K),
        "counts": np.full(K, 1000),
        "class_names": tuple(class_names),
        "dims": (100,) * L,
        "ranks": (K - 1,) * L,
        "fit": fit,
        "population": make_population(1.05 * D, 0.02, bias=1.05) if interval else None,
        "verdict": "holds",
        "reason": "r = -0.9980, at most -0.98",
        "advice": (
            "The law holds: each layer keeps about 45% of the fuzziness it is given.",
            "Layers after the seventh could be left out at little cost.",
        ),
        "granularity": "layers",
        "granularities": {"layers": fit, "blocks": fit},
        "settings": {
            "passes": 2,
            "strategy": ["held"] * L,
            "memory_bytes": 512_000_000,
            "pooling": {"kind": "mean"},
        },
        "warnings": ("The smallest class has 12 samples, so its D is biased low.",),
        "control": make_separation(untrained, stations, class_names, control=False)
        if control
        else None,
    }
    return Separation(**fields | changes)


@cache
def make_collapse(class_names: tuple[str, ...], rare: int = 2) -> Collapse:
    """A measured head whose last ``rare`` classes are few and share a classifier."""
    rng, K = np.random.default_rng(0), len(class_names)
    counts = np.array([60] * (K - rare) + [2] * rare)
    y = np.repeat(np.arange(K), counts)
    weights = np.eye(K) - 1 / K
    if rare:
        weights[K - rare :] = weights[K - rare :].mean(axis=0)
    head = torch.nn.Linear(K, K, dtype=torch.float64)
    head.weight.data.copy_(torch.tensor(weights))
    head.bias.data.zero_()
    features = torch.tensor(2 * weights[y] + 0.05 * rng.normal(size=(len(y), K)))
    return ls.collapse(head, (features, torch.tensor(y)), class_names=class_names)


def make_next_token(
    pr: ArrayLike = PR,
    blocks: Sequence[str] | None = None,
    interval: bool = True,
    control: bool = True,
    **changes: Any,
) -> NextToken:
    """A result with the given PR, the embedding first; the untrained control rises."""
    values = np.asarray(pr, dtype=np.float64)
    blocks = blocks or ["embedding", *(f"transformer.h.{i}" for i in range(len(values) - 1))]
    rng = np.random.default_rng(0)
    curves = log_or_nan(values[1:]) + 0.0005 * rng.standard_normal((5, len(values) - 1))
    replicates = Replicates(curves) if interval else None
    rising = 0.96 * 1.001 ** np.arange(len(values))
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
        "control": make_next_token(rising, blocks, control=False) if control else None,
    }
    return NextToken(**fields | changes)


def make_report(
    name: str = "an MLP on made-up data",
    collapse: Collapse | None = None,
    skipped: dict[str, str] | None = None,
    **changes: Any,
) -> Report:
    """A report on a classifier whose separation has ``changes`` in its fields."""
    results: dict[str, Any] = {"separation": make_separation(**changes)}
    if collapse is not None:
        results["collapse"] = collapse
    settings = {"batch_size": 256, "device": "cpu", "inputs": "pixels scaled to [−1, 1]"}
    return Report(
        name, results, skipped or {}, settings, Provenance("Net", versions={"torch": "2"})
    )
