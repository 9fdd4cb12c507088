"""How much of a text is measured, in which windows, and whether it will do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from lawscope.capture.places import MASKED_SHARE
from lawscope.capture.windows import Windows, encoder_of, pack, read_tokens_of
from lawscope.cli.language_target import Loaded
from lawscope.cli.text import pieces
from lawscope.errors import LawscopeError
from lawscope.laws.next_token_observer import NextTokenObserver
from lawscope.statistics.prediction_residual import ENOUGH

WINDOW = 512
PER_FEATURE = 2 * ENOUGH  # tokens measured without --tokens
# Of the tokens of a text, those that are measured, roughly.
SHARES = {"causal": 1.0, "masked": MASKED_SHARE, "encoder-decoder": 0.5}
CONTEXT_NAMES = ("max_position_embeddings", "block_size", "context_length")


class Text:
    """Files of text as windows for one model.

    Args:
        paths: the files, joined in this order.
        loaded: the model and its tokenizer.
        window: tokens of a window, or None for 512 or the model's context, whichever is less.

    Raises:
        LawscopeError: a window that the model cannot read.
    """

    def __init__(self, paths: Sequence[Path], loaded: Loaded, window: int | None) -> None:
        self.paths, self.loaded, self.frame = paths, loaded, loaded.frame
        self.length = window_length(loaded.model, window)
        self.step = self.length - len(self.frame)
        self._encode = encoder_of(loaded.tokenizer)

    def windows(self, most: int | None, asked: bool = False) -> Windows:
        """Whole windows that hold ``most`` tokens of text, or all there is.

        Args:
            most: how many tokens, or None for the whole text.
            asked: whether less than that is a mistake.

        Raises:
            LawscopeError: too little text, or ids that are not the model's.
        """
        up_to = None if most is None else -(-most // max(self.step, 1)) * self.step
        ids = read_tokens_of(pieces(self.paths), self._encode, up_to)
        if asked and most is not None and len(ids) < most:
            raise LawscopeError(
                f"--tokens {most} asks for more than the text has: {len(ids)} tokens, "
                f"{most - len(ids)} are missing; give more text or a smaller number."
            )
        windows = pack(ids, self.length, self.frame)
        _check_vocabulary(windows, self.loaded)
        return windows

    def needed(self, width: int) -> int:
        """Tokens of text that the law needs for ``width`` features, twice over."""
        return round(PER_FEATURE * width / SHARES[self.loaded.task])


def window_length(model: nn.Module, window: int | None) -> int:
    """``window``, or the default; not beyond the model's context where that is known.

    Raises:
        LawscopeError: the window is longer than that.
    """
    config: Any = getattr(model, "config", model)
    if hasattr(config, "get_text_config"):  # of models that also see or hear
        config = config.get_text_config()
    known = [getattr(config, name, None) for name in CONTEXT_NAMES]
    context = next((c for c in known if isinstance(c, int) and c > 1), None)
    if window is None:
        return WINDOW if context is None else min(WINDOW, context)
    if context is not None and window > context:
        raise LawscopeError(
            f"--window {window} is longer than the {context} tokens the model can read; take at "
            f"most {context}."
        )
    return window


def check_length(windows: Windows, loaded: Loaded, observer: NextTokenObserver) -> None:
    """Refuse a text that is too short before anything long runs.

    Raises:
        LawscopeError: not more tokens than features; says how many are missing.
    """
    each = observer.measurable(loaded.batch(windows.ids[:1]))
    count, width = len(windows.ids), observer.found.blocks.width
    if each * count > width:
        return
    have, step = windows.text_tokens + windows.left, windows.text_tokens // count
    needed, enough = (-(-least // max(each, 1)) * step for least in (width + 1, ENOUGH * width))
    raise LawscopeError(
        f"The text gives {have} tokens, {each * count} of them to measure, for {width} features: "
        f"at least {needed - have} are missing, and {enough - have} for a line that means "
        "something; give more text."
    )


def _check_vocabulary(windows: Windows, loaded: Loaded) -> None:
    """Refuse a tokenizer that is not the model's."""
    embedding = getattr(loaded.model, "get_input_embeddings", lambda: None)()
    weight = getattr(embedding, "weight", None)
    if weight is None:
        return
    rows, highest = int(weight.shape[0]), int(windows.ids.max())
    size = len(loaded.tokenizer) if hasattr(loaded.tokenizer, "__len__") else rows
    if highest >= rows or 2 * size < rows:  # embeddings are padded, but not to twice as many
        raise LawscopeError(
            f"The tokenizer and the model do not belong together: the model embeds {rows} tokens, "
            f"and the tokenizer knows {size} and gives ids up to {highest}; put the model's own "
            "tokenizer beside it."
        )
