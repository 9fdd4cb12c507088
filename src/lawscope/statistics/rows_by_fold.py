"""Rows of several batches in the order of their folds, and what is to be predicted there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class TokenTypes:
    """The token types among n ids.

    Attributes:
        ids: each type once, shape (m,).
        counts: how often it occurs, shape (m,).
        places: which of ``ids`` each of the n is, shape (n,).
    """

    ids: Tensor
    counts: Tensor
    places: Tensor


@dataclass(frozen=True, eq=False)
class RowLabels:
    """What is to be predicted at n rows of features, and in which folds the rows are.

    All blocks of a network share them, so that what is worked out here is worked out once; the
    tensors must not be overwritten meanwhile.

    Attributes:
        targets: shape (n, q), on the CPU.
        folds: shape (n,), on the CPU.
    """

    targets: Tensor
    folds: Tensor

    def __len__(self) -> int:
        return len(self.folds)

    def __getitem__(self, rows: slice) -> RowLabels:
        return RowLabels(self.targets[rows], self.folds[rows])

    @cached_property
    def order(self) -> Tensor | None:
        """What sorts the rows by fold; None where they are sorted."""
        return self.folds.argsort(stable=True) if bool((self.folds.diff() < 0).any()) else None

    @cached_property
    def sizes(self) -> list[int]:
        """Rows of each fold up to the last that has any."""
        return torch.bincount(self.folds).tolist()

    @cached_property
    def types(self) -> list[TokenTypes]:
        """The token types of every target, where targets are token ids."""
        found = [ids.unique(return_inverse=True, return_counts=True) for ids in self.targets.T]
        return [TokenTypes(ids, counts, places) for ids, places, counts in found]


Rows = tuple[Tensor, RowLabels]  # features (n, d), and what they are to predict


def by_fold(waiting: Sequence[Rows]) -> Rows:
    """All rows in the order of their folds; batches that come in that order are copied once.

    Args:
        waiting: batches, at least one.

    Example:
        >>> a, b = torch.tensor([1.0, 2.0])[:, None], torch.tensor([3.0, 4.0])[:, None]
        >>> here, there = RowLabels(a, torch.tensor([0, 1])), RowLabels(b, torch.tensor([1, 0]))
        >>> features, labels = by_fold([(a, here), (b, there)])
        >>> features[:, 0].tolist(), labels.folds.tolist()
        ([1.0, 4.0, 2.0, 3.0], [0, 0, 1, 1])
    """
    if len(waiting) == 1 and waiting[0][1].order is None:
        return waiting[0]
    parts = tuple(labels for _, labels in waiting)
    return _merged([features for features, _ in waiting], parts), _joined(parts)


@lru_cache(maxsize=2)
def _joined(parts: tuple[RowLabels, ...]) -> RowLabels:
    """The labels of several batches; the same object for every block that has seen the same."""
    return RowLabels(
        _merged([labels.targets for labels in parts], parts),
        _merged([labels.folds for labels in parts], parts),
    )


def _merged(tensors: Sequence[Tensor], parts: Sequence[RowLabels]) -> Tensor:
    """Rows of several batches, fold after fold."""
    tensors = [
        rows if labels.order is None else rows[labels.order.to(rows.device)]
        for rows, labels in zip(tensors, parts, strict=True)
    ]
    if len(tensors) == 1:
        return tensors[0]
    pieces = [rows.split(labels.sizes) for rows, labels in zip(tensors, parts, strict=True)]
    folds = range(max(map(len, pieces)))
    return torch.cat([piece[fold] for fold in folds for piece in pieces if fold < len(piece)])
