"""Within-class scatter seen only inside the span of the class means: the second pass."""

from __future__ import annotations

import torch
from torch import Tensor

from lawscope.statistics.between import Frames, Weighting, between_frames, weighted_frames
from lawscope.statistics.group_index import counted
from lawscope.statistics.widen import Widener

FAR = 30.0
STRIP_BYTES = 96  # three vector registers, which matrix products work on at a time


class Span:
    """The directions in which the fuzziness is computed, fixed by the class means.

    Column 0 is D itself: samples are projected on A = S⁻¹Vᵀ of the class means, in float64.
    Column 1 + j is D without the j-th non-empty fold, projected on its own A, in the precision of
    the features (float32 for half precision): these replicates only make the interval. Their A
    are found in coordinates of the span of the K·F group means, where all class means with any
    fold left out lie. π_k stays that of all data in every column: folds are drawn within classes,
    whose shares are given, and a class that cannot be left out would gain weight that it never
    had.

    Args:
        means: group means minus ``shift``, shape (G, d), float64.
        counts: samples per group, shape (G,).
        shift: a point near all features, shape (d,).
        folds: folds per class, F.
        weighting: see :func:`~lawscope.statistics.between.between_frames`.
    """

    def __init__(
        self, means: Tensor, counts: Tensor, shift: Tensor, folds: int, weighting: Weighting
    ) -> None:
        self.folds, self.group_counts, self.shift = folds, counts, shift
        table = counts.view(-1, folds)
        self.left_out = [j for j in range(folds) if folds > 1 and int(table[:, j].sum())]
        class_means, self.counts = _class_means(means, table, [None])
        self.class_means = class_means[0]
        self.frame: Frames = between_frames(self.class_means, self.counts[0], weighting)
        self.centres = self.frame.matrix @ self.class_means.T
        self._whole = _Projection(self.frame.matrix[None], self.centres[None], shift, torch.float64)
        self._folds: _Projection | None = None
        if self.left_out:
            coordinates, back = _coordinates(means)
            fold_means, self.fold_counts = _class_means(coordinates, table, self.left_out)
            weights = self.frame.weights.expand(len(self.left_out), -1)
            frames = weighted_frames(fold_means, weights)
            # Rows beyond the largest rank are zero everywhere.
            matrix = frames.matrix[:, : max(1, int(frames.rank.max()))]
            self.fold_centres = matrix @ fold_means.mT
            if back is not None:
                matrix = (matrix @ back) @ means
            self.fold_matrix = matrix

    def squares(self, features: Tensor, classes: Tensor) -> Tensor:
        """‖A(x − x̄_k)‖² of each sample: with all data, then without each fold; (B, 1 + R)."""
        column = self._whole.squares(features, classes)
        if not self.left_out:
            return column
        if self._folds is None:
            dtype = torch.promote_types(features.dtype, torch.float32)
            self._folds = _Projection(self.fold_matrix, self.fold_centres, self.shift, dtype)
        return torch.cat([column, self._folds.squares(features, classes)], dim=1)

    def all_frames(self) -> tuple[Tensor, Tensor]:
        """A of every column in feature space, (1 + R, K, d), and A x̄_k, (1 + R, K, classes)."""
        matrix, centres = self.frame.matrix[None], self.centres[None]
        if not self.left_out:
            return matrix, centres
        pad = (0, 0, 0, matrix.shape[1] - self.fold_matrix.shape[1])
        return (
            torch.cat([matrix, torch.nn.functional.pad(self.fold_matrix, pad)]),
            torch.cat([centres, torch.nn.functional.pad(self.fold_centres, pad)]),
        )

    def all_counts(self) -> Tensor:
        """Samples per class in every column, shape (1 + R, K)."""
        return torch.cat([self.counts, self.fold_counts]) if self.left_out else self.counts

    def kept(self) -> Tensor:
        """Whether group g counts in a column, shape (G, 1 + R), bool."""
        counts = self.group_counts.view(-1, self.folds)
        table = torch.ones(*counts.shape, 1 + len(self.left_out), dtype=torch.bool, device="cpu")
        for r, j in enumerate(self.left_out, start=1):
            table[:, j, r] = counts[:, j] == counts.sum(dim=1)
        return table.view(len(self.group_counts), -1)


class _Projection:
    """Deviations from the class means on the directions of some replicates: a matrix product.

    Args:
        matrix: A of each replicate, shape (R, r, d).
        centres: A x̄_k of each replicate, shape (R, r, K), relative to ``shift``.
        shift: a point near all features.
        dtype: to work in.
    """

    def __init__(self, matrix: Tensor, centres: Tensor, shift: Tensor, dtype: torch.dtype) -> None:
        replicates, rank, dim = matrix.shape
        rows = matrix.reshape(-1, dim)
        offset = rows @ shift
        # Class means lie about one unit apart here. Only where the features sit tens of units
        # away from the origin are they worth centring before the product rather than after it.
        self.shift = shift.to(dtype) if float(offset.abs().max()) > FAR else None
        if self.shift is not None:
            offset = rows @ (shift - self.shift.to(shift))  # what rounding the shift left over
        centres = centres.reshape(replicates * rank, -1) + offset[:, None]
        # Sums the r squares of each replicate by a product, which beats a sum over a short axis.
        same = torch.eye(replicates, device=matrix.device).repeat_interleave(rank, dim=0)
        # Products are fastest with columns by the strip: ten take longer than twelve.
        missing = -len(rows) % (STRIP_BYTES // dtype.itemsize)
        columns, negative, self.summing = (
            torch.nn.functional.pad(table, (0, 0, 0, missing)).to(dtype)
            for table in (rows, -centres, same)
        )
        self.matrix = columns.T.contiguous()
        self.negative = negative.T.contiguous()  # products are added to it, and come out centred
        self.widener = Widener(dtype)

    def squares(self, features: Tensor, classes: Tensor) -> Tensor:
        """Σ of the squares over the directions of each replicate, shape (B, R)."""
        deviation = self.negative.index_select(0, classes)
        if self.shift is None and features.dtype == self.matrix.dtype:
            deviation.addmm_(features, self.matrix)
        else:
            for rows, columns, block in self.widener.blocks(features, self.shift):
                deviation[rows].addmm_(block, self.matrix[columns])
        return deviation.square_() @ self.summing


class SpanScatter:
    """Sums of ‖A(x − x̄_k)‖² per group and column, fed batch by batch.

    Args:
        span: the directions fixed by the first pass.
    """

    def __init__(self, span: Span) -> None:
        self.span = span
        groups, columns = len(span.group_counts), 1 + len(span.left_out)
        device = span.shift.device
        self.squares = torch.zeros(groups, columns, dtype=torch.float64, device=device)
        self.counts = torch.zeros(groups, dtype=torch.int64, device="cpu")

    def update(self, features: Tensor, rows: Tensor) -> None:
        """Add a batch; ``features`` (B, d), ``rows`` (B,) as in the first pass."""
        rows_here = rows.to(self.squares.device)
        squares = self.span.squares(features, rows_here // self.span.folds)
        self.squares.index_add_(0, rows_here, squares)
        self.counts += counted(rows, len(self.counts))


def _class_means(
    means: Tensor, counts: Tensor, left_out: list[int] | list[None]
) -> tuple[Tensor, Tensor]:
    """Class means (R, K, ·) and counts (R, K), with each fold of ``left_out`` (or none) left out.

    A class whose samples all lie in one fold cannot be left out; it stays whole there.
    """
    sums = means.view(*counts.shape, -1) * counts.to(means)[..., None]
    total_counts, total_sums = counts.sum(dim=1), sums.sum(dim=1)
    all_counts, all_sums = [], []
    for j in left_out:
        rest = total_counts - (0 if j is None else counts[:, j])
        stays = rest == 0
        all_counts.append(torch.where(stays, total_counts, rest))
        rest_sums = total_sums if j is None else total_sums - sums[:, j]
        all_sums.append(torch.where(stays.to(sums.device)[:, None], total_sums, rest_sums))
    stacked = torch.stack(all_counts)
    return torch.stack(all_sums) / stacked.clamp(min=1).to(sums)[..., None], stacked


def _coordinates(means: Tensor) -> tuple[Tensor, Tensor | None]:
    """Group means in an orthonormal basis Q of their span, and ``back`` with Qᵀ = back @ means.

    The basis comes from the G×G Gram matrix M Mᵀ = U Λ Uᵀ: coordinates M Q = U Λ^½, and
    Qᵀ = Λ^−½ Uᵀ M. That takes one product of the d×G table where a QR takes many; it squares the
    condition number, which is why D itself does not depend on it, only its replicates. With fewer
    features than groups the features are the coordinates, and ``back`` is None.
    """
    if len(means) >= means.shape[1]:
        return means, None
    eigenvalues, vectors = torch.linalg.eigh(means @ means.T)
    kept = eigenvalues > eigenvalues[-1] * 1e-13
    if not bool(kept.any()):  # a dead layer: one coordinate, which is always zero
        return means.new_zeros(len(means), 1), means.new_zeros(1, len(means))
    roots, vectors = eigenvalues[kept].sqrt(), vectors[:, kept]
    return vectors * roots, vectors.T / roots[:, None]
