"""All that least squares of targets on a stream of features needs, gathered in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.statistics.base import Statistic, guarded, select_prefixed
from lawscope.statistics.moments import CoMoments, FeatureBasis, choose_basis, find_rank_tolerance
from lawscope.statistics.regression import Regression, regress
from lawscope.statistics.row_buffer import RowBuffer
from lawscope.statistics.token_sums import TokenSums

# Rows that are summed together; the first of them choose the coordinates.
BUFFER_ROWS = 4096
FIRST_ROWS_PER_FEATURE = 2

Precision = Literal["float64", "fast"]
Prepare = Callable[[Tensor, Tensor, torch.dtype], Tensor]


def subtract_shift(rows: Tensor, shift: Tensor, dtype: torch.dtype) -> Tensor:
    """Return rows minus the shift, in a dtype: features that are regressed on as they are."""
    return rows.to(dtype) - shift.to(dtype)


class PredictionMoments(Statistic):
    """Streaming least squares of q targets on d features, in folds.

    The first rows (twice d of them or more) are held until they show how the features are
    conditioned, which chooses the coordinates in which everything is summed; see
    :class:`~lawscope.statistics.moments.FeatureBasis`.

    Args:
        dim: number of features d.
        targets: number of targets q.
        folds: number of folds F.
        precision: "float64", or "fast": products of batches in float32, sums in float64.
        prepare: maps rows (n, d), a shift (d,) and a dtype to what is regressed on, minus the
            shift, in that dtype and in fresh memory.
        token_bytes: budget for the sums per token type of each target; 0 for none.
        dtype: of the features as the network makes them; sets what counts as rounding.
        device: where the features, and so the sums, live.
    """

    def __init__(
        self,
        dim: int,
        targets: int = 1,
        *,
        folds: int = 1,
        precision: Precision = "float64",
        prepare: Prepare = subtract_shift,
        token_bytes: int = 0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> None:
        self.dim, self.targets, self.folds, self.precision = dim, targets, folds, precision
        self.prepare, self.token_bytes, self.dtype = prepare, token_bytes, dtype
        self.device, fast = torch.device(device), precision == "fast"
        self.work = torch.float32 if fast else torch.float64
        self.tolerance = find_rank_tolerance(torch.float32 if fast else dtype)
        self.reset()

    @property
    def settings(self) -> dict[str, str | int | float | bool]:
        return {
            "features": self.dim,
            "targets": self.targets,
            "folds": self.folds,
            "precision": self.precision,
            "prepare": getattr(self.prepare, "__name__", repr(self.prepare)),
            "onehot": self.token_bytes > 0,
            "dtype": str(self.dtype),
        }

    @property
    def n(self) -> int:
        return round(float(self.moments.counts.sum())) + len(self._buffer)

    @guarded
    def update(self, features: Tensor, targets: Tensor, folds: Tensor) -> None:
        """Add rows (n, d), what is to be predicted there (n, q) and their folds (n,), on the CPU.

        Targets are token ids where those are summed.
        """
        if features.shape != (len(folds), self.dim):
            raise LawscopeError(
                f"The features have shape {tuple(features.shape)}; {len(folds)} targets and "
                f"{self.dim} features were expected."
            )
        if len(folds):
            self._add(self._buffer.append(features, targets, folds))

    @guarded
    def compute(self) -> Regression:
        if self.n <= self.dim:
            raise LawscopeError(
                f"{self.n} rows for {self.dim} features: a regression would fit them exactly "
                f"and say nothing; pass more than {self.dim}, better {50 * self.dim}."
            )
        self._add(self._buffer.flush())
        if not self.moments.finite:
            raise LawscopeError(
                "The features or targets contain values that are NaN, infinite or too large to be "
                "squared; clean or scale them."
            )
        assert self.basis is not None
        tokens: Sequence[TokenSums | None] = self.tokens or [None] * self.targets
        return regress(self.moments, self.basis, tokens, self.tolerance, self.work)

    def _start(self) -> None:
        self.moments = CoMoments(self.dim, self.targets, self.folds, self.device)
        tables = range(self.targets if self.token_bytes else 0)
        self.tokens = [TokenSums(self.dim, self.token_bytes, self.device) for _ in tables]
        self.basis: FeatureBasis | None = None
        self.target_shift = torch.zeros(self.targets, dtype=torch.float64, device="cpu")
        self.first_rows = max(FIRST_ROWS_PER_FEATURE * self.dim, BUFFER_ROWS)
        self._buffer = RowBuffer(self.first_rows * self.dim)

    def _merge(self, other: PredictionMoments) -> None:
        if other.basis is not None:
            if self.basis is None:
                self.basis, self.target_shift = other.basis, other.target_shift
            shifts = other.target_shift, self.target_shift
            self.moments.merge(other.moments.move(other.basis, self.basis, *shifts))
            for ours, theirs in zip(self.tokens, other.tokens, strict=True):
                ours.merge(theirs, other.basis, self.basis)
        if (rows := other._buffer.rows()) is not None:
            self.update(rows[0].to(self.device), *rows[1:])

    def _state(self) -> dict[str, Tensor]:
        state = {f"moments.{k}": v for k, v in self.moments.state().items()}
        state["target_shift"] = self.target_shift
        state |= {f"basis.{k}": v for k, v in (self.basis.state() if self.basis else {}).items()}
        for i, sums in enumerate(self.tokens):
            state |= {f"tokens{i}.{k}": v for k, v in sums.state().items()}
        if (rows := self._buffer.rows()) is not None:
            state |= dict(zip(("features", "targets", "folds"), rows, strict=True))
        return state

    def _load(self, state: Mapping[str, Tensor]) -> None:
        self.moments.load(select_prefixed(state, "moments."))
        saved = select_prefixed(state, "basis.")
        basis = {k: v.to(self.moments.zz, copy=True) for k, v in saved.items()}
        self.basis = FeatureBasis(**basis) if basis else None
        self.target_shift = state["target_shift"].clone()
        for i, sums in enumerate(self.tokens):
            sums.load(select_prefixed(state, f"tokens{i}."))
        if "features" in state:
            self.update(state["features"].to(self.device), state["targets"], state["folds"])

    def _add(self, due: list[tuple[Tensor, ...]]) -> None:
        for features, targets, folds in due:
            if self.basis is None:
                # The first rows choose the coordinates, in float64.
                zero = torch.zeros(self.dim, dtype=torch.float64, device=features.device)
                first = self.prepare(features[: self.first_rows], zero, torch.float64)
                self.basis = choose_basis(first, self.tolerance)
                self.target_shift = targets.to(torch.float64).mean(dim=0)
            self._sum(self.basis, features, targets, folds)

    def _sum(self, basis: FeatureBasis, features: Tensor, targets: Tensor, folds: Tensor) -> None:
        """Add rows fold by fold, in slices."""
        order = folds.argsort(stable=True)
        features, targets = features[order.to(features.device)], targets[order]
        y = torch.ones(len(targets), 1 + self.targets, dtype=torch.float64, device="cpu")
        y[:, 1:] = targets.to(torch.float64) - self.target_shift
        y = y.to(features.device)
        start = 0
        for fold, size in enumerate(folds.bincount().tolist()):
            for at in range(start, start + size, BUFFER_ROWS):
                part = slice(at, min(at + BUFFER_ROWS, start + size))
                z = self.prepare(features[part], basis.shift, self.work)
                if basis.matrix is not None:
                    z = z @ basis.matrix.to(z)
                self.moments.update(z, y[part], fold)
                for i, sums in enumerate(self.tokens):
                    sums.update(targets[part, i], z)
            start += size
