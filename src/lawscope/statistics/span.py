"""The directions in which the fuzziness is computed, and samples projected on them."""

from __future__ import annotations

import torch
from torch import Tensor

from lawscope.statistics.fuzziness import Weighting, class_weights, whiten_between
from lawscope.statistics.row_buffer import split_rows, widen


class Span:
    """The directions A with SSb⁺ = AᵀA, for all data and without each fold in turn.

    Column 0 is D itself, projected on A of all class means. Column 1 + j is D without the j-th
    non-empty fold, projected on its own A. Their A are found in coordinates of the span of the
    K·F group means, where all class means with any fold left out lie. π_k stays that of all data
    in every column: folds are drawn within classes, whose shares are given, and a class that
    cannot be left out would gain weight that it never had.

    Attributes:
        kept: samples per column, class and fold, shape (1 + R, K, F) for R folds with samples.
        class_means: minus ``shift``, shape (K, d).
        weights: π_k, shape (K,).
        matrix: A of all columns below each other, shape (C, d).
        centres: A x̄_k, relative to ``shift``, shape (C, K).
        membership: 1 where a row of ``matrix`` belongs to a column, shape (C, 1 + R).
    """

    def __init__(
        self, means: Tensor, counts: Tensor, shift: Tensor, folds: int, weighting: Weighting
    ) -> None:
        self.folds, self.group_counts, self.shift = folds, counts, shift
        self.kept = _leave_folds_out(counts.view(-1, folds))
        self.columns = len(self.kept)
        self.class_means = average_folds(means, self.kept[:1])[0]
        self.weights = class_weights(self.kept[0].sum(dim=1), weighting)
        whitening = whiten_between(self.class_means, self.weights)
        self.rank = int(whitening.rank)
        self.matrix = whitening.matrix[: self.rank]
        self.centres = self.matrix @ self.class_means.T
        owners = [0] * self.rank
        if self.columns > 1:
            coordinates, back = _coordinates(means)
            fold_means = average_folds(coordinates, self.kept[1:])
            found = whiten_between(fold_means, self.weights.expand(len(fold_means), -1))
            # Rows beyond the largest rank are zero everywhere.
            rank = int(found.rank.max())
            matrix = found.matrix[:, :rank]
            self.centres = torch.cat([self.centres, (matrix @ fold_means.mT).flatten(0, 1)])
            matrix = matrix.flatten(0, 1)
            matrix = matrix if back is None else (matrix @ back) @ means
            self.matrix = torch.cat([self.matrix, matrix])
            owners += [column for column in range(1, self.columns) for _ in range(rank)]
        column = torch.tensor(owners, dtype=torch.int64, device=means.device)[:, None]
        self.membership = (column == torch.arange(self.columns, device=means.device)).to(means)


class SpanSquares:
    """Sums of ‖A(x − x̄_k)‖² per group and column, fed batch by batch in the second pass."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.squares = span.matrix.new_zeros(len(span.group_counts), span.columns)
        self.counts = torch.zeros_like(span.group_counts)

    def update(self, features: Tensor, groups: Tensor) -> None:
        """Add a batch; ``features`` (B, d), ``groups`` (B,) as in the first pass."""
        span = self.span
        for rows, here in split_rows(features, groups.to(features.device)):
            projected = widen(rows, span.shift) @ span.matrix.T
            projected.sub_(span.centres.T[here // span.folds]).square_()
            self.squares.index_add_(0, here, projected @ span.membership)
        self.counts += groups.bincount(minlength=len(self.counts))


def _leave_folds_out(counts: Tensor) -> Tensor:
    """Return counts (K, F) of all data and without each fold that has samples, (1 + R, K, F).

    A class whose samples all lie in one fold cannot be left out; it stays whole there.
    """
    columns = [counts]
    for j in torch.nonzero(counts.sum(dim=0))[:, 0].tolist() if counts.shape[1] > 1 else ():
        column = counts.clone()
        column[:, j] *= counts[:, j] == counts.sum(dim=1)
        columns.append(column)
    return torch.stack(columns)


def average_folds(means: Tensor, kept: Tensor) -> Tensor:
    """Return class means (R, K, ·) of group means (K·F, ·), by the samples ``kept``, (R, K, F)."""
    table, weights = means.view(*kept.shape[1:], -1), kept.to(means)
    sums = torch.stack([(table * column[..., None]).sum(dim=1) for column in weights])
    return sums / weights.sum(dim=2).clamp(min=1)[..., None]


def _coordinates(means: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return group means in an orthonormal basis Q of their span, and ``back``: Qᵀ = back @ means.

    The basis comes from the G×G Gram matrix M Mᵀ = U Λ Uᵀ: coordinates M Q = U Λ^½, and
    Qᵀ = Λ^−½ Uᵀ M. That takes one product of the d×G table where a QR takes many; it squares the
    condition number, which is why D itself does not depend on it, only its replicates. With fewer
    features than groups the features are the coordinates, and ``back`` is None.
    """
    if len(means) >= means.shape[1]:
        return means, None
    eigenvalues, vectors = torch.linalg.eigh(means @ means.T)
    kept = eigenvalues > eigenvalues[-1] * 1e-13
    if not bool(kept.any()):
        # A dead layer: one coordinate, which is always zero.
        return means.new_zeros(len(means), 1), means.new_zeros(1, len(means))
    roots, vectors = eigenvalues[kept].sqrt(), vectors[:, kept]
    return vectors * roots, vectors.T / roots[:, None]
