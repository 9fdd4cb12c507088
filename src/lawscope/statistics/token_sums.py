"""Sums of features per token type: what a regression on one-hot targets needs, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

import torch
from torch import Tensor

from lawscope.statistics.moments import FeatureBasis

CODINGS = 32
_CHUNK = 4096
_SEED = 20240824


def draw_codes(count: int) -> Tensor:
    """Return Gaussian codes of the token ids 0…count−1, shape (count, CODINGS), always the same."""
    return _draw_chunks(max(1, -(-count // _CHUNK)))[:count]


@lru_cache(maxsize=1)
def _draw_chunks(chunks: int) -> Tensor:
    # Chunk by chunk, so that the codes of an id do not depend on how many ids there are.
    seeds = (torch.Generator().manual_seed(_SEED + chunk) for chunk in range(chunks))
    draw = partial(torch.randn, _CHUNK, CODINGS, dtype=torch.float64, device="cpu")
    return torch.cat([draw(generator=seed) for seed in seeds])


class TokenSums:
    """n_v and s_v = Σ_{i: y_i = v} z_i of every token type v that occurs as a target.

    With M the centred second moment of all features, the residual of a regression on one-hot
    targets is 1 − Σ_v s_vᵀM⁻¹s_v / Σ_v n_v(1 − n_v/n) (s_v centred). The table is exact while it
    fits its budget of bytes; beyond it is folded into Σ_v s_v c_vᵀ with Gaussian codes c_v of the
    vocabulary, an unbiased estimate of the same number. Folding keeps what was seen: the state is
    the one that codings from the start would have reached.
    """

    def __init__(self, dim: int, budget: int, device: torch.device | str = "cpu") -> None:
        self.dim, self.budget, self.exact = dim, budget, True
        self.counts = torch.zeros(0, dtype=torch.int64, device="cpu")
        # The row of a token id in the table, −1 if it has not been seen.
        self._row = torch.zeros(0, dtype=torch.int64, device="cpu")
        self._table = torch.zeros(0, dim, dtype=torch.float64, device=device)

    def update(self, ids: Tensor, z: Tensor) -> None:
        """Add the features z (n, d) of the targets ``ids`` (n,)."""
        self._count(*ids.unique(return_counts=True))
        self._add(ids, z)

    def _add(self, ids: Tensor, z: Tensor) -> None:
        if self.exact:
            self._table.index_add_(0, self._row[ids].to(z.device), z.to(self._table))
        else:
            self._table += draw_codes(len(self.counts))[ids].to(z).T @ z

    def sums(self) -> tuple[Tensor, Tensor]:
        """Return rows S and the counts w that belong to them: S − w x̄ᵀ are the centred sums.

        One row per type that occurs and its n_v, or one row Σ_v c_v s_v per coding and its
        Σ_v c_v n_v.
        """
        if self.exact:
            present = torch.nonzero(self.counts)[:, 0]
            rows = self._table[self._row[present].to(self._table.device)]
            return rows, self.counts[present].to(rows)
        weights = draw_codes(len(self.counts)).T @ self.counts.to(torch.float64)
        return self._table, weights.to(self._table)

    def spread(self) -> Tensor:
        """Return the total sum of squares that belongs to :meth:`sums`: one, or one per coding."""
        counts = self.counts.to(torch.float64)
        if self.exact:
            return (counts * (1 - counts / counts.sum())).sum()[None]
        codes = draw_codes(len(counts))
        mean = (counts @ codes) / counts.sum()
        return counts @ (codes - mean).square()

    def merge(self, other: TokenSums, before: FeatureBasis, after: FeatureBasis) -> None:
        """Add sums whose coordinates ``before`` become ours, ``after``."""
        if not len(other.counts):
            return
        if not other.exact:
            self._fold()
        matrix, offset = before.onto(after)
        rows, weights = other.sums()
        moved = rows if matrix is None else rows @ matrix.to(rows)
        moved = (moved + weights[:, None] * offset.to(rows)).to(self._table)
        present = torch.nonzero(other.counts)[:, 0]
        self._count(present, other.counts[present])
        if other.exact:
            self._add(present, moved)
        else:
            self._table += moved

    def state(self) -> dict[str, Tensor]:
        exact = torch.tensor(self.exact, device="cpu")
        return {"counts": self.counts, "sums": self.sums()[0], "exact": exact}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.counts, self.exact = state["counts"].clone(), bool(state["exact"])
        self._table = state["sums"].to(self._table, copy=True)
        present = torch.nonzero(self.counts)[:, 0]
        self._row = torch.full_like(self.counts, -1)
        self._row[present] = torch.arange(len(present), device="cpu")

    def _count(self, types: Tensor, times: Tensor) -> None:
        """Count types, each named once, and give new ones a row while the budget allows it."""
        missing = int(types.max()) + 1 - len(self.counts)
        if missing > 0:
            self.counts = torch.cat([self.counts, self.counts.new_zeros(missing)])
            self._row = torch.cat([self._row, self._row.new_full((missing,), -1)])
        new = types[self._row[types] < 0]
        have = int((self._row >= 0).sum())
        needed = have + len(new)
        if self.exact and 8 * needed * self.dim > self.budget:
            self._fold()
        if self.exact:
            self._row[new] = torch.arange(have, needed, device="cpu")
            if needed > len(self._table):
                # Twice as many as needed, so that the table is copied rarely.
                most = max(self.budget // (8 * self.dim), needed)
                room = self._table.new_zeros(min(2 * needed, most), self.dim)
                room[: len(self._table)] = self._table
                self._table = room
        self.counts.index_add_(0, types, times)

    def _fold(self) -> None:
        """Go from sums per type to sums per coding."""
        if self.exact:
            seen = torch.nonzero(self._row >= 0)[:, 0]
            rows = self._table[self._row[seen].to(self._table.device)]
            self._table = draw_codes(len(self.counts))[seen].to(rows).T @ rows
            self.exact = False
