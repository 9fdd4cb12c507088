"""Text to train small language models on: the King James Bible, or a file of your own."""

from __future__ import annotations

import bz2
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from lawscope.errors import LawscopeError
from lawscope.zoo.text.byte_pairs import EMBEDDED_SIZE, load_byte_pairs
from lawscope.zoo.text.sentences import Tokens

EMBEDDED = "king-james-bible"
WINDOW = 64
# Of so many windows the last one is for testing.
HELD_OUT = 10


@lru_cache(maxsize=2)
def load_text(name: str = EMBEDDED) -> str:
    """Load the embedded text, or that of a file."""
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
    """Cut a text into windows of tokens without overlap; hold out every tenth."""
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
