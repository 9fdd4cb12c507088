"""Mean and covariance of the units of a layer, streamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.statistics.base import Statistic, guarded

CHUNK_NUMBERS = 2**20  # that are centred and multiplied while they are in the processor's cache

BLOCK = 32  # rows from which a product pays to be cut in blocks


@dataclass(frozen=True, eq=False)
class UnitSpread:
    """What the units of a layer did over all rows, in float64."""

    n: int
    mean: Tensor  # of every unit, shape (d,)
    variance: Tensor  # shape (d,)
    chosen: Tensor  # units whose covariance was measured, shape (m,)
    covariance: Tensor  # of these, shape (m, m)


class UnitMoments(Statistic):
    """Mean and variance of d units, covariance of at most ``most`` of them, evenly spaced.

    Each chunk is centred about its own mean and multiplied in the precision of the activations, at
    least float32; chunks are merged in float64 (Chan, Golub & LeVeque 1983).
    """

    def __init__(self, dim: int, most: int) -> None:
        self.dim, self.most = dim, most
        self.chosen = torch.linspace(0, dim - 1, min(dim, most), device="cpu").round().long()
        self.n: int
        self.mean: Tensor
        self.squares: Tensor
        self.scatter: Tensor
        self.reset()

    @property
    def settings(self) -> dict[str, str | int | float | bool]:
        return {"dim": self.dim, "most": self.most}

    @guarded
    def update(self, x: Tensor) -> None:
        """Add rows (n, d), or maps (n, d, positions) with a row for each position."""
        if x.dim() not in (2, 3) or x.shape[1] != self.dim:
            raise LawscopeError(
                f"Activations of shape {tuple(x.shape)} are not (n, {self.dim}) or (n, {self.dim}, "
                "positions)."
            )
        maps = x if x.dim() == 3 else x[:, :, None]
        if not maps.numel():
            return
        wide = torch.promote_types(x.dtype, torch.float32)
        for chunk in maps.split(max(1, CHUNK_NUMBERS // maps[0].numel())):
            units = chunk.transpose(0, 1).reshape(self.dim, -1).to(wide)
            mean = units.mean(dim=1)
            units = units - mean[:, None]
            if len(self.chosen) == self.dim:
                scatter = multiply_by_itself(units)
                squares = scatter.diagonal()
            else:
                some = units[self.chosen.to(x.device)]
                scatter, squares = multiply_by_itself(some), units.square().sum(dim=1)
            self._add(units.shape[1], mean, squares, scatter)

    @guarded
    def compute(self) -> UnitSpread:
        """Return what the units did.

        Raises:
            LawscopeError: no rows were seen.
        """
        if not self.n:
            raise LawscopeError("No rows were seen; update() comes first.")
        variance, covariance = self.squares / self.n, self.scatter / self.n
        return UnitSpread(self.n, self.mean, variance, self.chosen, covariance)

    @property
    def finite(self) -> bool:
        """Whether all values were finite numbers, and their squares."""
        return bool(self.mean.isfinite().all() and self.squares.isfinite().all())

    def _add(self, n: int, mean: Tensor, squares: Tensor, scatter: Tensor) -> None:
        total = self.n + n
        moved = mean.to(self.mean) - self.mean
        share = self.n * n / total
        some = moved[self.chosen]
        self.scatter += scatter.to(self.scatter) + share * some.outer(some)
        self.squares += squares.to(self.squares) + share * moved.square()
        self.mean += moved * (n / total)
        self.n = total

    def _start(self) -> None:
        width = len(self.chosen)
        self.n = 0
        self.mean = torch.zeros(self.dim, dtype=torch.float64, device="cpu")
        self.squares = torch.zeros_like(self.mean)
        self.scatter = torch.zeros(width, width, dtype=torch.float64, device="cpu")

    def _merge(self, other: Self) -> None:
        if other.n:
            self._add(other.n, other.mean, other.squares, other.scatter)

    def _state(self) -> dict[str, Tensor]:
        sums = {"mean": self.mean, "squares": self.squares, "scatter": self.scatter}
        return {"n": torch.tensor(self.n, device="cpu"), **sums}

    def _load(self, state: Mapping[str, Tensor]) -> None:
        for name in ("mean", "squares", "scatter"):
            getattr(self, name).copy_(state[name])
        self.n = int(state["n"])


def multiply_by_itself(a: Tensor) -> Tensor:
    """Return A·Aᵀ, computing what lies on one side of the diagonal only, in blocks."""
    if len(a) <= BLOCK:
        return a @ a.T
    half = len(a) // 2
    upper, lower = a[:half], a[half:]
    product = a.new_empty(len(a), len(a))
    product[:half, :half], product[half:, half:] = map(multiply_by_itself, (upper, lower))
    product[:half, half:] = upper @ lower.T
    product[half:, :half] = product[:half, half:].T
    return product
