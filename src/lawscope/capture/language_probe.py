"""A first look at a language model: its blocks, its final norm, whether it looks ahead."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lawscope.capture.final_norm import find_final_norm
from lawscope.capture.language import Blocks, Call, find_blocks, watch
from lawscope.capture.row_norm import RowNorm
from lawscope.capture.token_batches import Task, TokenBatch, model_inputs
from lawscope.errors import LawscopeError

SEQUENCES, TOKENS = 2, 7  # hardly a number of heads or experts: shapes tell where tokens are


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """What the first look found.

    Attributes:
        blocks: of the model, of the decoder in an encoder–decoder.
        norm: the final norm without its parameters.
        norm_module: class of the module it was found at.
    """

    blocks: Blocks
    norm: RowNorm
    norm_module: str


def look(model: nn.Module, batch: TokenBatch, task: Task) -> LanguageModel:
    """Run a few tokens through the model and find its parts.

    Raises:
        LawscopeError: no blocks, or a model that looks at later tokens in a causal task.
    """
    config = getattr(model, "config", None)
    if task != "encoder-decoder" and getattr(config, "is_encoder_decoder", False):
        raise LawscopeError(
            f"{type(model).__name__} is an encoder–decoder; pass task='encoder-decoder' and "
            "batches with 'input_ids' and 'decoder_input_ids', which measures the decoder."
        )
    small = _small(batch, task)
    calls = watch(model, model_inputs(model, small, small.ids, task), small.ids.shape)
    blocks = find_blocks(model, calls)
    if task == "causal":
        _check_causal(model, calls, blocks)
    norm, module = find_final_norm(calls, blocks)
    return LanguageModel(blocks, norm, module)


def _small(batch: TokenBatch, task: Task) -> TokenBatch:
    """A few tokens of the text, taken as real ones.

    In a causal task they come twice, the second time with another last token. An encoder reads
    another number of tokens than the decoder: the stream of the one is then told from that of the
    other by its shape.
    """
    ids = _telling(batch)
    extra = {k: v[:SEQUENCES] for k, v in batch.extra.items() if k == "input_ids"}  # an encoder's
    extra = {k: v[:, :-1] if v.shape[1] == ids.shape[1] else v for k, v in extra.items()}
    if task == "causal":
        changed = ids.clone()
        same = ids[:, 0] == ids[:, -1]
        changed[:, -1] = torch.where(same, (ids[:, 0] - 1).abs(), ids[:, 0])
        ids = torch.cat([ids, changed])
    return TokenBatch(ids, torch.ones_like(ids, dtype=torch.bool), extra, batch.named)


def _telling(batch: TokenBatch) -> Tensor:
    """Of the text in windows of a few tokens, those with most different ones, the first of these.

    Equal tokens, and padding above all, have features so much alike that any norm would fit them.
    """
    length = min(TOKENS, batch.ids.shape[1])
    ids = batch.ids.masked_fill(~batch.real, -1).unfold(1, length, length).flatten(0, 1)
    in_order = ids.sort(dim=1).values
    different = (in_order.diff(dim=1) > 0).sum(dim=1) + (in_order[:, 0] >= 0)
    best = different.argsort(descending=True, stable=True)[: min(SEQUENCES, len(batch.ids))]
    return batch.ids.unfold(1, length, length).flatten(0, 1)[best]


def _check_causal(model: nn.Module, calls: list[Call], blocks: Blocks) -> None:
    """Another last token must not change anything before it."""
    made = next(c.stream_out for c in calls if c.module is blocks.modules[-1])
    assert made is not None
    as_given, changed = made[:, :-1].chunk(2)
    rounding = 1e-5 if made.dtype in (torch.float32, torch.float64) else 1e-2
    if float((changed - as_given).abs().max()) > rounding * float(as_given.abs().max()):
        raise LawscopeError(
            f"{type(model).__name__} looks ahead: changing the last token changed features before "
            "it, so it is no causal language model; pass task='masked' (with mask_token=) for a "
            "masked one."
        )
