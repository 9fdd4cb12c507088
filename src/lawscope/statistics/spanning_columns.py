"""Which features span all of them, and how well conditioned they are, by plain Cholesky."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lawscope.statistics.directions import switched_off
from lawscope.statistics.lanczos import Map, largest_eigenvalue, roughly_largest
from lawscope.statistics.symmetric_blas import upper_factor

PROBES = 16
NARROW = 1000.0  # condition number up to which float32 gives three digits of it


@dataclass(frozen=True, eq=False)
class SpanningColumns:
    """What a second moment M about the mean says of d features.

    Attributes:
        off: features that the others span, shape (k,); switched off, they leave M regular.
        condition: largest over smallest singular value of the features scaled to unit columns,
            among the d − k that are more than rounding; NaN without any.
        factor: R, shape (d, d): RᵀR are the correlations with the rows and columns ``off`` of the
            identity.
        scale: size of every feature, 1 where it is off, shape (d,).
    """

    off: Tensor
    condition: float
    factor: Tensor
    scale: Tensor

    @property
    def rank(self) -> int:
        """Of the features."""
        return len(self.factor) - len(self.off)

    @property
    def lower(self) -> Tensor:
        """L, shape (d, d): LLᵀ is M with the rows and columns ``off`` of the identity."""
        return (self.factor * self.scale).mT


def spanning_columns(
    zz: Tensor,
    least: Tensor,
    share: float,
    accuracy: float | None,
    of_sums: float | None = None,
    work: torch.dtype = torch.float64,
) -> SpanningColumns | None:
    """Sort out what is dependent at sight: features that never vary, and LayerNorm's.

    What LayerNorm has made adds up to zero in every row. Of such features the one that varies most
    is switched off, which leaves the others conditioned best. The singular values at both ends come
    from Lanczos' method, or from norms, of the correlations C and of their inverse among directions
    that do not vanish, C⁺ = P·G·P with P the projection onto these and G the inverse of what is not
    off.

    Args:
        zz: second moment about the mean, shape (d, d), float64.
        least: what rounding leaves of a feature that never varies, shape (d,).
        share: eigenvalues of C below this share of the largest are rounding.
        accuracy: relative, of the eigenvalues at the ends; None for bounds of them, in a fraction
            of the time, which make the condition a rough one, too large rather than too small.
        of_sums: Σ(s − s̄)² over the sums s of every row, where products in float32 have left more
            of it in ``zz`` than LayerNorm has.
        work: precision of the factor; in float32 the condition is good to three digits up to 150.

    Returns:
        None where other features are dependent, which takes all eigenvalues to sort out.
    """
    spread = zz.diagonal().clamp(min=0)
    off = ~(spread > least)
    scale = spread.sqrt().masked_fill(off, 0.0)
    per_scale = (1 / scale).masked_fill(off, 0.0)
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(len(zz), PROBES, generator=generator, dtype=torch.float32, device="cpu")
    start = start.to(zz.device)
    correlation = (per_scale[:, None] * zz).mul_(per_scale)
    # Products with a vector wait for memory, so that float32 takes half as long; of the largest
    # eigenvalue it loses nothing that is asked for.
    narrow = correlation.to(torch.float32)
    largest = _largest(narrow.__matmul__, start, accuracy)
    if math.isnan(largest):
        return None
    null = scale / torch.linalg.vector_norm(scale).clamp(min=1e-300)
    if of_sums is None:
        on = (~off).to(zz)
        of_sums = float(on @ zz @ on)
    if of_sums <= share * largest * float(scale.square().sum()):
        off[scale.argmax()] = True
    else:
        null = torch.zeros_like(null)
    places = torch.nonzero(off)[:, 0]
    factor = upper_factor(switched_off(narrow if work == torch.float32 else correlation, places))
    if factor is None:
        return None
    condition = math.nan
    if len(places) < len(zz):
        condition = math.sqrt(largest * _steepest(factor, off, null, start, accuracy))
        if condition > NARROW and accuracy is not None:
            condition = math.sqrt(largest * _steepest(factor, off, null, start.double(), accuracy))
        if not condition**2 * share < 1:
            return None
    return SpanningColumns(places, condition, factor, scale.masked_fill(off, 1.0))


def _steepest(
    factor: Tensor, off: Tensor, null: Tensor, start: Tensor, accuracy: float | None
) -> float:
    """The largest eigenvalue of the inverse, in the precision of ``start``; NaN if unsettled."""
    upper, null, on = factor.to(start), null.to(start)[:, None], (~off).to(start)[:, None]

    def inverse(v: Tensor) -> Tensor:
        inside = on * (v - null * (null.T @ v))
        half = torch.linalg.solve_triangular(upper.mT, inside, upper=False)
        solved: Tensor = torch.linalg.solve_triangular(upper, half, upper=True) * on
        return torch.sub(solved, null * (null.T @ solved))

    return _largest(inverse, start, accuracy)


def _largest(apply: Map, start: Tensor, accuracy: float | None) -> float:
    """Of the eigenvalues of a map of columns; NaN where it has not settled."""
    if accuracy is None:
        return roughly_largest(apply, start)
    found = largest_eigenvalue(lambda v: apply(v[:, None])[:, 0], start[:, 0], accuracy)
    return math.nan if found is None else found
