"""Text to train small language models on, the King James Bible or a file of your own, as tokens.

Tokens are byte pairs, of a vocabulary that comes with the package. Token 0 to 255 are the bytes of
UTF-8, so that every text has tokens. Each further token joins two earlier ones, in the order in
which ``scripts/embed_bible.py`` learned the pairs: the most frequent first. This order is the
vocabulary index that the law of next-token prediction is about.
"""

from __future__ import annotations

import bz2
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np

from lawscope.errors import LawscopeError
from lawscope.zoo.text.sentences import Tokens

EMBEDDED = "king-james-bible"
WINDOW = 64
# Of so many windows the last one is for testing.
HELD_OUT = 10
BYTES = 256
EMBEDDED_SIZE = 1024
Pair = tuple[int, int]
# A word with the blank before it, a run of other signs, or white space: tokens stay inside.
PIECES = re.compile(r" ?[^\W_]+| ?(?:[^\w\s]|_)+|\s+")


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


class BytePairs:
    """A byte-pair vocabulary (Sennrich et al. 2016, on bytes as GPT-2 has it)."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = tuple(pairs)
        self._numbers = {pair: BYTES + rank for rank, pair in enumerate(pairs)}
        self._bytes = [bytes([value]) for value in range(BYTES)]
        for left, right in pairs:
            self._bytes.append(self._bytes[left] + self._bytes[right])
        self._known: dict[str, list[int]] = {}

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self._bytes)

    def encode(self, text: str) -> Tokens:
        """Return the tokens of a text, shape (n,)."""
        ids: list[int] = []
        for piece in PIECES.findall(text):
            if piece not in self._known:
                self._known[piece] = self._join_all(list(piece.encode("utf-8")))
            ids += self._known[piece]
        return np.array(ids, dtype=np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of tokens; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(self._bytes[number] for number in ids).decode("utf-8", errors="replace")

    def _join_all(self, ids: list[int]) -> list[int]:
        """Join pairs, the earliest learned first, until no known pair is left."""
        while True:
            known = [self._numbers[pair] for pair in pairwise(ids) if pair in self._numbers]
            if not known:
                return ids
            ids = join_pair(ids, self._pairs[min(known) - BYTES], min(known))


def join_pair(ids: Sequence[int], pair: Pair, token: int) -> list[int]:
    """Replace every ``pair`` by ``token``, from left to right."""
    out: list[int] = []
    place = 0
    while place < len(ids):
        if place + 1 < len(ids) and (ids[place], ids[place + 1]) == pair:
            out.append(token)
            place += 2
        else:
            out.append(ids[place])
            place += 1
    return out


@lru_cache(maxsize=4)
def load_byte_pairs(size: int = EMBEDDED_SIZE) -> BytePairs:
    """Load the embedded vocabulary, or its first ``size`` tokens."""
    if not BYTES <= size <= EMBEDDED_SIZE:
        raise LawscopeError(
            f"a vocabulary of {size} tokens was asked for, and the embedded one has {BYTES} to "
            f"{EMBEDDED_SIZE}: choose a number between"
        )
    lines = (files("lawscope.zoo") / "data" / "byte_pairs.txt").read_text("ascii").splitlines()
    pairs = [(int(left), int(right)) for left, right in (line.split() for line in lines)]
    return BytePairs(pairs[: size - BYTES])
