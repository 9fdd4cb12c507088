"""Which columns of a second moment the others span."""

from __future__ import annotations

import math

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


def rank_and_condition(correlation: Tensor, share: float) -> tuple[int, float]:
    """Number of eigenvalues above a share of the largest, and √(largest/smallest) of these.

    Args:
        correlation: shape (d, d).
        share: eigenvalues below this share of the largest are rounding.
    """
    values = torch.linalg.eigvalsh(correlation)
    kept = values[values > share * values[-1]]
    return len(kept), float((kept[-1] / kept[0]).sqrt()) if len(kept) else math.nan


def pivoted_cholesky(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Upper factor R and the order p of the columns, largest first: matrix[p, p] = RᵀR.

    Args:
        matrix: symmetric, positive semidefinite up to rounding, shape (d, d), float64.

    Returns:
        R, shape (d, d), zero from the row on where nothing positive is left, and p, shape (d,);
        both on the CPU.

    Example:
        >>> factor, order = pivoted_cholesky(torch.tensor([[1.0, 2.0], [2.0, 4.0]]).double())
        >>> factor.tolist(), order.tolist()
        ([[2.0, 1.0], [0.0, 0.0]], [1, 0])
    """
    from scipy.linalg.lapack import dpstrf

    factor, pivots, rank, _ = dpstrf(matrix.cpu().numpy(), tol=0.0)
    upper = torch.from_numpy(factor).triu_()
    upper[rank:] = 0  # LAPACK leaves what it has not worked on
    return upper, torch.as_tensor(pivots - 1, dtype=torch.int64, device="cpu")
