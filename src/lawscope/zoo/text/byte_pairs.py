"""From text to tokens by byte pairs, with a vocabulary that comes with the package.

Token 0 to 255 are the bytes of UTF-8, so that every text has tokens. Each further token joins two
earlier ones, in the order in which the pairs were learned: the most frequent pair first. This order
is the vocabulary index that the law of next-token prediction is about.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

import numpy as np

from lawscope.errors import LawscopeError
from lawscope.zoo.text.sentences import Tokens

BYTES = 256
EMBEDDED_SIZE = 1024
Pair = tuple[int, int]
# A word with the blank before it, a run of other signs, or white space: tokens stay inside.
_PIECES = re.compile(r" ?[^\W_]+| ?(?:[^\w\s]|_)+|\s+")


class BytePairs:
    """A byte-pair vocabulary (Sennrich et al. 2016, on bytes as GPT-2 has it).

    Example:
        >>> letters = BytePairs([(ord("t"), ord("h")), (256, ord("e"))])
        >>> letters.encode("the moth").tolist()
        [257, 32, 109, 111, 256]
        >>> letters.decode([257, 32, 109, 111, 256]), letters.size
        ('the moth', 258)
    """

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
        for piece in _PIECES.findall(text):
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


def learn_pairs(text: str, size: int) -> list[Pair]:
    """Learn the pairs of a vocabulary of ``size`` tokens from a text.

    The most frequent pair of neighbours is joined, again and again; of equally frequent ones that
    with the smaller numbers.
    """
    words = Counter(_PIECES.findall(text))
    pieces = [list(word.encode("utf-8")) for word in words]
    weights = list(words.values())
    pairs: list[Pair] = []
    counts: Counter[Pair] = Counter()
    for ids, weight in zip(pieces, weights, strict=True):
        for pair in pairwise(ids):
            counts[pair] += weight
    while len(pairs) < size - BYTES and counts:
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        pairs.append(best)
        _join_everywhere(pieces, weights, counts, best, BYTES + len(pairs) - 1)
    return pairs


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


def _join_everywhere(
    pieces: list[list[int]], weights: Sequence[int], counts: Counter[Pair], pair: Pair, token: int
) -> None:
    """Join ``pair`` in the pieces that have it, and bring the counts up to date."""
    for place, ids in enumerate(pieces):
        if pair not in pairwise(ids):
            continue
        pieces[place] = join_pair(ids, pair, token)
        for old in pairwise(ids):
            counts[old] -= weights[place]
        for new in pairwise(pieces[place]):
            counts[new] += weights[place]
    for gone in [known for known, count in counts.items() if count <= 0]:
        del counts[gone]


def write_pairs(pairs: Iterable[Pair]) -> str:
    r"""Return pairs as the embedded file has them, one a line."""
    return "".join(f"{left} {right}\n" for left, right in pairs)
