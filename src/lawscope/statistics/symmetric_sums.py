"""Sums of symmetric matrices, two to a rectangle."""

from __future__ import annotations

import torch
from torch import Tensor

from lawscope.statistics.symmetric_blas import add_gram

BLOCK = 96  # rows that are mirrored at a time


class SymmetricSums:
    """Σ xxᵀ of several folds, in float64 and half the memory of whole matrices.

    Of a symmetric matrix one triangle says all. Two share a rectangle d×(d + 1): the upper triangle
    of one stands in its last d columns, the lower triangle of the next in its first d, and they
    meet nowhere.

    Args:
        dim: d.
        folds: number of sums F.
        device: where they live.

    Attributes:
        pairs: the rectangles, shape (⌈F/2⌉, d, d + 1).

    Example:
        >>> sums = SymmetricSums(dim=2, folds=2)
        >>> sums.add(0, torch.tensor([[1.0, 2.0]]))
        >>> sums.add(1, torch.tensor([[3.0, 4.0]]))
        >>> sums.pairs
        tensor([[[ 9.,  1.,  2.],
                 [12., 16.,  4.]]], dtype=torch.float64)
        >>> sums.total(1)
        tensor([[ 9., 12.],
                [12., 16.]], dtype=torch.float64)
    """

    def __init__(self, dim: int, folds: int, device: torch.device | str = "cpu") -> None:
        self.dim, self.folds = dim, folds
        shape = -(-folds // 2), dim, dim + 1
        self.pairs = torch.zeros(shape, dtype=torch.float64, device=device)

    def add(self, fold: int, rows: Tensor) -> None:
        """Add XᵀX of rows (n, d); multiplied in their own precision, float64 or float32."""
        matrix, lower = self._place(fold)
        if rows.dtype == torch.float64:
            add_gram(matrix, rows, lower=lower)
        else:
            product = rows.new_zeros(self.dim, self.dim)  # zeros do no harm to the other triangle
            add_gram(product, rows, lower=lower)
            matrix += product

    def diagonals(self) -> Tensor:
        """Σ x² of every fold, shape (F, d)."""
        return torch.stack([self._place(fold)[0].diagonal() for fold in range(self.folds)])

    def total(self, *folds: int) -> Tensor:
        """The sum over some folds, or over all, as a whole matrix (d, d)."""
        if not folds:
            rectangle = self.pairs.sum(dim=0)
            return mirrored(rectangle[:, 1:] + rectangle[:, : self.dim].T)
        return torch.stack([self._whole(fold) for fold in folds]).sum(dim=0)

    def less(self, whole: Tensor, fold: int) -> Tensor:
        """A matrix (d, d) minus the sum of a fold, in fresh memory and its own precision.

        Only the upper triangle is meant: to mirror it would take as long as to subtract.
        """
        matrix, lower = self._place(fold)
        own = (matrix.T if lower else matrix).to(whole.dtype)
        return torch.sub(whole, own, out=torch.empty_like(whole))

    def put(self, fold: int, whole: Tensor) -> None:
        """Replace the sum of a fold by a symmetric matrix (d, d)."""
        matrix, lower = self._place(fold)
        if lower:
            matrix.copy_(matrix.triu(1) + whole.tril())
        else:
            matrix.copy_(matrix.tril(-1) + whole.triu())

    def _whole(self, fold: int) -> Tensor:
        matrix, lower = self._place(fold)
        return mirrored((matrix.T if lower else matrix).clone())

    def _place(self, fold: int) -> tuple[Tensor, bool]:
        """Where a fold stands: a matrix (d, d), and whether in its lower triangle."""
        rectangle, lower = self.pairs[fold // 2], fold % 2 == 1
        return rectangle[:, : self.dim] if lower else rectangle[:, 1:], lower


def mirrored(upper: Tensor) -> Tensor:
    """The symmetric matrix whose upper triangle is given, written over it.

    By blocks of rows, which stay in a cache while they are transposed.
    """
    for start in range(0, len(upper), BLOCK):
        rows = upper[start : start + BLOCK]
        stop = start + len(rows)
        corner = rows[:, start:stop]
        corner.copy_(corner.triu() + corner.triu(1).T)
        upper[stop:, start:stop] = rows[:, stop:].T
    return upper
