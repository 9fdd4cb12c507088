"""``ls.fuzziness`` against the definition with a d×d pseudo-inverse.

Single calls in turns: each side finds the caches as the other left them, which costs short calls
about as much again. A note gives the ratio of calls in a row.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

import lawscope as ls
from benchmarks.row import Row, at_least, interleaved

SAMPLES, CLASSES = 1000, 10
# Number of features, bar, repeats.
CASES = [(100, 4.0, 101), (1000, 50.0, 9), (4096, 1000.0, 1)]
AGREEMENT = 1e-9
CACHES_MATTER = 1e-3


def by_definition(x: Tensor, y: Tensor) -> float:
    """Tr(SSw SSb⁺) with both matrices written out, float64."""
    n, d = x.shape
    centre = x.mean(dim=0)
    between, within = x.new_zeros(d, d), x.new_zeros(d, d)
    for k in range(CLASSES):
        mine = x[y == k]
        mean = mine.mean(dim=0)
        between += len(mine) / n * torch.outer(mean - centre, mean - centre)
        within += (mine - mean).T @ (mine - mean) / n
    return float(torch.trace(within @ torch.linalg.pinv(between)))


def per_call(action: Callable[[], object], calls: int = 10, repeats: int = 30) -> float:
    """Seconds of one call among several in a row, the fastest of several tries."""
    return min(timeit.repeat(action, number=calls, repeat=repeats)) / calls


def rows() -> Iterator[Row]:
    """One row per number of features; a disagreement does not hold, however fast."""
    y = torch.arange(SAMPLES) % CLASSES
    generator = torch.Generator().manual_seed(0)
    for dim, bar, repeats in CASES:
        centres = torch.randn(CLASSES, dim, generator=generator, dtype=torch.float64)
        x = torch.randn(SAMPLES, dim, generator=generator, dtype=torch.float64) + centres[y]
        values: dict[str, float] = {}

        def ours(x: Tensor = x, values: dict = values) -> None:
            values["ours"] = ls.fuzziness(x, y)

        def theirs(x: Tensor = x, values: dict = values) -> None:
            values["theirs"] = by_definition(x, y)

        ours()
        fast, slow = interleaved(ours, theirs, repeats)
        row = at_least(
            f"fuzziness, d = {dim}, n = 1000, K = 10", fast, "definition with pinv", slow, bar
        )
        if fast < CACHES_MATTER:
            in_a_row = per_call(theirs) / per_call(ours)
            row = replace(row, note=f"{in_a_row:.1f} where each side is called in a row")
        apart = abs(values["ours"] / values["theirs"] - 1)
        if apart > AGREEMENT:
            print(f"d = {dim}: the values disagree by {apart:.1e}")
            row = replace(row, holds=False)
        yield row
