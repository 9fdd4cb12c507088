"""Made-up results and reports of every shape the renderers have to cope with."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

import lawscope as ls
from lawscope.arrays import FloatArray
from lawscope.laws.collapse.result import Collapse
from lawscope.laws.line import Replicates, fit_line, log_or_nan
from lawscope.laws.next_token.result import NextToken
from lawscope.laws.population import Population
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


def make_population(values: FloatArray, open_: int = 0) -> Population:
    """An estimate a little above the values."""
    estimate, jitter = 1.02 * values, np.random.default_rng(1).standard_normal((8, len(values)))
    ends = np.stack([0.92 * values, 1.07 * values], axis=1)
    ends[:open_, 1] = np.inf
    fit = fit_line(np.where(np.isinf(ends[:, 1]), np.nan, estimate))
    known = {"slope": (-0.85, -0.75), "pearson": (-0.999, -0.99)}
    known |= {"rho": (0.43, 0.47), "half_life": (0.82, 0.92)}
    one_sided = {"slope": (-np.inf, -0.4), "pearson": (-1.0, -0.6)}
    one_sided |= {"rho": (0.0, 0.67), "half_life": (0.0, 1.73)}
    return Population(
        values=estimate,
        interval=ends,
        settled=np.isfinite(ends[:, 1]),
        fit=dataclasses.replace(fit, interval=one_sided if open_ else known),
        shares=np.tile([0.0, 0.1], (len(values), 1)),
        influence=0.002 * jitter,
        needed=2000 if open_ else None,
        verdict="cannot be told" if open_ else "holds",
        reason="r is at most -0.6, which does not settle it" if open_ else "r is at most -0.99",
    )


def make_separation(
    values: ArrayLike = FALLING,
    stations: Sequence[str] | None = None,
    class_names: Sequence[str] = ("apple", "pear", "plum"),
    interval: bool = True,
    control: bool = True,
    open_: int = 0,
    **changes: Any,
) -> Separation:
    """A result with the given D, of which the first ``open_`` have no upper end."""
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
        "verdict": "holds",
        "reason": "r = -0.998 is below -0.97 with its whole interval",
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
        "population": make_population(D, open_) if interval else None,
        "accuracy": 0.973,
        "control": make_separation(untrained, stations, class_names, control=False, accuracy=0.34)
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
