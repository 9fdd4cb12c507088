"""Many rows through the inverse of a triangular factor, by matrix products alone."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 96  # columns at a time; quickest of 64, 96, 128 and 192 at d = 768


class TriangularRows:
    """Maps rows B (m, d) to X = B·R⁻¹.

    Block by block of columns, X_i = (B_i − Σ_{k<i} X_k R_ki)·R_ii⁻¹, with R_ki R_ii⁻¹ made once:
    then every block is one product of all columns so far, which uses all cores where a triangular
    solve does not. Nothing but blocks on the diagonal is inverted.

    Args:
        upper: R, shape (d, d); what is below the diagonal is not read.

    Example:
        >>> solve = TriangularRows(torch.tensor([[2.0, 1.0], [0.0, 4.0]]))
        >>> solve(torch.tensor([[2.0, 9.0]])).tolist()
        [[1.0, 2.0]]
    """

    def __init__(self, upper: Tensor) -> None:
        dim = len(upper)
        starts = range(0, dim, BLOCK)
        self._blocks = [slice(start, min(start + BLOCK, dim)) for start in starts]
        self._products = [_product(upper, block) for block in self._blocks]

    def __call__(self, rows: Tensor) -> Tensor:
        """The rows (m, d), overwritten by X."""
        for block, product in zip(self._blocks, self._products, strict=True):
            rows[:, block] = rows[:, : block.stop] @ product
        return rows


def _product(upper: Tensor, block: slice) -> Tensor:
    """What [X_k for k < i | B_i] is multiplied by to give X_i."""
    corner = upper[block, block]
    one = torch.eye(len(corner), dtype=upper.dtype, device=upper.device)
    inverse = torch.linalg.solve_triangular(corner, one, upper=True)
    return torch.cat([-(upper[: block.start, block] @ inverse), inverse])
