"""Sums per group: counts, means and scatter."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lawscope.statistics.row_buffer import split_rows
from lawscope.statistics.span import Directions, Span, all_finite, choose_scale

FEW = 64


class GroupMeans:
    """Counts n_g and sums Σ (x − shift)·scale of every group.

    The shift is the mean of the first few samples. Without it a mean of 1e7 would eat seven of the
    sixteen digits of a sum; with it the digits go to the differences that matter. ``single`` sums
    features of at most float32 in float32, at half the memory; their scale is the power of two that
    brings the first samples near 1, because the squares of small activations vanish in float32.
    """

    def __init__(self, single: bool = False) -> None:
        self.single, self.scale = single, 1.0
        self.counts = torch.zeros(0, dtype=torch.int64, device="cpu")
        self.shift: Tensor | None = None
        self._sums = torch.zeros(0, 0, dtype=torch.float64, device="cpu")

    @property
    def finite(self) -> bool:
        """Whether every feature was finite: a sum keeps NaN and infinity for good."""
        return all_finite(self._sums)

    def update(self, features: Tensor, groups: Tensor, total: int) -> None:
        """Add features (B, d) of groups (B,) on the CPU, all below the ``total`` known by now."""
        shift = self._grow(total, features[:FEW])
        for rows, here in split_rows(features, groups.to(features.device)):
            centred = rows.to(shift.dtype, copy=True).sub_(shift)
            self._sums.index_add_(0, here, centred.mul_(self.scale) if self.single else centred)
        self.counts += groups.bincount(minlength=total)

    def means(self) -> Tensor:
        """Return the group means minus ``shift``, shape (G, d); zero where a group is empty."""
        return self._sums / self.counts.clamp(min=1).to(self._sums)[:, None]

    def take_means(self) -> Tensor:
        """Return the same, times ``scale``, in the memory of the sums, which are gone then."""
        return self._sums.div_(self.counts.clamp(min=1).to(self._sums)[:, None])

    def merge(self, other: GroupMeans, to: Tensor, total: int) -> None:
        """Add what ``other`` has seen; its group i is our group ``to[i]``."""
        if other.shift is None:
            return
        if self.shift is None:
            self.shift, self.scale = other.shift, other.scale
            self._sums = other.shift.new_zeros(0, len(other.shift))
        shift = self._grow(total, other.shift[None])
        moved = other.shift.to(shift) - shift
        sums = other._sums.to(shift) / other.scale + other.counts.to(shift)[:, None] * moved
        to = to[: len(other.counts)]
        self._sums.index_add_(0, to.to(sums.device), sums * self.scale)
        self.counts.index_add_(0, to, other.counts)

    def state(self) -> dict[str, Tensor]:
        if self.shift is None:
            return {}
        scale = torch.tensor(self.scale, dtype=torch.float64, device="cpu")
        return {"counts": self.counts, "shift": self.shift, "sums": self._sums, "scale": scale}

    def load(self, state: Mapping[str, Tensor]) -> None:
        if "sums" in state:
            self.counts, self.shift = state["counts"].clone(), state["shift"].clone()
            self._sums, self.scale = state["sums"].clone(), float(state["scale"])

    def _grow(self, total: int, first: Tensor) -> Tensor:
        """Make room for ``total`` groups; return the shift, the mean of the ``first`` rows seen."""
        if self.shift is None:
            wide = torch.promote_types(first.dtype, torch.float32) if self.single else torch.float64
            self.shift = first.to(wide).mean(dim=0)
            self._sums = self.shift.new_zeros(0, len(self.shift))
            if self.single:
                self.scale = choose_scale(first - self.shift)
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
        assert isinstance(span.directions, Directions)
        directions, shift = span.directions.table, span.directions.shift
        for g, count in enumerate(self.counts.tolist()):
            inside = ((directions @ self.scatter[g]) * directions).sum(dim=1)
            offset = directions @ (self.means[g] - shift) - span.centres[:, g // span.folds]
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
    missing = table.new_zeros(max(0, total - len(table)), *table.shape[1:])
    if not len(table) or not len(missing):
        return table if len(table) else missing
    return torch.cat([table, missing])
