"""Streaming second moments of features and targets, one sum per fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.statistics.feature_basis import FeatureBasis
from lawscope.statistics.symmetric_sums import SymmetricSums

Precision = Literal["float64", "fast"]
PRECISIONS: tuple[Precision, ...] = ("float64", "fast")
CONSTANT_TARGET = 1e-13


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
        self.zz = SymmetricSums(dim, folds, device)
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
        parts = [self.yz, self.yy, self.zz.diagonals()]
        return all(bool(part.isfinite().all()) for part in parts)

    def update(self, z: Tensor, y: Tensor, fold: int) -> None:
        """Add rows of one fold.

        Args:
            z: coordinates, shape (n, d); float64, or float32 for "fast" products.
            y: [1 | targets about their shift], shape (n, 1 + q), float64.
            fold: which the rows belong to.
        """
        self.zz.add(fold, z)
        # Few rows times many: several times faster than its transpose.
        self.yz[fold].add_(y.to(z.dtype).T @ z)
        self.yy[fold].addmm_(y.T, y)

    def merge(self, other: CoMoments) -> None:
        """Add sums gathered in the same coordinates."""
        self.zz.pairs += other.zz.pairs.to(self.yz.device)
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
            zz, zy, yy = self.zz.total(fold), self.zy[fold], self.yy[fold]
            if matrix is not None:
                zz, zy = matrix.T @ zz @ matrix, matrix.T @ zy
            first = torch.outer(zy[:, 0], c)
            result.zz.put(fold, zz + first + first.T + yy[0, 0] * torch.outer(c, c))
            result.yz[fold] = change.T @ (zy + torch.outer(c, yy[0])).T
            result.yy[fold] = change.T @ yy @ change
        return result

    def state_dict(self) -> dict[str, Tensor]:
        """The sums as tensors; symmetric matrices as :class:`SymmetricSums` keeps them."""
        return {"yz": self.yz, "yy": self.yy, "zz": self.zz.pairs}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over sums given by :meth:`state_dict` of moments of the same shape.

        Raises:
            LawscopeError: the symmetric matrices are kept in another way.
        """
        if "zz" not in state or state["zz"].shape != self.zz.pairs.shape:
            raise LawscopeError(
                "The moments were saved by another version of lawscope, which kept them in another "
                "way; start anew."
            )
        self.yz, self.yy = (state[name].to(self.yz).clone() for name in ("yz", "yy"))
        self.zz.pairs = state["zz"].to(self.yz).clone()


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
