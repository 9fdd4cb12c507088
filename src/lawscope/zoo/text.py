"""Text to train small language models on: the King James Bible, or a file of your own."""

from __future__ import annotations

import bz2
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from lawscope.errors import LawscopeError
from lawscope.zoo.byte_pairs import EMBEDDED_SIZE, load_byte_pairs
from lawscope.zoo.vocabulary import Tokens

EMBEDDED = "king-james-bible"
WINDOW = 64
HELD_OUT = 10  # of so many windows the last one is for testing


@lru_cache(maxsize=2)
def load_text(name: str = EMBEDDED) -> str:
    """The embedded text, or that of a file.

    Args:
        name: ``king-james-bible``, which comes with the package (31102 verses, one a line), or the
            path of a UTF-8 file.

    Raises:
        LawscopeError: there is no such file, or it is empty or no UTF-8 text.

    Example:
        >>> load_text().splitlines()[2]
        'And God said, Let there be light: and there was light.'
    """
    if name == EMBEDDED:
        packed = (files("lawscope.zoo") / "data" / "king_james.txt.bz2").read_bytes()
        return bz2.decompress(packed).decode("ascii")
    path = Path(name).expanduser()
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise LawscopeError(
            f"{name} is not UTF-8 text ({error.reason} at byte {error.start}): convert it, for "
            "example with iconv -t utf-8"
        ) from error
    except OSError as error:
        raise LawscopeError(
            f"{name} is neither {EMBEDDED} nor a file that can be read ({error.strerror}): check "
            "the path"
        ) from error
    if not text:
        raise LawscopeError(f"{name} is empty: give a file with text")
    return text


def text_windows(
    name: str = EMBEDDED, length: int = WINDOW, vocabulary: int = EMBEDDED_SIZE
) -> tuple[Tokens, Tokens]:
    """A text as windows of tokens without overlap; every tenth is held out.

    Args:
        name: as in :func:`load_text`.
        length: T, tokens of a window.
        vocabulary: how many tokens of the embedded byte-pair vocabulary to use.

    Returns:
        Windows to train on and windows to test on, shapes (n, T) and (m, T).

    Raises:
        LawscopeError: the text is too short to give both.

    Example:
        >>> train, test = text_windows("king-james-bible", 64, 512)
        >>> train.shape, test.shape
        ((24480, 64), (2719, 64))
    """
    ids = load_byte_pairs(vocabulary).encode(load_text(name))
    count = len(ids) // length
    if count < HELD_OUT:
        raise LawscopeError(
            f"{name} has {len(ids)} tokens, and {HELD_OUT} windows of {length} need "
            f"{HELD_OUT * length - len(ids)} more: give more text or a shorter window"
        )
    windows = ids[: count * length].reshape(count, length)
    held_out = np.arange(count) % HELD_OUT == HELD_OUT - 1
    return windows[~held_out], windows[held_out]
