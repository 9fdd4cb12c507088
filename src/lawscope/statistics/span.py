"""The directions in which the fuzziness is computed, and samples projected on them."""

from __future__ import annotations

from collections.abc import Sequence

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
        left_out: the folds that have samples, R of them; none where F = 1.
        class_means: minus ``shift``, shape (K, d).
        class_counts: samples per class in every column, shape (1 + R, K).
        weights: π_k, shape (K,).
        matrix: A of all columns below each other, shape (C, d).
        centres: A x̄_k, relative to ``shift``, shape (C, K).
        membership: 1 where a row of ``matrix`` belongs to a column, shape (C, 1 + R).
    """

    def __init__(
        self, means: Tensor, counts: Tensor, shift: Tensor, folds: int, weighting: Weighting
    ) -> None:
        self.folds, self.group_counts, self.shift = folds, counts, shift
        table = counts.view(-1, folds)
        self.left_out = [j for j in range(folds) if folds > 1 and int(table[:, j].sum())]
        self.columns = 1 + len(self.left_out)
        class_means, self.class_counts = average_folds(means, table, [None])
        self.class_means = class_means[0]
        self.weights = class_weights(self.class_counts[0], weighting)
        whitening = whiten_between(self.class_means, self.weights)
        self.rank = int(whitening.rank)
        self.matrix = whitening.matrix[: self.rank]
        self.centres = self.matrix @ self.class_means.T
        owners = [0] * self.rank
        if self.left_out:
            coordinates, back = _coordinates(means)
            fold_means, fold_counts = average_folds(coordinates, table, self.left_out)
            found = whiten_between(fold_means, self.weights.expand(len(self.left_out), -1))
            # Rows beyond the largest rank are zero everywhere.
            rank = int(found.rank.max())
            matrix = found.matrix[:, :rank]
            centres = (matrix @ fold_means.mT).flatten(0, 1)
            matrix = matrix.flatten(0, 1)
            matrix = matrix if back is None else (matrix @ back) @ means
            self.matrix = torch.cat([self.matrix, matrix])
            self.centres = torch.cat([self.centres, centres])
            self.class_counts = torch.cat([self.class_counts, fold_counts])
            owners += [column for column in range(1, self.columns) for _ in range(rank)]
        column = torch.tensor(owners, dtype=torch.int64, device=means.device)[:, None]
        self.membership = (column == torch.arange(self.columns, device=means.device)).to(means)

    def squares(self, features: Tensor, classes: Tensor) -> Tensor:
        """Return ‖A(x − x̄_k)‖² of each sample in every column, shape (B, 1 + R)."""
        projected = widen(features, self.shift) @ self.matrix.T
        return projected.sub_(self.centres.T[classes]).square_() @ self.membership

    def kept(self) -> Tensor:
        """Return whether group g counts in a column, shape (G, 1 + R), bool."""
        counts = self.group_counts.view(-1, self.folds)
        table = torch.ones(*counts.shape, self.columns, dtype=torch.bool, device="cpu")
        for r, j in enumerate(self.left_out, start=1):
            table[:, j, r] = counts[:, j] == counts.sum(dim=1)
        return table.view(len(self.group_counts), -1)


class SpanSquares:
    """Sums of ‖A(x − x̄_k)‖² per group and column, fed batch by batch in the second pass."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.squares = span.matrix.new_zeros(len(span.group_counts), span.columns)
        self.counts = torch.zeros_like(span.group_counts)

    def update(self, features: Tensor, groups: Tensor) -> None:
        """Add a batch; ``features`` (B, d), ``groups`` (B,) as in the first pass."""
        for rows, here in split_rows(features, groups.to(features.device)):
            squares = self.span.squares(rows, here // self.span.folds)
            self.squares.index_add_(0, here, squares)
        self.counts += groups.bincount(minlength=len(self.counts))


def average_folds(
    means: Tensor, counts: Tensor, left_out: Sequence[int | None]
) -> tuple[Tensor, Tensor]:
    """Return class means (R, K, ·) and counts (R, K), with each fold of ``left_out`` left out.

    Means are of the groups, (K·F, ·), counts (K, F); None leaves nothing out. A class whose samples
    all lie in one fold cannot be left out; it stays whole there.
    """
    sums = means.view(*counts.shape, -1) * counts.to(means)[..., None]
    all_counts, all_sums = [], []
    for j in left_out:
        rest = torch.ones_like(counts, dtype=torch.bool)
        if j is not None:
            rest[:, j] = counts[:, j] == counts.sum(dim=1)
        all_counts.append((counts * rest).sum(dim=1))
        all_sums.append((sums * rest.to(sums)[..., None]).sum(dim=1))
    stacked = torch.stack(all_counts)
    return torch.stack(all_sums) / stacked.clamp(min=1).to(sums)[..., None], stacked


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
