"""Sums per group in float64: counts, means, scatter, and squares in the span of the means."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lawscope.statistics.fuzziness import Weighting, class_weights, whiten_between
from lawscope.statistics.row_buffer import split_rows, widen

FEW = 64


class GroupMeans:
    """Counts n_g and sums Σ (x − shift) of every group.

    The shift is the mean of the first few samples. Without it a mean of 1e7 would eat seven of the
    sixteen digits of a sum; with it the digits go to the differences that matter.
    """

    def __init__(self) -> None:
        self.counts = torch.zeros(0, dtype=torch.int64, device="cpu")
        self.shift: Tensor | None = None
        self._sums = torch.zeros(0, 0, dtype=torch.float64, device="cpu")

    @property
    def finite(self) -> bool:
        """Whether every feature was finite: a sum keeps NaN and infinity for good."""
        return bool(self._sums.isfinite().all())

    def update(self, features: Tensor, groups: Tensor, total: int) -> None:
        """Add features (B, d) of groups (B,) on the CPU, all below the ``total`` known by now."""
        shift = self._grow(total, features[:FEW])
        for rows, here in split_rows(features, groups.to(features.device)):
            self._sums.index_add_(0, here, widen(rows, shift))
        self.counts += groups.bincount(minlength=total)

    def means(self) -> Tensor:
        """Return the group means minus ``shift``, shape (G, d); zero where a group is empty."""
        return self._sums / self.counts.clamp(min=1).to(self._sums)[:, None]

    def merge(self, other: GroupMeans, to: Tensor, total: int) -> None:
        """Add what ``other`` has seen; its group i is our group ``to[i]``."""
        if other.shift is None:
            return
        shift = self._grow(total, other.shift[None])
        moved = other.shift.to(shift) - shift
        sums = other._sums.to(shift) + other.counts.to(shift)[:, None] * moved
        to = to[: len(other.counts)]
        self._sums.index_add_(0, to.to(sums.device), sums)
        self.counts.index_add_(0, to, other.counts)

    def state(self) -> dict[str, Tensor]:
        if self.shift is None:
            return {}
        return {"counts": self.counts, "shift": self.shift, "sums": self._sums}

    def load(self, state: Mapping[str, Tensor]) -> None:
        if "sums" in state:
            self.counts, self.shift = state["counts"].clone(), state["shift"].clone()
            self._sums = state["sums"].clone()

    def _grow(self, total: int, first: Tensor) -> Tensor:
        """Make room for ``total`` groups; return the shift, the mean of the ``first`` rows seen."""
        if self.shift is None:
            self.shift = first.mean(dim=0, dtype=torch.float64)
            self._sums = self.shift.new_zeros(0, len(self.shift))
        self.counts, self._sums = _lengthen(self.counts, total), _lengthen(self._sums, total)
        return self.shift


class GroupScatter:
    """The d×d scatter Σ (x − x̄_g)(x − x̄_g)ᵀ of every group, merged by Chan's formula."""

    def __init__(self) -> None:
        self.counts = torch.zeros(0, dtype=torch.int64, device="cpu")
        self.means = torch.zeros(0, 0, dtype=torch.float64, device="cpu")
        self.scatter = torch.zeros(0, 0, 0, dtype=torch.float64, device="cpu")

    @property
    def finite(self) -> bool:
        """Whether every feature was finite: a mean keeps NaN and infinity for good."""
        return bool(self.means.isfinite().all())

    def update(self, features: Tensor, groups: Tensor, total: int) -> None:
        self._grow(total, features)
        order = torch.argsort(groups)
        present, counts = torch.unique_consecutive(groups[order], return_counts=True)
        parts = features.to(torch.float64)[order.to(features.device)].split(counts.tolist())
        for group, part in zip(present.tolist(), parts, strict=True):
            mean = part.mean(dim=0)
            deviation = part - mean
            self._add(group, len(part), mean, deviation.T @ deviation)

    def merge(self, other: GroupScatter, to: Tensor, total: int) -> None:
        if len(other.counts):
            self._grow(total, other.means)
        for theirs in torch.nonzero(other.counts)[:, 0].tolist():
            count = int(other.counts[theirs])
            self._add(int(to[theirs]), count, other.means[theirs], other.scatter[theirs])

    def squares(self, span: Span) -> Tensor:
        """Return what :class:`SpanSquares` would have summed, (G, 1 + R).

        Σ ‖A(x − x̄_k)‖² over a group = Tr(A S_g Aᵀ) + n_g ‖A(x̄_g − x̄_k)‖².
        """
        result = self.means.new_zeros(len(span.group_counts), span.columns)
        for g, count in enumerate(self.counts.tolist()):
            inside = ((span.matrix @ self.scatter[g]) * span.matrix).sum(dim=1)
            offset = span.matrix @ (self.means[g] - span.shift) - span.centres[:, g // span.folds]
            result[g] = (inside + count * offset.square()) @ span.membership
        return result

    def state(self) -> dict[str, Tensor]:
        return {"counts": self.counts, "means": self.means, "scatter": self.scatter}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.counts, self.means = state["counts"].to(torch.int64, copy=True), state["means"].clone()
        self.scatter = state["scatter"].clone()

    def _add(self, group: int, count: int, mean: Tensor, scatter: Tensor) -> None:
        """Update one group by a part with its own count, mean and scatter (Chan et al. 1983)."""
        before = int(self.counts[group])
        total = before + count
        delta = mean.to(self.means) - self.means[group]
        self.scatter[group] += scatter.to(delta) + delta.outer(delta) * (before * count / total)
        self.means[group] += delta * (count / total)
        self.counts[group] = total

    def _grow(self, total: int, like: Tensor) -> None:
        if not len(self.counts):
            self.means = like.new_zeros(0, like.shape[1], dtype=torch.float64)
            self.scatter = self.means.new_zeros(0, like.shape[1], like.shape[1])
        tables = (self.counts, self.means, self.scatter)
        self.counts, self.means, self.scatter = (_lengthen(table, total) for table in tables)


def _lengthen(table: Tensor, total: int) -> Tensor:
    """Return a table with zeros at its end, ``total`` rows long or as long as it is."""
    missing = total - len(table)
    return table if missing <= 0 else torch.cat([table, table.new_zeros(missing, *table.shape[1:])])


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
        contrasts: the weakest contrast of the class means in every column, shape (1 + R,).
    """

    def __init__(
        self, means: Tensor, counts: Tensor, shift: Tensor, folds: int, weighting: Weighting
    ) -> None:
        self.folds, self.group_counts, self.shift = folds, counts, shift
        self.kept = _leave_folds_out(counts.view(-1, folds))
        self.columns = len(self.kept)
        self.class_means = average_folds(means, self.kept[:1])[0]
        self.weights = class_weights(self.kept[0].sum(dim=1), weighting)
        matrix, whole_rank = whiten_between(self.class_means, self.weights)
        self.rank = int(whole_rank)
        self.matrix = matrix[: self.rank]
        self.centres = self.matrix @ self.class_means.T
        owners = [0] * self.rank
        self.contrasts = means.new_full((self.columns,), torch.nan)
        if self.columns > 1:
            # With fewer features than groups the features are the coordinates.
            wide = means.shape[1] > len(means)
            basis, upper = torch.linalg.qr(means.T) if wide else (None, means.T)
            self.contrasts = find_weakest_contrasts(upper.T, self.kept)
            fold_means = average_folds(upper.T, self.kept[1:])
            weights = self.weights.expand(len(fold_means), -1)
            matrix, ranks = whiten_between(fold_means, weights)
            # Rows beyond the largest rank are zero everywhere.
            rank = int(ranks.max())
            matrix = matrix[:, :rank]
            self.centres = torch.cat([self.centres, (matrix @ fold_means.mT).flatten(0, 1)])
            matrix = matrix.flatten(0, 1)
            matrix = matrix if basis is None else matrix @ basis.T
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
