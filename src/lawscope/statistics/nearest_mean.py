"""The classifier against the nearest class mean, and the spread about the means."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.statistics.base import Statistic, guarded
from lawscope.statistics.row_buffer import split_rows

_SQUARES = ("squares", "spreads")
_FIELDS = ("counts", *_SQUARES, "correct", "disagreeing", "nearest_correct")


@dataclass(frozen=True, eq=False)
class Decisions:
    """Sums over the samples of each class, shape (K,) each."""

    counts: NDArray[np.int64]
    squares: NDArray[np.float64]  # Σ ‖h‖²
    spreads: NDArray[np.float64]  # Σ ‖h − h̄_k‖²
    correct: NDArray[np.int64]  # given to their class by the classifier, among all rows of the head
    # the classifier and the nearest mean choose differently (NC4 of Papyan et al. 2020)
    disagreeing: NDArray[np.int64]
    nearest_correct: NDArray[np.int64]  # nearest to the mean of their class


class NearestMean(Statistic):
    """Streaming comparison of a linear classifier with the nearest class mean.

    Args:
        means: class means h̄_k of all the data, shape (K, p), float64.
        weight: the classifier, shape (rows, p), rows ≥ K.
        bias: shape (rows,), or None.
        rows: row of the classifier that each class has, shape (K,).
    """

    def __init__(self, means: Tensor, weight: Tensor, bias: Tensor | None, rows: Tensor) -> None:
        if len(rows) != len(means):
            raise LawscopeError(f"{len(means)} class means, but {len(rows)} rows of the head.")
        with torch.inference_mode(False):
            self.means = means.to(torch.float64, copy=True)
            device = self.means.device
            self.weight, self.rows = weight.to(device, torch.float64), rows.to(device)
            self.bias = self.means.new_zeros(len(weight)) if bias is None else bias.to(self.means)
            # Distances are compared about the centre, where their digits are.
            self.centre = self.means.mean(dim=0)
            self.offsets = self.means - self.centre
        self.reset()

    @property
    def settings(self) -> dict[str, str | int | float | bool]:
        means = self.means.cpu().numpy().tobytes()
        return {"class means": hashlib.sha256(means).hexdigest()[:12]}

    @guarded
    def update(self, features: Tensor, positions: Tensor) -> None:
        """Add a batch: ``features`` (B, p), position of each sample's class (B,)."""
        for rows, here in split_rows(features, positions.to(self.means.device)):
            x = rows.to(self.means)
            logits = x @ self.weight.T + self.bias
            nearness = (x - self.centre) @ self.offsets.T - self.offsets.square().sum(dim=1) / 2
            chosen, nearest = logits[:, self.rows].argmax(dim=1), nearness.argmax(dim=1)
            # In the order of _FIELDS.
            per_sample = (
                torch.ones_like(here),
                x.square().sum(dim=1),
                (x - self.means[here]).square().sum(dim=1),
                logits.argmax(dim=1) == self.rows[here],
                chosen != nearest,
                nearest == here,
            )
            columns = torch.stack([each.to(self._sums) for each in per_sample], dim=1)
            self._sums.index_add_(0, here, columns)

    @guarded
    def compute(self) -> Decisions:
        found = dict(zip(_FIELDS, self._sums.T.cpu().numpy().copy(), strict=True))
        counted = {name: found[name].astype(np.int64) for name in _FIELDS if name not in _SQUARES}
        return Decisions(**found | counted)

    def _start(self) -> None:
        self._sums = self.means.new_zeros(len(self.means), len(_FIELDS))

    def _merge(self, other: NearestMean) -> None:
        self._sums += other._sums.to(self._sums)

    def _state(self) -> dict[str, Tensor]:
        return {"sums": self._sums}

    def _load(self, state: Mapping[str, Tensor]) -> None:
        self._sums = state["sums"].to(self._sums, copy=True)
