"""Sums of features per token type: what a regression on one-hot targets needs, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from lawscope.statistics.feature_basis import FeatureBasis
from lawscope.statistics.rows_by_fold import TokenTypes

CODINGS = 32
TYPES_AT_A_TIME = 384
_CHUNK = 4096  # ids whose codes are drawn together
_SEED = 20240824


def codes(count: int) -> Tensor:
    """Gaussian codes of the token ids 0…count−1, shape (count, CODINGS); the same every time."""
    return _drawn(max(1, -(-count // _CHUNK)))[:count]


@lru_cache(maxsize=1)
def _drawn(chunks: int) -> Tensor:
    parts = []
    for chunk in range(chunks):
        generator = torch.Generator().manual_seed(_SEED + chunk)
        parts.append(
            torch.randn(_CHUNK, CODINGS, generator=generator, dtype=torch.float64, device="cpu")
        )
    return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class Addition:
    """Features of n targets on their way into the sums.

    Attributes:
        places: where each is to be added, shape (n,), or its codes, shape (n, CODINGS).
        apart: rows of the table, and sums that are to be added there in the end. Features narrower
            than the table are added up apart, in a third of the time that widening them takes.
    """

    places: Tensor
    apart: tuple[Tensor, Tensor] | None = None


class TokenSums:
    """n_v and s_v = Σ_{i: y_i = v} z_i of every token type v that occurs as a target.

    With M the centred second moment of all features, the residual of a regression on one-hot
    targets is 1 − Σ_v s_vᵀM⁻¹s_v / Σ_v n_v(1 − n_v/n) (s_v centred). The table is exact while it
    fits its budget; beyond it is folded into Σ_v s_v c_vᵀ with Gaussian codes c_v of the
    vocabulary, an unbiased estimate of the same number. Folding keeps what was seen: the state is
    the one that codings from the start would have reached.

    Args:
        dim: number of features d.
        budget: bytes the table may take.
        device: where the features live.

    Attributes:
        exact: whether the table is still there.
    """

    def __init__(self, dim: int, budget: int, device: torch.device | str = "cpu") -> None:
        self.dim, self.budget, self.exact = dim, budget, True
        self.counts = torch.zeros(0, dtype=torch.int64, device="cpu")
        # Of a type in the table, −1 if unseen.
        self._row = torch.zeros(0, dtype=torch.int64, device="cpu")
        self._types = 0
        self._sums = torch.zeros(0, dim, dtype=torch.float64, device=device)

    def begin(self, types: TokenTypes, dtype: torch.dtype) -> Addition:
        """Count n targets whose features come next, in parts, as numbers of a dtype."""
        self._count(types.ids, types.counts)
        if self.exact:
            self._find_rows(types.ids)
        device = self._sums.device
        if not self.exact:
            return Addition(codes(len(self.counts))[types.ids][types.places].to(device))
        rows = self._row[types.ids]
        if dtype == torch.float64:
            return Addition(rows[types.places].to(device))
        apart = torch.zeros(len(rows), self.dim, dtype=dtype, device=device)
        return Addition(types.places.to(device), (rows.to(device), apart))

    def add(self, addition: Addition, z: Tensor, part: slice) -> None:
        """Add the features z (m, d) of a part of the targets that :meth:`begin` has counted."""
        places = addition.places[part]
        if not self.exact:
            self._sums += places.to(z).T @ z
        else:
            (addition.apart[1] if addition.apart else self._sums).index_add_(0, places, z)

    def end(self, addition: Addition) -> None:
        """All parts have been added."""
        if addition.apart:
            rows, sums = addition.apart
            self._sums.index_add_(0, rows, sums.to(self._sums))

    def sums(self) -> tuple[Tensor, Tensor]:
        """Rows S and their weights' row sums w, so that S − w x̄ᵀ are the centred sums.

        Returns:
            One row per type that occurs and its n_v, or one row Σ_v c_v s_v per coding and its
            Σ_v c_v n_v.
        """
        device = self._sums.device
        if self.exact:
            present = torch.nonzero(self.counts)[:, 0]
            return self._sums[self._row[present].to(device)], self.counts[present].to(self._sums)
        weights = codes(len(self.counts)).T @ self.counts.to(torch.float64)
        return self._sums, weights.to(device)

    def chunks(self, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
        """What :meth:`sums` gives, in any order, in parts that stay in a processor's cache.

        Yields:
            Rows in fresh memory, and their weights, in a dtype.
        """
        rows, weights = (self._sums[: self._types], self._in_table()) if self.exact else self.sums()
        for start in range(0, len(rows), TYPES_AT_A_TIME):
            some = slice(start, start + TYPES_AT_A_TIME)
            yield rows[some].to(dtype, copy=True), weights[some].to(dtype)

    def spread(self) -> Tensor:
        """The total sum of squares that belongs to :meth:`sums`: one number, or one per coding."""
        counts = self.counts.to(torch.float64)
        if self.exact:
            return (counts * (1 - counts / counts.sum())).sum()[None]
        table = codes(len(counts))
        mean = (counts @ table) / counts.sum()
        return counts @ (table - mean).square()

    def merge(self, other: TokenSums, before: FeatureBasis, after: FeatureBasis) -> None:
        """Add sums whose coordinates ``before`` become ours, ``after``."""
        if not len(other.counts):
            return
        if not other.exact and self.exact:
            self._fold()
        present = torch.nonzero(other.counts)[:, 0]
        matrix, offset = before.onto(after)
        rows, weights = other.sums()
        moved = rows if matrix is None else rows @ matrix.to(rows)
        moved = (moved + weights[:, None] * offset.to(rows)).to(self._sums.device)
        self._count(present, other.counts[present])
        if self.exact:
            self._find_rows(present)
        if not other.exact:
            self._sums += moved
        elif self.exact:
            self._sums.index_add_(0, self._row[present].to(moved.device), moved)
        else:
            self._sums += codes(len(self.counts))[present].to(moved).T @ moved

    def state_dict(self) -> dict[str, Tensor]:
        """Everything as tensors."""
        rows, _ = self.sums()
        return {
            "counts": self.counts,
            "sums": rows,
            "exact": torch.tensor(self.exact, device="cpu"),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a state given by :meth:`state_dict`."""
        self.counts, self.exact = state["counts"].clone(), bool(state["exact"])
        self._sums = state["sums"].to(self._sums).clone()
        present = torch.nonzero(self.counts)[:, 0]
        self._row, self._types = torch.full_like(self.counts, -1), len(present)
        self._row[present] = torch.arange(len(present), device="cpu")

    def _count(self, ids: Tensor, times: Tensor) -> None:
        missing = int(ids.max()) + 1 - len(self.counts)
        if missing > 0:
            self.counts = torch.cat([self.counts, self.counts.new_zeros(missing)])
            self._row = torch.cat([self._row, self._row.new_full((missing,), -1)])
        self.counts.index_add_(0, ids, times)

    def _find_rows(self, ids: Tensor) -> None:
        """Give types a row, each named once, or fold the table when it would outgrow its budget."""
        new = ids[self._row[ids] < 0]
        needed = self._types + len(new)
        if 8 * needed * self.dim > self.budget:
            self._fold()
            return
        self._row[new] = torch.arange(self._types, needed, device="cpu")
        if needed > len(self._sums):
            most = max(self.budget // (8 * self.dim), needed)
            # Generous: memory that is not touched costs nothing, and a table that moves, its pages.
            room = self._sums.new_empty(min(max(2 * needed, 256), most), self.dim)
            room[: self._types] = self._sums[: self._types]
            self._sums = room
        self._sums[self._types : needed] = 0
        self._types = needed

    def _in_table(self) -> Tensor:
        """How often the type of each row of the table occurs."""
        present = torch.nonzero(self.counts)[:, 0]
        counts = torch.empty_like(present)
        counts[self._row[present]] = self.counts[present]
        return counts.to(self._sums)

    def _fold(self) -> None:
        """From sums per type to sums per coding."""
        seen = torch.nonzero(self._row >= 0)[:, 0]
        rows = self._sums[self._row[seen].to(self._sums.device)]
        self._sums = codes(len(self.counts))[seen].to(rows).T @ rows
        self.exact = False
