"""Second moments of rows, or of two streams of rows side by side, streamed fold by fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.statistics.base import Statistic, guarded
from lawscope.statistics.unit_moments import multiply_by_itself


@dataclass(frozen=True, eq=False)
class FoldedMoments:
    """Sums over the rows x, and over their partners y, of every fold, in float64.

    Of a stream alone x and y are the same.
    """

    counts: Tensor  # shape (F,)
    mean: Tensor  # of x, shape (F, p)
    other: Tensor  # mean of y, shape (F, q)
    scatter: Tensor  # Σ (x − x̄)(y − ȳ)ᵀ, shape (F, p, q)

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def moment(self, centred: bool, without: int | None = None) -> Tensor:
        """Return E[x yᵀ], or the covariance, of all folds or of all but one, shape (p, q)."""
        kept = torch.ones(len(self.counts), dtype=torch.bool, device="cpu")
        if without is not None:
            kept[without] = False
        counts = self.counts[kept]
        n = float(counts.sum())
        if not n:
            return torch.full_like(self.scatter[0], torch.nan)
        x, y = self.mean[kept], self.other[kept]
        if centred:  # the means of folds scatter about the mean of all
            x, y = x - counts @ x / n, y - counts @ y / n
        between = (counts[:, None] * x).T @ y
        # A product with zeros and ones, since selecting folds would copy them.
        within: Tensor = torch.tensordot(kept.to(self.scatter), self.scatter, dims=1)
        return within.add_(between).div_(n)


class FoldMoments(Statistic):
    """Counts, means and co-moments of rows x (n, p) and y (n, q), for each of F folds.

    Without ``other`` y is x. Every call is centred about its own means and multiplied in the
    precision of the rows, at least float32; calls are merged in float64 (Chan, Golub & LeVeque
    1983).
    """

    def __init__(self, dim: int, folds: int, other: int | None = None) -> None:
        self.dim, self.folds, self.other_dim = dim, folds, other
        self.counts: Tensor
        self.mean: Tensor
        self.other: Tensor
        self.scatter: Tensor
        self.reset()

    @property
    def settings(self) -> dict[str, str | int | float | bool]:
        return {"dim": self.dim, "folds": self.folds, "other": self.other_dim or "itself"}

    @guarded
    def update(self, x: Tensor, folds: Tensor, y: Tensor | None = None) -> None:
        """Add rows x (n, p) with their folds (n,), and the partner y (n, q) of each."""
        shapes = [None if t is None else tuple(t.shape) for t in (x, y)]
        expected = [(len(folds), d) for d in (self.dim, self.other_dim) if d is not None]
        if [shape for shape in shapes if shape is not None] != expected:
            raise LawscopeError(f"Rows of shapes {shapes} are not {expected}.")
        wide = torch.promote_types(x.dtype, torch.float32)
        x, y = x.to(wide), None if y is None else y.to(wide)
        folds = folds.to(x.device)
        for fold in folds.unique().tolist():
            rows = folds == fold
            self._add_rows(int(fold), x[rows], None if y is None else y[rows])

    @guarded
    def compute(self) -> FoldedMoments:
        """Return the sums of every fold."""
        copies = (t.clone() for t in (self.counts, self.mean, self.other, self.scatter))
        return FoldedMoments(*copies)

    @guarded
    def scale(self, factor: float) -> None:
        """Let the rows x seen so far count for factor·x."""
        self.mean *= factor
        self.scatter *= factor
        if self.other_dim is None:
            self.other *= factor
            self.scatter *= factor

    @property
    def finite(self) -> bool:
        """Whether all values were finite numbers, and their products."""
        return all(bool(t.isfinite().all()) for t in (self.mean, self.other, self.scatter))

    def _add_rows(self, fold: int, x: Tensor, y: Tensor | None) -> None:
        mean = x.mean(dim=0)
        x = x - mean
        if y is None:
            self._add(fold, len(x), mean, mean, multiply_by_itself(x.T))
        else:
            other = y.mean(dim=0)
            self._add(fold, len(x), mean, other, x.T @ (y - other))

    def _add(self, fold: int, n: float, mean: Tensor, other: Tensor, scatter: Tensor) -> None:
        before = float(self.counts[fold])
        total = before + n
        x, y = mean.to(self.mean) - self.mean[fold], other.to(self.other) - self.other[fold]
        self.scatter[fold] += scatter.to(self.scatter)
        self.scatter[fold].addr_(x, y, alpha=before * n / total)
        self.mean[fold] += x * (n / total)
        self.other[fold] += y * (n / total)
        self.counts[fold] = total

    def _start(self) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(self.folds, *shape, dtype=torch.float64, device="cpu")

        other = self.dim if self.other_dim is None else self.other_dim
        self.counts, self.mean, self.other = zeros(), zeros(self.dim), zeros(other)
        self.scatter = zeros(self.dim, other)

    def _merge(self, other: Self) -> None:
        parts = zip(other.counts.tolist(), other.mean, other.other, other.scatter, strict=True)
        for fold, (n, *sums) in enumerate(parts):
            if n:
                self._add(fold, n, *sums)

    def _state(self) -> dict[str, Tensor]:
        names = ("counts", "mean", "other", "scatter")
        return {name: getattr(self, name) for name in names}

    def _load(self, state: Mapping[str, Tensor]) -> None:
        for name, sums in self._state().items():
            sums.copy_(state[name])
