"""Rows of several batches in the order of their folds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Rows = tuple[Tensor, Tensor, Tensor]  # features (n, d), targets (n, q), fold of each row (n,)


def by_fold(waiting: Sequence[Rows], folds: int) -> Rows:
    """All rows in the order of their folds; batches that come in that order are copied once.

    Args:
        waiting: batches, at least one.
        folds: number of folds F.

    Example:
        >>> a, b = torch.tensor([1.0, 2.0])[:, None], torch.tensor([3.0, 4.0])[:, None]
        >>> rows = by_fold([(a, a, torch.tensor([0, 1])), (b, b, torch.tensor([1, 0]))], 2)
        >>> rows[0][:, 0].tolist(), rows[2].tolist()
        ([1.0, 4.0, 2.0, 3.0], [0, 0, 1, 1])
    """
    waiting = [_sorted(rows) for rows in waiting]
    if len(waiting) == 1:
        return waiting[0]
    sizes = [torch.bincount(rows[2], minlength=folds).tolist() for rows in waiting]

    def joined(what: int) -> Tensor:
        parts = [rows[what].split(size) for rows, size in zip(waiting, sizes, strict=True)]
        return torch.cat([part[fold] for fold in range(folds) for part in parts])

    return joined(0), joined(1), joined(2)


def _sorted(rows: Rows) -> Rows:
    """One batch in the order of its folds."""
    features, targets, folds = rows
    if not bool((folds.diff() < 0).any()):
        return rows
    order = folds.argsort(stable=True)
    return features[order.to(features.device)], targets[order], folds[order]
