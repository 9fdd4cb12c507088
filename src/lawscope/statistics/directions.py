"""The directions of features that are regressed on."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Directions:
    """What of the coordinates is regressed on: all but rounding.

    Coordinates that the others span are switched off rather than taken out, which saves copies of
    d×d matrices: their products become 0, and 1 on the diagonal.
    """

    rank: int
    condition: float
    off: Tensor | None = None  # coordinates switched off …
    weights: Tensor | None = None  # … or combinations of all of them, shape (d, r)
    lower: Tensor | None = None  # Cholesky factor of all data's second moment, where known

    def reduce(self, rows: Tensor) -> Tensor:
        """Rows in coordinates (m, d) as rows in these directions; may overwrite them."""
        if self.weights is not None:
            return rows @ self.weights
        return rows if self.off is None else rows.index_fill_(1, self.off, 0.0)

    def square(self, zz: Tensor) -> Tensor:
        """A second moment in these directions; may overwrite it."""
        if self.weights is not None:
            return self.weights.T @ zz @ self.weights
        if self.off is not None:
            zz.index_fill_(0, self.off, 0.0).index_fill_(1, self.off, 0.0)
            zz[self.off, self.off] = 1.0
        return zz

    def expand(self, beta: Tensor) -> Tensor:
        """Coefficients in these directions as coefficients (d, q) of the coordinates."""
        return beta if self.weights is None else self.weights @ beta
