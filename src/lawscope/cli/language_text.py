"""How much of a text is measured, in which windows, and whether it will do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from lawscope.capture.places import MASKED_SHARE
from lawscope.capture.token_limits import context_of, vocabulary_of
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
    context = context_of(model)
    if window is None:
        return WINDOW if context is None else min(WINDOW, context)
    if context is not None and window > context:
        raise LawscopeError(
            f"--window {window} is longer than the {context} tokens the model can read; take at "
            f"most {context}."
        )
    return window


def check_length(
    windows: Windows, loaded: Loaded, observer: NextTokenObserver, asked: int | None = None
) -> None:
    """Refuse a text that is too short before anything long runs.

    Args:
        windows: to measure.
        loaded: the model.
        observer: of the model.
        asked: the tokens that were asked for, where it is they that are too few.

    Raises:
        LawscopeError: not more tokens than features; says how many are missing. Or none at all
            that can be measured.
    """
    each = observer.measurable(loaded.batch(windows.ids[:1]))
    if not each:
        raise LawscopeError(
            f"A window of {windows.ids.shape[1]} tokens has no place where all of "
            f"{', '.join(observer.settings.targets)} exist; take a longer --window."
        )
    count, width = len(windows.ids), observer.found.blocks.width
    if each * count > width:
        return
    have, step = windows.text_tokens + windows.left, windows.text_tokens // count
    needed, enough = (-(-least // each) * step for least in (width + 1, ENOUGH * width))
    if asked is not None:
        raise LawscopeError(
            f"--tokens {asked} is too small: {each * count} of them would be measured, for {width} "
            f"features; ask for at least {needed}, and {enough} for a line that means something."
        )
    raise LawscopeError(
        f"The text gives {have} tokens, {each * count} of them to measure, for {width} features: "
        f"at least {needed - have} are missing, and {enough - have} for a line that means "
        "something; give more text."
    )


def unknown_ids(loaded: Loaded) -> str | None:
    """A warning where the tokenizer has ids that the model does not embed."""
    rows, size = _sizes(loaded)
    if rows is None or size is None or size <= rows:
        return None
    return (
        f"The tokenizer knows {size} tokens and the model embeds {rows}: none of the others is in "
        "this text, but is the tokenizer the model's own?"
    )


def _check_vocabulary(windows: Windows, loaded: Loaded) -> None:
    """Refuse a tokenizer that is not the model's."""
    rows, size = _sizes(loaded)
    if rows is None:
        return
    highest, known = int(windows.ids.max()), rows if size is None else size
    if highest >= rows or 2 * known < rows:  # embeddings are padded, but not to twice as many
        raise LawscopeError(
            f"The tokenizer and the model do not belong together: the model embeds {rows} tokens, "
            f"and the tokenizer knows {known} and gives ids up to {highest}; put the model's own "
            "tokenizer beside it."
        )


def _sizes(loaded: Loaded) -> tuple[int | None, int | None]:
    """Tokens that the model embeds and that the tokenizer knows, where they say."""
    tokenizer = loaded.tokenizer
    size = len(tokenizer) if hasattr(tokenizer, "__len__") else None
    return vocabulary_of(loaded.model, loaded.task), size
