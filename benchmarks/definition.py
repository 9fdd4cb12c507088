"""``ls.fuzziness`` against the definition with a d×d pseudo-inverse."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

import lawscope as ls
from benchmarks.row import Row, at_least, interleaved

SAMPLES, CLASSES = 1000, 10
CASES = [(100, 10.0, 101), (1000, 100.0, 9), (4096, 1000.0, 1)]
AGREEMENT = 1e-9


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
        apart = abs(values["ours"] / values["theirs"] - 1)
        if apart > AGREEMENT:
            print(f"d = {dim}: the values disagree by {apart:.1e}")
            row = Row(**{**vars(row), "holds": False})
        yield row
