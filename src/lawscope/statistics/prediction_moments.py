"""All that least squares of targets on a stream of features needs, gathered in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.statistics.blas_threads import one_blas_thread
from lawscope.statistics.comoments import CoMoments, Precision
from lawscope.statistics.feature_basis import (
    RESOLVED,
    RESOLVED_FAST,
    FeatureBasis,
    ill_conditioned,
    rank_tolerance,
    whitening_basis,
)
from lawscope.statistics.own_precision import own_precision
from lawscope.statistics.regression import Regression, regress
from lawscope.statistics.rows_by_fold import RowLabels, Rows, by_fold
from lawscope.statistics.token_sums import TokenSums

JOINED_ROWS = 1024  # smaller batches wait for each other: a product of few rows is slow
JOINED_NUMBERS, MOST_JOINED = 2**22, 8192  # rows times d, and rows; narrow features wait for more
CHUNK_ROWS = 4096  # widened at a time
FIRST_ROWS, MOST_FIRST = 2, 8  # times d: what is looked at before coordinates are chosen

Prepare = Callable[[Tensor, Tensor, torch.dtype], Tensor]


def centred(rows: Tensor, shift: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows as they are, minus the shift."""
    return rows.to(dtype) - shift.to(dtype)


class PredictionMoments:
    """Streaming least squares of q targets on d features, in folds.

    The first rows (twice d of them or more) are held until they show how the features are
    conditioned, which chooses the coordinates in which everything is summed; see
    :class:`FeatureBasis`.

    Args:
        dim: number of features d.
        targets: number of targets q.
        folds: number of folds F.
        precision: "float64", or "fast": products of batches in float32, sums in float64.
        prepare: maps rows (n, d), a shift (d,) and a dtype to what is regressed on, minus the
            shift, in that dtype; in fresh memory.
        token_bytes: budget for the sums per token type of each target; 0 for none.
        dtype: of the features as the network makes them; sets what counts as rounding.
        device: where the features, and so the sums, live.

    Attributes:
        whole: False where summing failed half way: some rows are in some of the sums only.
    """

    @torch.inference_mode(False)  # sums of one mode could not go on in the other
    def __init__(
        self,
        dim: int,
        targets: int = 1,
        *,
        folds: int = 1,
        precision: Precision = "float64",
        prepare: Prepare = centred,
        token_bytes: int = 0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> None:
        self.dim, self.folds, self.prepare = dim, folds, prepare
        fast = precision == "fast"
        self.work = torch.float32 if fast else torch.float64
        self.resolved = RESOLVED_FAST if fast else RESOLVED
        self.tolerance = rank_tolerance(torch.float32 if fast else dtype)
        self.moments = CoMoments(dim, targets, folds, device)
        self.tokens = [TokenSums(dim, token_bytes, device) for _ in range(targets)]
        self.tokens = self.tokens if token_bytes else []
        self.basis: FeatureBasis | None = None
        self.target_shift = torch.zeros(targets, dtype=torch.float64, device="cpu")
        self._waiting: list[Rows] = []
        self.whole = True

    @property
    def n(self) -> int:
        """Rows seen."""
        return round(float(self.moments.counts.sum())) + self._waiting_rows

    @property
    def device(self) -> torch.device:
        """Where the sums live."""
        return self.moments.yz.device

    @property
    def _waiting_rows(self) -> int:
        return sum(len(labels) for _, labels in self._waiting)

    def update(self, features: Tensor, labels: RowLabels, *, defer: bool = False) -> None:
        """Add rows.

        Args:
            features: shape (n, d), on the statistic's device; kept for a while, so not to be
                overwritten.
            labels: their folds and q targets; token ids where sums per token type are kept.
                Statistics that are given the same object share what follows from it.
            defer: leave what is due to who calls :meth:`work_off`, up to twice as many rows.
        """
        if not len(labels):
            return
        self._waiting.append((features, labels))
        if self._waiting_rows >= (2 if defer else 1) * self._enough:
            self.work_off()

    def withdraw(self, labels: RowLabels) -> None:
        """Take back rows given with these labels that have not been summed yet."""
        self._waiting = [rows for rows in self._waiting if rows[1] is not labels]

    @property
    def due(self) -> bool:
        """Whether enough rows wait to be worked off."""
        return self._waiting_rows >= self._enough

    @property
    def _enough(self) -> int:
        joined = min(JOINED_NUMBERS // self.dim, MOST_JOINED)
        return max(JOINED_ROWS, joined if self.basis else FIRST_ROWS * self.dim)

    @torch.inference_mode(False)
    def compute(self) -> Regression:
        """The regressions on everything seen.

        Raises:
            LawscopeError: not more rows than features, or values that are not finite.
        """
        if self.n <= self.dim:
            raise LawscopeError(
                f"{self.n} rows for {self.dim} features: a regression would fit them exactly "
                f"and say nothing; pass more than {self.dim}, better {50 * self.dim}."
            )
        self.work_off()
        if not self.moments.finite:
            raise LawscopeError(
                "The features or targets contain values that are NaN, infinite or too large to be "
                "squared; clean or scale them."
            )
        assert self.basis is not None
        tokens: Sequence[TokenSums | None] = self.tokens or [None] * len(self.target_shift)
        rules = self.tolerance, self.resolved, self.work
        with own_precision(self.device.type), one_blas_thread():
            return regress(self.moments, self.basis, tokens, *rules)

    @torch.inference_mode(False)
    def merge(self, other: PredictionMoments) -> None:
        """Add what another statistic of the same settings has seen, in another process say."""
        if self.basis is None and other.basis is not None:
            self.basis, self.target_shift = other.basis, other.target_shift
        if other.basis is not None:
            assert self.basis is not None
            shifts = other.target_shift, self.target_shift
            self.moments.merge(other.moments.moved(other.basis, self.basis, *shifts))
            for ours, theirs in zip(self.tokens, other.tokens, strict=True):
                ours.merge(theirs, other.basis, self.basis)
        for waiting in other._waiting:
            self.update(waiting[0].to(self.device), waiting[1])

    def state_dict(self) -> dict[str, Tensor]:
        """Everything as tensors; rows that are still held are part of it."""
        if self.basis is not None:
            self.work_off()
        state = {f"moments.{k}": v for k, v in self.moments.state_dict().items()}
        state["target_shift"] = self.target_shift
        state |= {f"basis.{k}": v for k, v in (self.basis.state if self.basis else {}).items()}
        for i, sums in enumerate(self.tokens):
            state |= {f"tokens{i}.{k}": v for k, v in sums.state_dict().items()}
        if self._waiting:
            features, labels = by_fold(self._waiting)
            held = {"features": features, "targets": labels.targets, "folds": labels.folds}
            state |= {f"held.{name}": tensor for name, tensor in held.items()}
        return state

    @torch.inference_mode(False)
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a state given by :meth:`state_dict` of a statistic of the same settings.

        Raises:
            LawscopeError: the state is of other settings.
        """
        if state["moments.yz"].shape != self.moments.yz.shape or (
            self.tokens and f"tokens{len(self.tokens) - 1}.counts" not in state
        ):
            raise LawscopeError(
                f"The state has folds, targets, features {tuple(state['moments.yz'].shape)} and "
                f"the statistic {tuple(self.moments.yz.shape)}; make it with the same settings."
            )
        self.moments.load_state_dict(_inside(state, "moments."))
        basis = {k: v.to(self.moments.yz) for k, v in _inside(state, "basis.").items()}
        self.basis = FeatureBasis(**basis) if basis else None
        self.target_shift = state["target_shift"].clone()
        for i, sums in enumerate(self.tokens):
            sums.load_state_dict(_inside(state, f"tokens{i}."))
        held = _inside(state, "held.")
        self._waiting, self.whole = [], True
        if held:
            labels = RowLabels(held["targets"], held["folds"])
            self._waiting = [(held["features"].to(self.device), labels)]

    @torch.inference_mode(False)
    def work_off(self) -> None:
        """Sum the rows that wait, if any; the first of them must be more than d."""
        if not self._waiting:
            return
        features, labels = by_fold(self._waiting)
        self._waiting, self.whole = [], False
        with own_precision(self.device.type), one_blas_thread():
            if self.basis is None:
                self._begin(features, labels)
            else:
                self._sum(features, labels, self.work)
        self.whole = True

    def _begin(self, features: Tensor, labels: RowLabels) -> None:
        """Choose coordinates by the first rows.

        Products in float32 show when features are well conditioned. Where they do not, a small
        direction may be their rounding, and products in float64 tell.
        """
        zero = torch.zeros(self.dim, dtype=torch.float64, device=features.device)
        prepared = self.prepare(features, zero, self.work)
        self.basis = FeatureBasis(prepared.mean(dim=0, dtype=torch.float64))
        self.target_shift = labels.targets.double().mean(dim=0)
        first = min(MOST_FIRST * self.dim, len(labels))
        sums = prepared[:first].sum(dim=1).double()
        del prepared
        of_sums = float((sums - sums.mean()).square().sum())
        begin = labels if first == len(labels) else labels[:first]
        for dtype in dict.fromkeys([self.work, torch.float64]):
            self._sum(features[:first], begin, dtype)
            if self._good_as_they_are(dtype, of_sums):
                break
            self._forget()
        else:
            self.basis = whitening_basis(
                self.prepare(features, zero, torch.float64), self.tolerance
            )
            first = 0
        if first < len(labels):
            self._sum(features[first:], labels[first:], self.work)

    def _good_as_they_are(self, dtype: torch.dtype, of_sums: float) -> bool:
        """Whether the features need no other coordinates, by sums of products in a dtype."""
        assert self.basis is not None
        total, n = self.moments.yz[:, 0].sum(dim=0), float(self.moments.counts.sum())
        zz = self.moments.zz.total().addr_(total, total, alpha=-1 / n)
        if not bool(zz.isfinite().all()):
            # Nothing to choose with NaN among the features; who asks for a result is told.
            return dtype == torch.float64
        least, narrow = self.basis.rounding(n), dtype == torch.float32
        return not ill_conditioned(zz, least, self.tolerance, of_sums, narrow=narrow)

    def _forget(self) -> None:
        """Empty sums."""
        q, device = len(self.target_shift), self.device
        self.moments = CoMoments(self.dim, q, self.folds, device)
        self.tokens = [TokenSums(self.dim, old.budget, device) for old in self.tokens]

    def _sum(self, features: Tensor, labels: RowLabels, dtype: torch.dtype) -> None:
        """Add rows that are sorted by fold, one fold at a time: widened rows stay in a cache."""
        assert self.basis is not None
        y = torch.ones(len(labels), 1 + len(self.target_shift), dtype=torch.float64, device="cpu")
        y[:, 1:] = labels.targets.double() - self.target_shift
        y = y.to(features.device)
        types = labels.types if self.tokens else []
        tokens = [
            (sums, sums.begin(each, dtype)) for sums, each in zip(self.tokens, types, strict=True)
        ]
        start = 0
        for fold, size in enumerate(labels.sizes):
            for part in _slices(start, start + size, CHUNK_ROWS):
                z = self.prepare(features[part], self.basis.shift, dtype)
                if self.basis.matrix is not None:
                    z = z @ self.basis.matrix.to(z)
                self.moments.update(z, y[part], fold)
                for sums, addition in tokens:
                    sums.add(addition, z, part)
            start += size
        for sums, addition in tokens:
            sums.end(addition)


def _slices(start: int, stop: int, most: int) -> list[slice]:
    """Of ``most`` rows each, from start to stop."""
    return [slice(i, min(i + most, stop)) for i in range(start, stop, most)]


def _inside(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The part of a state under a prefix."""
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
