"""Made-up reports of every shape the page and the terminal have to cope with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

import lawscope as ls
from lawscope.laws.collapse_result import Collapse
from lawscope.laws.line import fit_line, log_or_nan
from lawscope.laws.report import Report
from lawscope.laws.separation_result import Separation
from lawscope.laws.uncertainty import Replicates

FALLING = 12 * 0.45 ** np.arange(8) * np.array([1.1, 0.9, 1.05, 0.95, 1.08, 1.0, 0.93, 1.02])


def make_separation(
    values: ArrayLike,
    stations: Sequence[str],
    class_names: Sequence[str],
    interval: bool,
    **changes: Any,
) -> Separation:
    """A result with the given D; classes spread around it, jackknife folds jitter it."""
    rng = np.random.default_rng(0)
    D = np.asarray(values, dtype=np.float64)
    L, K = len(D), len(class_names)
    weights = np.geomspace(0.4, 2.5, K)
    jitter = np.exp(0.1 * rng.standard_normal((L, K)))
    curves = log_or_nan(D) + 0.002 * rng.standard_normal((20, L))
    fit = fit_line(D, Replicates(curves, "jackknife") if interval else None)
    fields: dict[str, Any] = {
        "stations": tuple(stations),
        "values": D,
        "interval": np.stack([0.92 * D, 1.07 * D], axis=1) if interval else None,
        "classwise": D[:, None] * weights / weights.mean() * jitter,
        "classes": np.arange(K),
        "counts": np.full(K, 1000),
        "class_names": tuple(class_names),
        "dims": (100,) * L,
        "ranks": (K - 1,) * L,
        "fit": fit,
        "verdict": "holds",
        "reason": "r = −0.998 is below −0.97 with its whole interval.",
        "advice": (
            "The law holds: each layer keeps about 45 % of the fuzziness it is given.",
            "Layers after the seventh could be left out at little cost.",
        ),
        "granularity": "layers",
        "granularities": {"layers": fit, "blocks": fit},
        "settings": {"passes": 2, "weighting": "proportional", "pooling": {"kind": "mean"}},
        "warnings": ("The smallest class has 12 samples, so its D is biased low.",),
    }
    return Separation(**fields | changes)


def make_collapse(class_names: Sequence[str], rare: int = 2) -> Collapse:
    """A measured head whose last ``rare`` classes are few and share a classifier."""
    return _measured(tuple(class_names), rare)


@cache
def _measured(class_names: tuple[str, ...], rare: int) -> Collapse:
    rng, K = np.random.default_rng(0), len(class_names)
    counts = np.array([60] * (K - rare) + [2] * rare)
    y = np.repeat(np.arange(K), counts)
    weights = np.eye(K) - 1 / K
    weights[K - rare :] = weights[K - rare :].mean(axis=0)
    head = torch.nn.Linear(K, K, dtype=torch.float64)
    head.weight.data.copy_(torch.tensor(weights))
    head.bias.data.zero_()
    features = torch.tensor(2 * weights[y] + 0.05 * rng.normal(size=(len(y), K)))
    return ls.collapse(head, (features, torch.tensor(y)), class_names=class_names)


def make_report(
    name: str = "an MLP on made-up data",
    values: ArrayLike = FALLING,
    stations: Sequence[str] | None = None,
    class_names: Sequence[str] = ("apple", "pear", "plum"),
    control: bool = True,
    interval: bool = True,
    collapse: Collapse | None = None,
    skipped: dict[str, str] | None = None,
    **changes: Any,
) -> Report:
    """A report whose separation has ``changes`` in its fields; the untrained control is flat."""
    length = len(np.asarray(values))
    named = stations or ["input", *(f"layers.{index}" for index in range(length - 1))]
    flat = 12 * 1.04 ** np.arange(length)
    return Report(
        name=name,
        separation=make_separation(values, named, class_names, interval, **changes),
        control=make_separation(flat, named, class_names, interval) if control else None,
        collapse=collapse,
        skipped=skipped or {},
        settings={"batch_size": 256, "device": "cpu"},
        versions={"lawscope": "0.1.0", "torch": "2.6.0"},
    )
