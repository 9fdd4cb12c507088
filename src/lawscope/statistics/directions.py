"""The directions of features that are regressed on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lawscope.statistics.symmetric_blas import upper_factor
from lawscope.statistics.symmetric_sums import mirrored

FAINT = 1e-3  # what is left of a pivot where a direction all but vanishes, and may be rounding


@dataclass(frozen=True, eq=False)
class Directions:
    """What of the coordinates is regressed on: all but rounding.

    Coordinates that the others span are switched off rather than taken out, which saves copies of
    d×d matrices: their products become 0, and 1 on the diagonal.
    """

    rank: int
    condition: float
    squared: float  # condition number of the moments they come from
    lower: Tensor  # Cholesky factor of the second moment in these directions
    off: Tensor | None = None  # coordinates switched off …
    weights: Tensor | None = None  # … or combinations of all of them, shape (d, r)

    def reduce(self, rows: Tensor) -> Tensor:
        """Rows in coordinates (m, d) as rows in these directions; may overwrite them."""
        if self.weights is not None:
            return rows @ self.weights
        return rows if self.off is None else rows.index_fill_(1, self.off, 0.0)

    def to_half(self, columns: Tensor) -> Tensor:
        """L⁻¹ of sums (d, q) in coordinates: squared, what they explain."""
        rows = self.reduce(columns.T.clone())
        half: Tensor = torch.linalg.solve_triangular(self.lower, rows.T, upper=False)
        return half

    def from_half(self, half: Tensor) -> Tensor:
        """Coefficients (d, q) of the coordinates from Lᵀ of those in these directions."""
        beta: Tensor = torch.linalg.solve_triangular(self.lower.T, half, upper=True)
        return beta if self.weights is None else self.weights @ beta

    def to(self, dtype: torch.dtype) -> Directions:
        """The same in another precision."""
        weights = None if self.weights is None else self.weights.to(dtype)
        return replace(self, lower=self.lower.to(dtype), weights=weights)

    def refitted(self, zz: Tensor) -> Directions | None:
        """The same directions with the moments (d, d) of fewer rows, which are overwritten.

        Of the moments only the upper triangle is read.

        A pivot of Cholesky is what of a direction those before it leave unexplained, so that fewer
        rows never make it larger.

        Returns:
            None where one of them all but vanishes: these rows need directions of their own.
        """
        if self.weights is None:
            second = switched_off(zz, self.off)
        else:
            second = self.weights.T @ mirrored(zz) @ self.weights
        upper = upper_factor(second)
        if upper is None or bool((upper.diagonal() < FAINT * self.lower.diagonal()).any()):
            return None
        return replace(self, lower=upper.mT)


def switched_off(matrix: Tensor, off: Tensor | None) -> Tensor:
    """The matrix, overwritten, with rows and columns ``off`` of the identity."""
    if off is not None:
        matrix.index_fill_(0, off, 0.0).index_fill_(1, off, 0.0)
        matrix[off, off] = 1.0
    return matrix
