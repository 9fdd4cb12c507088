"""The span of the class means: directions A with SSb⁺ = AᵀA, and squares along them.

Class means with any fold left out lie in the span of the K·F group means, so all that D needs is
found in G = K·F coordinates. Up to :data:`WIDE` features the coordinates come from an orthogonal
basis, in float64. Beyond, a table of such a basis would cost more than the network: there the
coordinates come from the Gram matrix of the group means, and features meet the group means
themselves, in the precision of the features, column by column, summed in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lawscope.statistics.fuzziness import Weighting, class_weights, whiten_between
from lawscope.statistics.row_buffer import split_rows

WIDE = 4096  # features beyond which the Gram matrix takes the place of a basis
# A Gram matrix in float64 squares what it sees: contrasts of class means that are smaller than
# this, relative to the largest, are rounding.
GRAM_RESOLUTION = 1e-6
CHUNK_COLUMNS, CHUNK_NUMBERS = 2048, 2**22


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The group means, relative to a shift, in coordinates of their own span."""

    values: Tensor  # (G, r), float64
    basis: Tensor | None  # (r, d): coordinates are (x − shift) @ basis.T; None: features themselves
    resolution: float  # relative size at which a contrast of means is rounding
    of_groups: Tensor | None = None  # (r, G): basis is this times the group means, which stay as is


def find_coordinates(means: Tensor) -> Coordinates:
    """Return coordinates of group means (G, d) in float64, by an orthogonal basis."""
    resolution = max(means.shape) * torch.finfo(means.dtype).eps
    if means.shape[1] <= len(means):
        return Coordinates(means, None, resolution)
    basis, upper = torch.linalg.qr(means.T)
    return Coordinates(upper.T, basis.T, resolution)


def find_coordinates_by_gram(gram: Tensor) -> Coordinates:
    """Return coordinates of group means whose Gram matrix (G, G) is given, in float64.

    From gram = V Λ Vᵀ the coordinates are V Λ^½, and Λ^−½ Vᵀ makes a basis of the group means.
    """
    values, vectors = torch.linalg.eigh(gram)
    kept = values > len(gram) * torch.finfo(gram.dtype).eps * values[-1]
    root, vectors = values[kept].sqrt(), vectors[:, kept]
    return Coordinates(vectors * root, None, GRAM_RESOLUTION, (vectors / root).T)


class Directions:
    """A as rows of a table (C, d)."""

    def __init__(self, table: Tensor, shift: Tensor) -> None:
        self.table, self.shift = table, shift

    def project(self, rows: Tensor, groups: Tensor) -> Tensor:
        """Return A(x − shift) of every row (B, d), shape (B, C), float64."""
        return rows.to(torch.float64, copy=True).sub_(self.shift) @ self.table.T


class GroupDirections:
    """A as combinations (C, G) of the group means less a shift, times a scale, (G, d).

    Rows meet the means in their own precision. What they share with the mean of their group is
    left to the Gram matrix, in float64: the rounding is that of a deviation, not of the whole row.
    """

    def __init__(
        self, means: Tensor, shift: Tensor, scale: float, gram: Tensor, combine: Tensor
    ) -> None:
        self.means, self.shift, self.scale, self.gram = means, shift, scale, gram
        self.combine = combine

    def project(self, rows: Tensor, groups: Tensor) -> Tensor:
        """Return A(x − shift) of every row (B, d) of the groups (B,), shape (B, C), float64."""
        products = self.gram[groups]
        for part in columns_of(rows.shape[1], len(rows)):
            means = self.means[:, part]
            centred = (rows[:, part].to(self.shift) - self.shift[part]).mul_(self.scale)
            products += centred.sub_(means[groups]) @ means.T
        return products @ self.combine.T


class Span:
    """The directions A with SSb⁺ = AᵀA, for all data and without each fold in turn.

    Column 0 is D itself. Column 1 + j is D without the j-th non-empty fold, with an A of its own.
    π_k stays that of all data in every column: folds are drawn within classes, whose shares are
    given, and a class that cannot be left out would gain weight that it never had.

    Args:
        coordinates: of the group means.
        counts: samples per group, shape (G,).
        folds: F; group = class · F + fold.
        weighting: of the classes.
        offset: length of the shift, in units of the coordinates.

    Attributes:
        kept: samples per column, class and fold, shape (1 + R, K, F) for R folds with samples.
        weights: π_k, shape (K,).
        rank: of SSb.
        matrix: A of all columns below each other, in coordinates, shape (C, r).
        centres: A x̄_k, relative to the shift, shape (C, K).
        membership: 1 where a row of ``matrix`` belongs to a column, shape (C, 1 + R).
        contrasts: the weakest contrast of the class means in every column, shape (1 + R,).
        coincide: whether the class means differ by no more than the rounding of their size.
    """

    directions: Directions | GroupDirections

    def __init__(
        self,
        coordinates: Coordinates,
        counts: Tensor,
        folds: int,
        weighting: Weighting,
        offset: float,
    ) -> None:
        self.folds, self.group_counts = folds, counts
        self.kept = _leave_folds_out(counts.view(-1, folds))
        self.columns = len(self.kept)
        self.weights = class_weights(self.kept[0].sum(dim=1), weighting)
        scale = choose_scale(coordinates.values)
        if 1e-60 < scale < 1e60:
            scale = 1.0  # float64 holds the squares as they are
        values, offset = coordinates.values * scale, offset * scale
        means = average_folds(values, self.kept)
        weights = self.weights.expand(self.columns, -1)
        matrix, ranks = whiten_between(means, weights, coordinates.resolution)
        self.rank = int(ranks[0])
        # Rows beyond the largest rank are zero everywhere.
        rank = int(ranks.max())
        matrix = matrix[:, :rank]
        self.centres = (matrix @ means.mT).flatten(0, 1)
        self.matrix = matrix.flatten(0, 1) * scale
        self.membership = means.new_ones(self.columns).diag().repeat_interleave(rank, dim=0)
        self.contrasts = means.new_full((self.columns,), torch.nan)
        if self.columns > 1:
            self.contrasts = find_weakest_contrasts(values, self.kept)
        size = offset + float(means[0].norm())
        self.coincide = not float((means[0] - means[0].mean(dim=0)).norm()) > 1e-13 * size

    def sum_squares(self, projected: Tensor, groups: Tensor, into: Tensor) -> None:
        """Add ‖A(x − x̄_k)‖² of projections (B, C) to sums per group and column, (G, 1 + R)."""
        deviations = projected - self.centres.T[groups // self.folds]
        into.index_add_(0, groups, deviations.square_() @ self.membership)

    def new_squares(self) -> Tensor:
        return self.matrix.new_zeros(len(self.group_counts), self.columns)


class SpanSquares:
    """Sums of ‖A(x − x̄_k)‖² per group and column, fed batch by batch in the second pass."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.squares = span.new_squares()
        self.counts = torch.zeros_like(span.group_counts)

    def update(self, features: Tensor, groups: Tensor) -> None:
        """Add a batch; ``features`` (B, d), ``groups`` (B,) as in the first pass."""
        for rows, here in split_rows(features, groups.to(features.device)):
            self.span.sum_squares(self.span.directions.project(rows, here), here, self.squares)
        self.counts += groups.bincount(minlength=len(self.counts))


def multiply_with_means(
    batches: list[Tensor], groups: Tensor, total: int
) -> tuple[Tensor, Tensor, float, float]:
    """Return the products of held samples with their group means, all relative to a shift.

    Returns ⟨x_i − s, m_g − s⟩ (n, G), ⟨m_g − s, m_h − s⟩ (G, G) and ‖s‖, where s is the mean of the
    first batch, and the scale of all. Deviations from the group means meet them in the precision of
    the features (B, d), a few columns at a time, summed in float64; means meet means in float64.
    """
    counts = groups.bincount(minlength=total).clamp(min=1).to(torch.float64)[:, None]
    samples, first = len(groups), batches[0]
    precision = torch.promote_types(first.dtype, torch.float32)
    scale = choose_scale(first - first.mean(dim=0))
    products = counts.new_zeros(samples, total)
    gram, offset = counts.new_zeros(total, total), 0.0
    for part in columns_of(first.shape[1], max(samples, total)):
        rows = torch.cat([batch[:, part] for batch in batches]).to(precision)
        shift = rows[: len(first)].mean(dim=0)
        rows.sub_(shift).mul_(scale)
        means = rows.new_zeros(total, rows.shape[1]).index_add_(0, groups, rows).div_(counts)
        products += rows.sub_(means[groups]) @ means.T
        wide = means.to(torch.float64)
        gram += wide @ wide.T
        offset += float(shift.to(torch.float64).mul_(scale).square().sum())
    return products.add_(gram[groups]), gram, offset**0.5, scale


def find_length(vector: Tensor) -> float:
    """Return the Euclidean norm, also of numbers whose squares float64 cannot hold."""
    scale = choose_scale(vector)
    return float((vector * scale).norm(dtype=torch.float64)) / scale


def choose_scale(centred: Tensor) -> float:
    """Return the power of two that brings numbers near 1, so that their squares do not vanish."""
    size = max(abs(float(end)) for end in centred.aminmax()) if centred.numel() else 0.0
    if not 0 < size < math.inf:
        return 1.0
    largest = 1000 if centred.dtype == torch.float64 else 126
    return 2.0 ** min(largest, max(-largest, -round(math.log2(size))))


def all_finite(numbers: Tensor) -> bool:
    """Return whether every number is finite."""
    # A finite sum is the quick answer; one that overflows is not yet a wrong number.
    return bool(numbers.sum().isfinite() or numbers.isfinite().all())


def multiply_means(means: Tensor) -> Tensor:
    """Return the Gram matrix of means (G, d) in float64, a few columns widened at a time."""
    gram = means.new_zeros(len(means), len(means), dtype=torch.float64)
    for part in columns_of(means.shape[1], len(means)):
        wide = means[:, part].to(torch.float64)
        gram += wide @ wide.T
    return gram


def columns_of(features: int, rows: int) -> list[slice]:
    """Return the columns in parts, of as many as ``rows`` rows of them are cheap to copy."""
    step = min(CHUNK_COLUMNS, max(256, CHUNK_NUMBERS // max(1, rows)))
    return [slice(i, i + step) for i in range(0, features, step)]


def _leave_folds_out(counts: Tensor) -> Tensor:
    """Return counts (K, F) of all data and without each fold that has samples, (1 + R, K, F)."""
    columns = [counts]
    for j in torch.nonzero(counts.sum(dim=0))[:, 0].tolist() if counts.shape[1] > 1 else ():
        column = counts.clone()
        # A class whose samples all lie in one fold cannot be left out; it stays whole there.
        column[:, j] *= counts[:, j] == counts.sum(dim=1)
        columns.append(column)
    return torch.stack(columns)


def average_folds(means: Tensor, kept: Tensor) -> Tensor:
    """Return class means (R, K, ·) of group means (K·F, ·), by the samples ``kept``, (R, K, F)."""
    table, weights = means.view(*kept.shape[1:], -1), kept.to(means)
    sums = torch.stack([(table * column[..., None]).sum(dim=1) for column in weights])
    return sums / weights.sum(dim=2).clamp(min=1)[..., None]


def find_weakest_contrasts(means: Tensor, kept: Tensor) -> Tensor:
    """Return the least eigenvalue of the class-mean contrasts, shape (R,).

    Means are of groups, (K·F, d), by the samples ``kept``, (R, K, F). The matrix is the Gram matrix
    of K − 1 contrasts, or where there are fewer features than contrasts their scatter, d×d. Noise
    adds its covariance over n_k to the product of a class mean with itself; it is estimated from
    the differences between folds and taken off, so that the eigenvalue is as likely above as below
    zero where two classes have the same mean, however few the samples. NaN where a class lies in a
    single fold.
    """
    classes, dim = kept.shape[1], means.shape[1]
    contrasts = torch.linalg.qr(means.new_ones(classes).diag()[:, 1:] - 1 / classes)[0]
    found = means.new_full((len(kept),), torch.nan)
    for r, counts in enumerate(kept.to(means)):
        table, samples = means.view(*counts.shape, -1), counts.sum(dim=1)
        pairs = samples.square() - counts.square().sum(dim=1)
        if bool((pairs == 0).any()):
            continue
        average = (table * counts[..., None]).sum(dim=1) / samples[:, None]
        noise = (table - average[:, None]) * (counts / pairs.sqrt()[:, None])[..., None]
        if dim >= classes - 1:
            gram = average @ average.T
            gram.diagonal().sub_(noise.square().sum(dim=(1, 2)))
            matrix = contrasts.T @ gram @ contrasts
        else:
            noise, spread = noise.flatten(0, 1), contrasts.T @ average
            matrix = spread.T @ spread - (1 - 1 / classes) * noise.T @ noise
        found[r] = torch.linalg.eigvalsh(matrix)[0]
    return found
