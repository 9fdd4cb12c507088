"""What needs the class means first: spread about them, and who decides like the nearest mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lawscope.errors import LawscopeError

CHUNK = 4096
_FIELDS = ("counts", "squares", "spreads", "correct", "disagreeing", "nearest_correct")


@dataclass(frozen=True, eq=False)
class Decisions:
    """Sums over the samples of each class, shape (K,) each.

    Attributes:
        counts: n_k.
        squares: Σ ‖h‖².
        spreads: Σ ‖h − h̄_k‖².
        correct: samples that the classifier gives to their class, among all rows of the head.
        disagreeing: samples where the classifier and the nearest class mean, both among the
            classes of the data, choose differently.
        nearest_correct: samples whose nearest class mean is their own.
    """

    counts: NDArray[np.int64]
    squares: NDArray[np.float64]
    spreads: NDArray[np.float64]
    correct: NDArray[np.int64]
    disagreeing: NDArray[np.int64]
    nearest_correct: NDArray[np.int64]


class ClassDecisions:
    """Streaming ``update / merge / compute``: plain sums, so any split and order gives the same.

    Args:
        means: class means h̄_k of all the data, shape (K, p), float64.
        weight: the classifier, shape (rows, p), rows ≥ K.
        bias: shape (rows,), or None.
        rows: row of the classifier that each class has, shape (K,).

    Example:
        >>> means = torch.tensor([[0.0], [4.0]])
        >>> stat = ClassDecisions(means, torch.tensor([[-1.0], [1.0]]), None, torch.tensor([0, 1]))
        >>> stat.update(torch.tensor([[-1.0], [1.0], [3.0]]), torch.tensor([0, 0, 1]))
        >>> stat.compute().disagreeing.tolist()
        [1, 0]
    """

    def __init__(self, means: Tensor, weight: Tensor, bias: Tensor | None, rows: Tensor) -> None:
        if len(rows) != len(means):
            raise LawscopeError(f"{len(means)} class means, but {len(rows)} rows of the head.")
        self.means = means.double()
        device = self.means.device
        self.weight, self.rows = weight.to(device, torch.float64), rows.to(device)
        self.bias = torch.zeros(len(weight), device="cpu") if bias is None else bias
        self.bias = self.bias.to(device, torch.float64)
        # Distances are compared about the centre, where their digits are.
        self.centre = self.means.mean(dim=0)
        self.offsets = self.means - self.centre
        self.sums = {
            name: torch.zeros(len(means), dtype=torch.float64, device="cpu") for name in _FIELDS
        }

    def update(self, features: Tensor, positions: Tensor) -> None:
        """Add a batch: ``features`` (B, p), position of each sample's class (B,)."""
        for start in range(0, len(features), CHUNK):
            part = slice(start, start + CHUNK)
            self._add(features[part].to(self.means), positions[part].to(self.means.device))

    def merge(self, other: ClassDecisions) -> None:
        """Add what another statistic about the same means has seen."""
        if not torch.equal(self.means, other.means):
            raise LawscopeError("Only decisions about the same class means merge.")
        for name in _FIELDS:
            self.sums[name] += other.sums[name]

    def compute(self) -> Decisions:
        """The sums of everything seen."""
        found = {name: column.numpy().copy() for name, column in self.sums.items()}
        return Decisions(
            counts=found["counts"].astype(np.int64),
            squares=found["squares"],
            spreads=found["spreads"],
            correct=found["correct"].astype(np.int64),
            disagreeing=found["disagreeing"].astype(np.int64),
            nearest_correct=found["nearest_correct"].astype(np.int64),
        )

    def _add(self, features: Tensor, positions: Tensor) -> None:
        logits = features @ self.weight.T + self.bias
        nearness = (features - self.centre) @ self.offsets.T - self.offsets.square().sum(dim=1) / 2
        chosen, nearest = logits[:, self.rows].argmax(dim=1), nearness.argmax(dim=1)
        spread = (features - self.means[positions]).square().sum(dim=1)
        per_sample = {
            "counts": torch.ones_like(spread),
            "squares": features.square().sum(dim=1),
            "spreads": spread,
            "correct": logits.argmax(dim=1) == self.rows[positions],
            "disagreeing": chosen != nearest,
            "nearest_correct": nearest == positions,
        }
        for name, values in per_sample.items():
            self.sums[name].index_add_(0, positions.cpu(), values.double().cpu())
