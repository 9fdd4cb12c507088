"""The whole d×d scatter of every group: one pass, for few features and many samples."""

from __future__ import annotations

import torch
from torch import Tensor

from lawscope.statistics.span_scatter import Span

FLUSH_ROWS = 4096


class FullScatter:
    """Σ (x − x̄_g)(x − x̄_g)ᵀ per group, shape (G, d, d), merged by Chan's formula.

    Rows are gathered until there are enough of them for one matrix product per group.
    """

    def __init__(self) -> None:
        self.counts = torch.zeros(0, dtype=torch.float64, device="cpu")
        self.means = torch.zeros(0, 0, dtype=torch.float64, device="cpu")
        self.scatter = torch.zeros(0, 0, 0, dtype=torch.float64, device="cpu")
        self._waiting: list[tuple[Tensor, Tensor]] = []
        self._waiting_rows = 0

    @property
    def finite(self) -> bool:
        """Whether every feature was finite: a mean keeps NaN and infinity for good."""
        self.flush()
        return bool(self.means.isfinite().all())

    def update(self, features: Tensor, rows: Tensor) -> None:
        """Add a batch; ``features`` (B, d), ``rows`` (B,) on the CPU."""
        self._waiting.append((features.to(torch.float64, copy=True), rows))
        self._waiting_rows += len(rows)
        if self._waiting_rows >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Work off the rows that wait."""
        if not self._waiting:
            return
        features = torch.cat([f for f, _ in self._waiting])
        rows = torch.cat([r for _, r in self._waiting])
        self._waiting, self._waiting_rows = [], 0
        self._room(int(rows.max()) + 1, features)
        order = torch.argsort(rows)
        present, counts = torch.unique_consecutive(rows[order], return_counts=True)
        parts = features[order.to(features.device)].split(counts.tolist())
        for row, part in zip(present.tolist(), parts, strict=True):
            mean = part.mean(dim=0)
            deviation = part - mean
            self._add(row, len(part), mean, deviation.T @ deviation)

    def merge(self, other: FullScatter, to_rows: Tensor) -> None:
        """Add what ``other`` has seen; its row i is our row ``to_rows[i]``."""
        self.flush()
        other.flush()
        if not len(other.counts):
            return
        self._room(int(to_rows.max()) + 1, other.means)
        for theirs, ours in enumerate(to_rows[: len(other.counts)].tolist()):
            count = float(other.counts[theirs])
            if count:
                self._add(ours, count, other.means[theirs], other.scatter[theirs])

    def squares(self, span: Span) -> Tensor:
        """What :class:`SpanScatter` would have summed, shape (G, R).

        Σ ‖A(x − x̄_k)‖² over a group = Tr(A S_g Aᵀ) + n_g ‖A(x̄_g − x̄_k)‖².
        """
        self.flush()
        matrix, centres = span.all_frames()
        device = self.means.device
        result = torch.zeros(len(span.group_counts), len(matrix), dtype=torch.float64, device="cpu")
        for g in range(len(self.counts)):
            inside = ((matrix @ self.scatter[g]) * matrix).sum(dim=(1, 2))
            offset = matrix @ (self.means[g] - span.shift) - centres[:, :, g // span.folds]
            shifted = offset.square().sum(dim=1)
            result[g] = (inside + self.counts[g].to(device) * shifted).cpu()
        return result

    def state(self) -> dict[str, Tensor]:
        """The tensors that make up the state."""
        self.flush()
        return {
            "scatter_counts": self.counts,
            "scatter_means": self.means,
            "scatter": self.scatter,
        }

    def load(self, state: dict[str, Tensor]) -> None:
        """Take over a state given by :meth:`state`."""
        self.counts = state["scatter_counts"].clone()
        self.means = state["scatter_means"].clone()
        self.scatter = state["scatter"].clone()
        self._waiting, self._waiting_rows = [], 0

    def _add(self, row: int, count: float, mean: Tensor, scatter: Tensor) -> None:
        """Chan's update of one group by a part with its own count, mean and scatter."""
        before = float(self.counts[row])
        total = before + count
        delta = mean - self.means[row]
        self.scatter[row] += scatter + torch.outer(delta, delta) * (before * count / total)
        self.means[row] += delta * (count / total)
        self.counts[row] = total

    def _room(self, groups: int, like: Tensor) -> None:
        missing = groups - len(self.counts)
        if missing <= 0:
            return
        d = like.shape[1]
        have = len(self.counts)
        means = torch.zeros(groups, d, dtype=torch.float64, device=like.device)
        scatter = torch.zeros(groups, d, d, dtype=torch.float64, device=like.device)
        means[:have], scatter[:have] = self.means.view(have, d), self.scatter.view(have, d, d)
        counts = torch.cat([self.counts, torch.zeros(missing, dtype=torch.float64, device="cpu")])
        self.counts, self.means, self.scatter = counts, means, scatter
