"""Where a batch of tokens is measured, and what is to be predicted there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lawscope.capture.token_batches import TokenBatch
from lawscope.capture.token_limits import text_config

OFFSETS = {"next": 1, "next-next": 2, "current": 0, "previous": -1}
MASKED_SHARE = 0.15


@dataclass(frozen=True, eq=False)
class Places:
    """Where a batch is measured and what is predicted there.

    Attributes:
        rows: positions in the flattened (B·T), those of one sequence together, shape (n,).
        targets: token ids to predict there, shape (n, q).
        sequences: the sequence of each row, shape (n,).
    """

    rows: Tensor
    targets: Tensor
    sequences: Tensor

    def by_fold(self, indices: range, folds: int) -> tuple[Places, Tensor]:
        """Sorted by fold, and the fold of each row: the sequence's global index modulo ``folds``.

        Args:
            indices: global index of each sequence.
            folds: how many there are.
        """
        numbers = (indices.start + indices.step * self.sequences) % folds
        order = numbers.argsort(stable=True)
        sorted_ = Places(self.rows[order], self.targets[order], self.sequences[order])
        return sorted_, numbers[order]


def places(batch: TokenBatch, targets: Sequence[str], bos: int | None) -> Places:
    """Positions where every target exists: real tokens whose neighbours asked for are real.

    The first token of a sequence is left out when it is the beginning-of-sequence token, whose
    features are the same in all sequences.
    """
    kept = batch.real.clone()
    for target in targets:
        kept &= _shifted(batch.real, OFFSETS[target])
    if bos is not None:
        first = batch.real & (batch.real.cumsum(dim=1) == 1)
        kept &= ~(first & (batch.ids == bos))
    rows = torch.nonzero(kept.flatten())[:, 0]
    wanted = [_shifted(batch.ids, OFFSETS[target]).flatten()[rows] for target in targets]
    return Places(rows, torch.stack(wanted, dim=1), rows // batch.ids.shape[1])


def _shifted(values: Tensor, offset: int) -> Tensor:
    """Entry t is entry t + offset of ``values`` (B, T); zero beyond the ends."""
    result = torch.zeros_like(values)
    length = values.shape[1]
    if offset >= 0:
        result[:, : length - offset] = values[:, offset:]
    else:
        result[:, -offset:] = values[:, :offset]
    return result


def mask_tokens(
    batch: TokenBatch, mask_token: int, special: Collection[int], indices: Sequence[int], seed: int
) -> tuple[Tensor, Places]:
    """Hide 15 % of the tokens of every sequence that are text; they are measured and predicted.

    Which ones depends on the seed and the sequence's global index alone, not on the batch.

    Args:
        batch: B sequences.
        mask_token: stands where a token is hidden.
        special: tokens that are no text and are never hidden.
        indices: global index of each sequence.
        seed: of the choice.

    Returns:
        The ids with holes, and the places.
    """
    hidden = torch.zeros_like(batch.real)
    plain = batch.real & ~torch.isin(batch.ids, torch.tensor(sorted(special), dtype=torch.int64))
    for i, index in enumerate(indices):
        eligible = torch.nonzero(plain[i])[:, 0]
        generator = torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)
        count = max(1, round(MASKED_SHARE * len(eligible)))
        hidden[i, eligible[torch.randperm(len(eligible), generator=generator)[:count]]] = True
    rows = torch.nonzero(hidden.flatten())[:, 0]
    targets = batch.ids.flatten()[rows][:, None]
    ids = batch.ids.masked_fill(hidden, mask_token)
    return ids, Places(rows, targets, rows // batch.ids.shape[1])


def first_token(config: Any) -> int | None:
    """The beginning-of-sequence token of a configuration, if it has one."""
    return next(iter(_configured(config, "bos")), None)


def configured_special(config: Any) -> set[int]:
    """Tokens of a configuration that are no text."""
    names = ("bos", "eos", "pad", "cls", "sep")
    return {token for name in names for token in _configured(config, name)}


def _configured(config: Any, name: str) -> list[int]:
    """The ids of a special token; a configuration may name several, or leave it to its text's."""
    for part in (config, text_config(config)):
        ids = getattr(part, f"{name}_token_id", None)
        found = [i for i in (ids if isinstance(ids, list | tuple) else [ids]) if isinstance(i, int)]
        if found:
            return found
    return []
