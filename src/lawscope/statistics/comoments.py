"""Streaming second moments of features and targets, one sum per fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lawscope.statistics.feature_basis import FeatureBasis

Precision = Literal["float64", "fast"]
PRECISIONS: tuple[Precision, ...] = ("float64", "fast")
BLOCK_COLUMNS = 128  # of the triangle; narrower products run below the speed of wide ones
MOST_BLOCKS = 6
CONSTANT_TARGET = 1e-13


def triangle(dim: int) -> list[slice]:
    """Row blocks of the upper triangle of a d×d matrix; six of them hold 58 % of it."""
    count = max(1, min(MOST_BLOCKS, dim // BLOCK_COLUMNS))
    ends = [round(dim * (i + 1) / count) for i in range(count)]
    return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


class CoMoments:
    """Σ zzᵀ, Σ [1|y]zᵀ and Σ [1|y][1|y]ᵀ of every fold, in float64.

    Coordinates z are features about a shift (see :class:`FeatureBasis`) and targets y are about a
    shift of their own, so that the large means of activations and token ids do not eat digits.
    "All data" is the sum over folds, "without fold f" that sum less one fold.

    Args:
        dim: number of features d.
        targets: number of targets q.
        folds: number of folds F.
        device: where the sums live.
    """

    def __init__(
        self, dim: int, targets: int, folds: int, device: torch.device | str = "cpu"
    ) -> None:
        self.dim, self.folds = dim, folds
        self.rows = triangle(dim)
        self._zz = [
            [_zeros(device, b.stop - b.start, dim - b.start) for b in self.rows]
            for _ in range(folds)
        ]
        self.yz = _zeros(device, folds, 1 + targets, dim)
        self.yy = _zeros(device, folds, 1 + targets, 1 + targets)

    @property
    def zy(self) -> Tensor:
        """Σ z[1|y]ᵀ per fold, shape (F, d, 1 + q)."""
        return self.yz.transpose(1, 2)

    @property
    def counts(self) -> Tensor:
        """Rows seen per fold, shape (F,)."""
        return self.yy[:, 0, 0]

    @property
    def finite(self) -> bool:
        """Whether all rows were finite numbers, and their squares: the diagonal shows it."""
        squares = [block.diagonal() for fold in self._zz for block in fold]
        parts = [self.yz, self.yy, *squares]
        return all(bool(part.isfinite().all()) for part in parts)

    def update(self, z: Tensor, y: Tensor, sizes: Sequence[int]) -> None:
        """Add rows that are sorted by fold.

        Args:
            z: coordinates, shape (n, d); float64, or float32 for "fast" products.
            y: [1 | targets about their shift], shape (n, 1 + q), float64.
            sizes: how many of the rows belong to each fold.
        """
        start = 0
        for fold, size in enumerate(sizes):
            if size:
                part, targets = z[start : start + size], y[start : start + size]
                self._products(part, fold)
                # Few rows times many: several times faster than its transpose.
                self.yz[fold].add_(targets.to(part.dtype).T @ part)
                self.yy[fold].addmm_(targets.T, targets)
            start += size

    def _products(self, part: Tensor, fold: int) -> None:
        for rows, sums in zip(self.rows, self._zz[fold], strict=True):
            left, right = part[:, rows].T, part[:, rows.start :]
            if part.dtype == torch.float64:
                sums.addmm_(left, right)
            else:
                sums += left @ right

    def zz(self, *folds: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Σ zzᵀ over some folds, or over all, as a whole symmetric matrix of shape (d, d)."""
        full = torch.empty(self.dim, self.dim, dtype=dtype, device=self.yz.device)
        first, *rest = [self._zz[fold] for fold in folds] or self._zz
        for i, rows in enumerate(self.rows):
            upper = full[rows, rows.start :]
            upper.copy_(first[i])
            for fold in rest:
                upper += fold[i]
            full[rows.stop :, rows] = upper[:, rows.stop - rows.start :].T
        return full

    def merge(self, other: CoMoments) -> None:
        """Add sums gathered in the same coordinates."""
        for ours, theirs in zip(self._zz, other._zz, strict=True):
            for mine, block in zip(ours, theirs, strict=True):
                mine += block.to(mine.device)
        self.yz += other.yz.to(self.yz.device)
        self.yy += other.yy.to(self.yy.device)

    def moved(
        self, before: FeatureBasis, after: FeatureBasis, y_before: Tensor, y_after: Tensor
    ) -> CoMoments:
        """The same sums in other coordinates: [1|z'] = [1|z]·[[1, c], [0, A]], y' = y + e."""
        matrix, c = before.onto(after)
        e = (y_before - y_after.to(y_before)).to(self.yz)
        result = CoMoments(self.dim, self.yz.shape[1] - 1, self.folds, self.yz.device)
        change = torch.eye(len(e) + 1, device="cpu").to(self.yz)
        change[0, 1:] = e
        for fold in range(self.folds):
            zz, zy, yy = self.zz(fold), self.zy[fold], self.yy[fold]
            if matrix is not None:
                zz, zy = matrix.T @ zz @ matrix, matrix.T @ zy
            first = torch.outer(zy[:, 0], c)
            result._put(fold, zz + first + first.T + yy[0, 0] * torch.outer(c, c))
            result.yz[fold] = change.T @ (zy + torch.outer(c, yy[0])).T
            result.yy[fold] = change.T @ yy @ change
        return result

    def state_dict(self) -> dict[str, Tensor]:
        """The sums as tensors; of symmetric matrices the upper triangle in blocks."""
        state = {"yz": self.yz, "yy": self.yy}
        for i in range(len(self.rows)):
            state[f"zz{i}"] = torch.stack([fold[i] for fold in self._zz])
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over sums given by :meth:`state_dict` of moments of the same shape."""
        self.yz, self.yy = (state[name].to(self.yz).clone() for name in ("yz", "yy"))
        for i in range(len(self.rows)):
            for fold, block in zip(self._zz, state[f"zz{i}"], strict=True):
                fold[i] = block.to(self.yz).clone()

    def _put(self, fold: int, full: Tensor) -> None:
        for rows, sums in zip(self.rows, self._zz[fold], strict=True):
            sums.copy_(full[rows, rows.start :])


@dataclass(frozen=True, eq=False)
class Centred:
    """Moments of n rows about their means z̄ and ȳ: Σ(z−z̄)(y−ȳ)ᵀ and Σ(y−ȳ)²."""

    n: float
    mean: Tensor
    target_mean: Tensor
    zy: Tensor
    spread: Tensor


def centred(zy: Tensor, yy: Tensor) -> Centred:
    """Take the means off Σ z[1|y]ᵀ (d, 1 + q) and Σ [1|y][1|y]ᵀ."""
    n = float(yy[0, 0])
    mean, target_mean = zy[:, 0] / n, yy[0, 1:] / n
    square = yy.diagonal()[1:]
    spread = square - n * target_mean.square()
    return Centred(
        n,
        mean,
        target_mean,
        zy[:, 1:] - n * torch.outer(mean, target_mean),
        # The rest of a difference of equals is rounding: that target never changes.
        torch.where(spread > CONSTANT_TARGET * square, spread, 0.0),
    )


def _zeros(device: torch.device | str, *shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64, device=device)
