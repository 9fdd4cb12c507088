"""Which columns of a second moment the others span."""

from __future__ import annotations

import torch
from torch import Tensor


def correlations(zz: Tensor, least: Tensor | float = 0.0) -> Tensor:
    """A second moment scaled to unit diagonal; what never varies correlates with nothing.

    Args:
        zz: about the mean, shape (d, d).
        least: what rounding leaves of a column that never varies, shape (d,).
    """
    scale = zz.diagonal().clamp(min=0).sqrt()
    inverse = torch.where(zz.diagonal() > least, 1 / scale, 0.0)
    return zz * inverse * inverse[:, None]


def pivoted_cholesky(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Upper factor R and the order p of the columns, largest first: matrix[p, p] = RᵀR."""
    from scipy.linalg.lapack import dpstrf

    factor, pivots, _, _ = dpstrf(matrix.cpu().numpy(), tol=0.0)
    return torch.from_numpy(factor).triu(), torch.as_tensor(pivots - 1, dtype=torch.int64)
