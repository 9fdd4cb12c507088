"""Streaming second moments of features and targets, one sum per fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.statistics.feature_basis import FeatureBasis

Precision = Literal["float64", "fast"]
PRECISIONS: tuple[Precision, ...] = ("float64", "fast")
BLOCK_COLUMNS = 96  # of the triangle: whole strips of vector registers, in either precision
MOST_BLOCKS = 4  # narrower products run below the speed of wide ones
CONSTANT_TARGET = 1e-13


def triangle(dim: int) -> list[slice]:
    """Column blocks of the upper triangle of a d×d matrix; four of them hold 63 % of it.

    All are equally wide but the first, which has the fewest rows and takes what is left over.
    """
    width = BLOCK_COLUMNS * -(-dim // (BLOCK_COLUMNS * MOST_BLOCKS))
    ends = range((dim - 1) % width + 1, dim + 1, width)
    return [slice(max(0, end - width), end) for end in ends]


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
        self.columns = triangle(dim)
        self._zz = [
            [_zeros(device, b.stop, b.stop - b.start) for b in self.columns] for _ in range(folds)
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
        squares = [
            sums[block].diagonal()
            for fold in self._zz
            for block, sums in zip(self.columns, fold, strict=True)
        ]
        parts = [self.yz, self.yy, *squares]
        return all(bool(part.isfinite().all()) for part in parts)

    def update(self, z: Tensor, y: Tensor, fold: int) -> None:
        """Add rows of one fold.

        Args:
            z: coordinates, shape (n, d); float64, or float32 for "fast" products.
            y: [1 | targets about their shift], shape (n, 1 + q), float64.
            fold: which the rows belong to.
        """
        for block, sums in zip(self.columns, self._zz[fold], strict=True):
            left, right = z[:, : block.stop].T, z[:, block]
            if z.dtype == torch.float64:
                sums.addmm_(left, right)
            else:
                sums += left @ right
        # Few rows times many: several times faster than its transpose.
        self.yz[fold].add_(y.to(z.dtype).T @ z)
        self.yy[fold].addmm_(y.T, y)

    def zz(self, *folds: int) -> Tensor:
        """Σ zzᵀ over some folds, or over all, as a whole symmetric matrix of shape (d, d)."""
        full = torch.empty(self.dim, self.dim, dtype=torch.float64, device=self.yz.device)
        first, *rest = [self._zz[fold] for fold in folds] or self._zz
        for i, block in enumerate(self.columns):
            upper = full[: block.stop, block]
            upper.copy_(first[i])
            for fold in rest:
                upper += fold[i]
            full[block, : block.start] = upper[: block.start].T
        return full

    def less(self, total: Tensor, fold: int) -> Tensor:
        """A matrix (d, d) minus Σ zzᵀ of a fold, in fresh memory and its own precision.

        Only the upper triangle is set: to mirror it would take as long as to subtract.
        """
        rest = torch.empty_like(total)
        for block, sums in zip(self.columns, self._zz[fold], strict=True):
            upper = slice(block.stop), block
            torch.sub(total[upper], sums.to(rest.dtype), out=rest[upper])
        return rest

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
        for i in range(len(self.columns)):
            state[f"zz{i}"] = torch.stack([fold[i] for fold in self._zz])
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over sums given by :meth:`state_dict` of moments of the same shape.

        Raises:
            LawscopeError: the triangle is in other blocks.
        """
        ours = [(self.folds, *sums.shape) for sums in self._zz[0]]
        theirs = [tuple(state[name].shape) for name in sorted(state) if name.startswith("zz")]
        if sorted(ours) != sorted(theirs):
            raise LawscopeError(
                "The moments were saved by another version of lawscope, which kept them in other "
                "blocks; start anew."
            )
        self.yz, self.yy = (state[name].to(self.yz).clone() for name in ("yz", "yy"))
        for i in range(len(self.columns)):
            for fold, block in zip(self._zz, state[f"zz{i}"], strict=True):
                fold[i] = block.to(self.yz).clone()

    def _put(self, fold: int, full: Tensor) -> None:
        for block, sums in zip(self.columns, self._zz[fold], strict=True):
            sums.copy_(full[: block.stop, block])


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
