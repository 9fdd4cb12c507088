"""The law of next-token prediction: 1 − R² falls by an equal factor per block.

He & Su 2024, "A law of next-token prediction in large language models".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from lawscope.data.tokens import Task, TokenSource
from lawscope.laws.base import DISTRIBUTED, Law, Settings, option, with_settings_of
from lawscope.laws.control import Control
from lawscope.laws.next_token.observer import NextTokenObserver
from lawscope.laws.next_token.result import NextToken
from lawscope.laws.registry import register
from lawscope.laws.scan import measure_one
from lawscope.statistics.distributed import merges_ranks, place_among_ranks
from lawscope.statistics.memory import parse_memory
from lawscope.whole_number import MOST_FOLDS


@dataclass(frozen=True)
class NextTokenSettings(Settings):
    """The settings of :func:`next_token`."""

    targets: Sequence[str] = option(
        ("next",),
        "what to predict: 'next', 'next-next', 'current', 'previous'; the first is the result, the "
        "others are in result.targets. Measured where all of them exist.",
    )
    normalization: Literal["final-norm", "none", "layer-norm", "rms-norm"] = option(
        "final-norm",
        "of every block's output, without parameters: 'final-norm' (as the model's own final norm "
        "does), 'none', 'layer-norm' or 'rms-norm'.",
    )
    folds: int = option(
        5,
        "folds of sequences, for the interval and for cross-validation; sequence j belongs to fold "
        "j mod folds.",
        least=1,
        most=MOST_FOLDS,
    )
    precision: Literal["float64", "fast"] = option(
        "float64", "'float64', or 'fast': products in float32, sums in float64."
    )
    task: Task = option(
        "causal",
        "'causal', 'masked' (15 % of the tokens are hidden, measured and predicted) or "
        "'encoder-decoder' (the decoder is measured).",
    )
    onehot: bool = option(True, "whether to measure the vocabulary-free residual too.")
    memory: str | int = option(
        "512MB",
        "budget for the table of sums per token type; beyond it random codings estimate the "
        "vocabulary-free residual.",
        convert=parse_memory,
    )
    mask_token: int | None = option(None, "id of the mask token, for 'masked'.")
    special_tokens: Collection[int] = option(
        (),
        "ids that are not text and are never hidden, for 'masked', beside those that the model's "
        "configuration names: tokenizer.all_special_ids.",
    )
    seed: int = option(0, "of the hidden positions, for 'masked'.", least=0)
    every: int = option(
        1,
        "measure every so many-th block only, which takes as many times less memory; the line is "
        "then per measured block.",
        least=1,
        lacks="is not a step",
    )
    distributed: bool | None = option(None, f"{DISTRIBUTED} The result is that of one process.")
    sharded: bool = option(
        True,
        "the batches of rank r hold sequences r, r + world, r + 2·world, … of the text, as "
        "DistributedSampler(shuffle=False) deals them; with False every rank is given the whole "
        "text and takes its share.",
    )
    bos: int | Literal["config"] | None = option(
        "config",
        "id of the token that begins every sequence and is not measured; 'config' for that of the "
        "model's configuration, None for none.",
    )

    def open_tokens(self, data: Any, config: Any) -> TokenSource:
        """Return the data as batches of tokens, with what is to be predicted."""
        rank, world = place_among_ranks(merges_ranks(self.distributed))
        hidden = (self.mask_token, self.special_tokens, self.seed)
        share: dict[str, Any] = {"rank": rank, "world": world, "sharded": self.sharded}
        return TokenSource(data, config, self.task, self.targets, *hidden, bos=self.bos, **share)


@with_settings_of(NextTokenSettings)
def next_token(
    model: nn.Module,
    batches: Any,
    *,
    control: Control = "auto",
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> NextToken:
    """Measure how well each block of a language model predicts the next token by a straight map.

    The features of token t at block l predict the vocabulary index of token t + 1 by least squares
    with intercept; PR_l = SSE/SST = 1 − R², and the law is log PR_l ≈ log PR_1 + (l − 1)·log ρ
    (He & Su 2024). One pass; nothing but moments is kept.

    Args:
        model: any language model that maps token ids (B, T) to logits; Hugging Face or plain
            PyTorch. Run in eval mode without gradients and left exactly as found.
        batches: token ids (B, T), or dicts with ``input_ids`` and ``attention_mask``: a list, a
            DataLoader or a generator.
        **settings: the settings below.
        control: the same network untrained: "auto" makes one where that is possible; or a module;
            or None.
        checkpoint: a file to which what was gathered is saved every half minute and at ctrl-C,
            and from which the same call goes on; each rank has one of its own. It is removed when
            all is measured.
        progress: show a bar; by default when it takes long and a terminal is there.

    Returns:
        PR per block, its line, verdict and advice.

    Raises:
        LawscopeError: the model or the batches cannot be measured; the sentence says why and what
            to do.

    Example:
        >>> import torch
        >>> from lawscope.zoo.networks.language import gpt
        >>> _ = torch.manual_seed(0)
        >>> model = gpt(vocabulary=50, width=8, depth=4, heads=2, context=30)
        >>> batches = [torch.randint(0, 50, (10, 30)) for _ in range(4)]
        >>> next_token(model, batches, control=None).blocks
        ('embedding', 'blocks.0', 'blocks.1', 'blocks.2', 'blocks.3')
    """
    how = {"checkpoint": checkpoint, "progress": progress}
    return measure_one(NEXT_TOKEN, model, batches, settings, control, **how)


NEXT_TOKEN = register(
    Law(
        name="next_token",
        title="Law of next-token prediction",
        papers=("next_token",),
        needs=frozenset({"tokens"}),
        settings=NextTokenSettings,
        observe=NextTokenObserver,
        result=NextToken,
    )
)
