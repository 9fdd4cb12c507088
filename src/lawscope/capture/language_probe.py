"""A first look at a language model: its blocks, its final norm, whether it looks ahead."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from lawscope.capture.final_norm import find_final_norm
from lawscope.capture.language import Blocks, Call, Inputs, find_blocks, watch
from lawscope.capture.row_norm import RowNorm
from lawscope.capture.token_batches import Task, TokenBatch, model_inputs
from lawscope.errors import LawscopeError

SEQUENCES, TOKENS = 2, 24


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
    small = _small(batch)
    shape = small.ids.shape
    inputs = model_inputs(model, small, small.ids, task)
    calls = watch(model, inputs, shape)
    blocks = find_blocks(model, calls, last=task == "encoder-decoder")
    norm, module = find_final_norm(calls, blocks)
    if task == "causal":
        _check_causal(model, small, calls, blocks)
    return LanguageModel(blocks, norm, module)


def _small(batch: TokenBatch) -> TokenBatch:
    """The first tokens of the first sequences, taken as real ones."""
    extra = {}
    for name, value in batch.extra.items():
        if name == "input_ids":  # of the encoder
            extra[name] = value[:SEQUENCES]
    ids = batch.ids[:SEQUENCES, :TOKENS]
    return TokenBatch(ids, torch.ones_like(ids, dtype=torch.bool), extra, batch.named)


def _check_causal(model: nn.Module, small: TokenBatch, calls: list[Call], blocks: Blocks) -> None:
    """Change the last token: nothing before it may change."""
    changed = small.ids.clone()
    other = changed[:, 0].clone()
    changed[:, -1] = torch.where(other == changed[:, -1], (other - 1).abs(), other)
    inputs: Inputs = model_inputs(model, small, changed)
    before = _output(calls, blocks)
    after = _output(watch(model, inputs, changed.shape), blocks)
    difference = float((after - before)[:, :-1].abs().max())
    scale = float(before.abs().max())
    rounding = 1e-5 if before.dtype in (torch.float32, torch.float64) else 1e-2
    if difference > rounding * scale:
        raise LawscopeError(
            f"{type(model).__name__} looks ahead: changing the last token changed features before "
            "it, so it is no causal language model; pass task='masked' (with mask_token=) for a "
            "masked one."
        )


def _output(calls: list[Call], blocks: Blocks) -> torch.Tensor:
    """What the last block made."""
    made = next(c.stream_out for c in calls if c.module is blocks.modules[-1])
    assert made is not None
    return made
