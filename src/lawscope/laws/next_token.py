"""The law of next-token prediction: 1 − R² falls by an equal factor per block (000, part III)."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch.distributed as dist
from torch import Tensor, nn

from lawscope.capture.token_batches import Task
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.laws.next_token_control import untrained
from lawscope.laws.next_token_observer import FOLDS, NextTokenObserver
from lawscope.laws.next_token_result import NextToken
from lawscope.laws.next_token_settings import Normalization
from lawscope.progress import progress as progress_bar
from lawscope.statistics.comoments import Precision
from lawscope.statistics.distributed import gathered
from lawscope.statistics.memory import DEFAULT_MEMORY


def next_token(
    model: nn.Module,
    batches: Any,
    *,
    targets: Sequence[str] = ("next",),
    normalization: Normalization = "final-norm",
    folds: int = FOLDS,
    precision: Precision = "float64",
    task: Task = "causal",
    onehot: bool = True,
    memory: str | int = DEFAULT_MEMORY,
    control: nn.Module | str | None = "auto",
    mask_token: int | None = None,
    special_tokens: Collection[int] = (),
    seed: int = 0,
    every: int = 1,
    distributed: bool = False,
    progress: bool | None = None,
) -> NextToken:
    """Measure how well each block of a language model predicts the next token by a straight map.

    The features of token t at block l predict the vocabulary index of token t + 1 by least squares
    with intercept; PR_l = SSE/SST = 1 − R², and the law is log PR_l ≈ log PR_1 + (l − 1)·log ρ
    (000, part III). One pass; nothing but moments is kept.

    Args:
        model: any language model that maps token ids (B, T) to logits; Hugging Face or plain
            PyTorch. Run in eval mode without gradients and left exactly as found.
        batches: token ids (B, T), or dicts with ``input_ids`` and ``attention_mask``: a list, a
            DataLoader or a generator.
        targets: what to predict: "next", "next-next", "current", "previous"; the first is the
            result, the others are in ``result.targets``. Measured where all of them exist.
        normalization: of every block's output, without parameters: "final-norm" (as the model's
            own final norm does), "none", "layer-norm" or "rms-norm".
        folds: folds of sequences, for the interval and for cross-validation. Sequence j belongs
            to fold j mod ``folds``.
        precision: "float64", or "fast": products in float32, sums in float64.
        task: "causal", "masked" (15 % of the tokens are hidden, measured and predicted) or
            "encoder-decoder" (the decoder is measured).
        onehot: whether to measure the vocabulary-free residual too.
        memory: budget for its table of sums per token type; beyond, random codings estimate it.
        control: the same network untrained: "auto" makes one where that is possible; or a module;
            or None.
        mask_token: id of the mask token, for "masked".
        special_tokens: ids that are no text and are never hidden, for "masked", beside those that
            the model's configuration names: ``tokenizer.all_special_ids``. BERT's configuration
            names the padding only, not [CLS] and [SEP].
        seed: of the hidden positions, for "masked".
        every: measure every so many-th block only, which takes as many times less memory; the
            line is then per measured block.
        distributed: merge over the ranks of ``torch.distributed``; every rank must call it, and
            the batches of rank r hold sequences r, r + world, r + 2·world, … of the text, as
            ``DistributedSampler(shuffle=False)`` deals them out. Then folds, hidden positions and
            the result are those of one process. (That sampler repeats a few sequences where they
            do not divide evenly, unless ``drop_last=True``.)
        progress: show a bar; by default when it takes long and a terminal is there.

    Returns:
        PR per block, its line, verdict and advice.

    Raises:
        LawscopeError: the model or the batches cannot be measured; the sentence says why and what
            to do.

    Example:
        >>> import torch
        >>> from lawscope.zoo.language import gpt
        >>> _ = torch.manual_seed(0)
        >>> model = gpt(vocabulary=50, width=8, depth=4, heads=2, context=30)
        >>> batches = [torch.randint(0, 50, (10, 30)) for _ in range(4)]
        >>> next_token(model, batches, control=None).blocks
        ('embedding', 'blocks.0', 'blocks.1', 'blocks.2', 'blocks.3')
    """
    rank, world = _place() if distributed else (0, 1)
    first, everything, total = _batches(batches)
    settings: dict[str, Any] = {
        "targets": targets,
        "normalization": normalization,
        "folds": folds,
        "precision": precision,
        "task": task,
        "onehot": onehot,
        "memory": memory,
        "mask_token": mask_token,
        "special_tokens": special_tokens,
        "seed": seed,
        "every": every,
    }
    with ExitStack() as stack:
        observer = stack.enter_context(NextTokenObserver(model, first, **settings))
        twin = untrained(observer.model) if control == "auto" else control
        if isinstance(twin, str):
            raise LawscopeError(f"control={control!r} is not known; pass a module, 'auto' or None.")
        observers = [observer]
        if twin is not None:
            observers.append(stack.enter_context(NextTokenObserver(twin, first, **settings)))
        advance = stack.enter_context(progress_bar("measuring tokens", total, progress))
        for batch in everything:
            start = rank + world * observer.sequences
            for each in observers:
                each.update(batch, first=start, stride=world)
            advance(_tokens_in(batch))
        if distributed:
            for each in observers:
                each.all_merge()
    reference = observers[1].result() if twin is not None else None
    result = observer.result(reference)
    for sentence in result.warnings:
        warnings.warn(sentence, LawscopeWarning, stacklevel=2)
    return result


def _place() -> tuple[int, int]:
    """This rank and how many there are; without a process group it says so before anything runs."""
    world = len(gathered((True,)))
    return dist.get_rank(), world


def _batches(batches: Any) -> tuple[Any, Iterator[Any], int | None]:
    """The first batch with tokens, all from there, and their number where it can be known."""
    if isinstance(batches, Tensor | Mapping):
        batches = [batches]
    if not isinstance(batches, Iterable):
        raise LawscopeError(
            f"The batches are a {type(batches).__name__}; pass a list, a DataLoader or a "
            "generator of token ids (B, T)."
        )
    total = sum(map(_tokens_in, batches)) if isinstance(batches, Sequence) else None
    every = iter(batches)
    for first in every:
        if _tokens_in(first):
            return first, itertools.chain([first], every), total
    raise LawscopeError("There are no batches with tokens: nothing to measure.")


def _tokens_in(batch: Any) -> int:
    """Tokens of a batch, padding included; 1 for what is none, which is told when it is read."""
    if isinstance(batch, Mapping):
        batch = batch.get("decoder_input_ids", batch.get("input_ids"))
    elif isinstance(batch, list | tuple) and len(batch) == 1:
        (batch,) = batch
    return math.prod(batch.shape) if isinstance(batch, Tensor | np.ndarray) else 1
