"""Within-class scatter seen only inside the span of the group means: the second pass."""

from __future__ import annotations

import torch
from torch import Tensor

from lawscope.statistics.between import Frames, Weighting, between_frames


class Span:
    """Coordinates in which the fuzziness, and the fuzziness without each fold, are computed.

    All class means with any fold left out lie in the span of the K·F group means. An orthonormal
    basis Q of that span (d × m, m ≤ min(K·F, d)) is found once; everything after it happens in m
    dimensions. Replicate 0 uses all data, replicate 1 + j leaves out the j-th non-empty fold.

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
        # A basis is worth its flops only when it is smaller than the features themselves.
        self.basis: Tensor | None = None
        self.coordinates = means
        if len(means) < means.shape[1]:
            self.basis, upper = torch.linalg.qr(means.T)
            self.coordinates = upper.T
        self.class_means, self.counts, self.left_out = self._class_means()
        self.frames: Frames = between_frames(self.class_means, self.counts, weighting)
        # A x̄_k for each replicate and class: what a projected sample is centred on.
        self._centres = self.frames.matrix @ self.class_means.mT

    def project(self, features: Tensor) -> Tensor:
        """Features minus the shift, in span coordinates, shape (B, m), float64."""
        centred = features - self.shift
        return centred if self.basis is None else centred @ self.basis

    def squares(self, projected: Tensor, classes: Tensor) -> Tensor:
        """‖A_r(x − x̄_k)‖² of each sample in each replicate, shape (B, R)."""
        replicates, rows, m = self.frames.matrix.shape
        scaled = projected @ self.frames.matrix.reshape(replicates * rows, m).T
        scaled = scaled.view(-1, replicates, rows) - self._centres.permute(2, 0, 1)[classes]
        return scaled.square_().sum(dim=2)

    def _class_means(self) -> tuple[Tensor, Tensor, list[int]]:
        """Class means and counts with nothing, then with each non-empty fold left out.

        A class whose samples all lie in one fold cannot be left out; it stays whole there.
        """
        counts = self.group_counts.view(-1, self.folds)
        sums = self.coordinates.view(len(counts), self.folds, -1)
        sums = sums * counts.to(sums)[..., None]
        left_out = [j for j in range(self.folds) if self.folds > 1 and int(counts[:, j].sum())]
        all_counts, all_sums = [counts.sum(dim=1)], [sums.sum(dim=1)]
        for j in left_out:
            rest = all_counts[0] - counts[:, j]
            stays = rest == 0
            all_counts.append(torch.where(stays, all_counts[0], rest))
            rest_sums = all_sums[0] - sums[:, j]
            all_sums.append(torch.where(stays.to(sums.device)[:, None], all_sums[0], rest_sums))
        stacked = torch.stack(all_counts)
        divisor = stacked.clamp(min=1).to(sums)[..., None]
        return torch.stack(all_sums) / divisor, stacked, left_out

    def kept(self) -> Tensor:
        """Whether group g counts in replicate r, shape (G, R), bool."""
        counts = self.group_counts.view(-1, self.folds)
        table = torch.ones(*counts.shape, 1 + len(self.left_out), dtype=torch.bool)
        for r, j in enumerate(self.left_out, start=1):
            table[:, j, r] = counts[:, j] == counts.sum(dim=1)
        return table.view(len(self.group_counts), -1)


class SpanScatter:
    """Sums of ‖A_r(x − x̄_k)‖² per group and replicate, fed batch by batch.

    Args:
        span: the coordinates fixed by the first pass.
    """

    def __init__(self, span: Span) -> None:
        self.span = span
        groups, replicates = len(span.group_counts), len(span.counts)
        device = span.coordinates.device
        self.squares = torch.zeros(groups, replicates, dtype=torch.float64, device=device)
        self.counts = torch.zeros(groups, dtype=torch.int64)

    def update(self, features: Tensor, rows: Tensor) -> None:
        """Add a batch; ``features`` (B, d), ``rows`` (B,) as in the first pass."""
        rows_here = rows.to(self.squares.device)
        projected = self.span.project(features)
        squares = self.span.squares(projected, rows_here // self.span.folds)
        self.squares.index_add_(0, rows_here, squares)
        self.counts += torch.bincount(rows, minlength=len(self.counts))
