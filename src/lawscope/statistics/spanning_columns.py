"""Which features span all of them, and how well conditioned they are, by plain Cholesky."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lawscope.statistics.directions import switched_off
from lawscope.statistics.lanczos import largest_eigenvalue


@dataclass(frozen=True, eq=False)
class SpanningColumns:
    """What a second moment M about the mean says of d features.

    Attributes:
        off: features that the others span, shape (k,); switched off, they leave M regular.
        condition: largest over smallest singular value of the features scaled to unit columns,
            among the d − k that are more than rounding; NaN without any.
        lower: L, shape (d, d): LLᵀ is M with the rows and columns ``off`` of the identity.
    """

    off: Tensor
    condition: float
    lower: Tensor

    @property
    def rank(self) -> int:
        """Of the features."""
        return len(self.lower) - len(self.off)


def spanning_columns(
    zz: Tensor, least: Tensor, share: float, accuracy: float, work: torch.dtype = torch.float64
) -> SpanningColumns | None:
    """Sort out what is dependent at sight: features that never vary, and LayerNorm's.

    What LayerNorm has made adds up to zero in every row. Of such features the one that varies most
    is switched off, which leaves the others conditioned best. The singular values at both ends come
    from Lanczos' method with the correlations C and with their inverse among directions that do not
    vanish, C⁺ = P·G·P with P the projection onto these and G the inverse of what is not off.

    Args:
        zz: second moment about the mean, shape (d, d), float64.
        least: what rounding leaves of a feature that never varies, shape (d,).
        share: eigenvalues of C below this share of the largest are rounding.
        accuracy: relative, of the eigenvalues at the ends.
        work: precision of Lanczos' method, whose products wait for memory: float32 takes half as
            long, and is good for condition numbers of 1000 to a tenth.

    Returns:
        None where other features are dependent, which takes all eigenvalues to sort out.
    """
    spread = zz.diagonal().clamp(min=0)
    off = ~(spread > least)
    scale = spread.sqrt().masked_fill(off, 0.0)
    per_scale = (1 / scale).masked_fill(off, 0.0)
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(len(zz), generator=generator, dtype=work, device="cpu").to(zz.device)
    at_work, per = zz.to(work), per_scale.to(work)
    largest = largest_eigenvalue(lambda v: per * (at_work @ (per * v)), start, accuracy)
    if largest is None:
        return None
    null = scale / torch.linalg.vector_norm(scale).clamp(min=1e-300)
    if float((per_scale * null) @ zz @ (per_scale * null)) <= share * largest:
        off[scale.argmax()] = True
    else:
        null = torch.zeros_like(null)
    lower, info = torch.linalg.cholesky_ex(switched_off(zz.clone(), torch.nonzero(off)[:, 0]))
    if int(info):
        return None
    scale, null = scale.masked_fill(off, 0.0).to(work), null.to(work)
    factor = lower.to(work)

    def inverse(v: Tensor) -> Tensor:
        inside = scale * (v - null * (null @ v))
        half = torch.linalg.solve_triangular(factor, inside[:, None], upper=False)
        solved: Tensor = torch.linalg.solve_triangular(factor.T, half, upper=True)[:, 0] * scale
        return torch.sub(solved, null * (null @ solved))

    condition = math.nan
    if not bool(off.all()):
        steepest = largest_eigenvalue(inverse, start, accuracy)
        if steepest is None or steepest * share * largest >= 1:
            return None
        condition = math.sqrt(largest * steepest)
    return SpanningColumns(torch.nonzero(off)[:, 0], condition, lower)
