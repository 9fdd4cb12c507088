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
from lawscope.zoo.vocabulary import Tokens

BYTES = 256
EMBEDDED_SIZE = 1024
Pair = tuple[int, int]
# A word with the blank before it, a run of other signs, or white space: tokens stay inside.
_PIECES = re.compile(r" ?[^\W_]+| ?(?:[^\w\s]|_)+|\s+")


class BytePairs:
    """A byte-pair vocabulary (Sennrich et al. 2016, on bytes as GPT-2 has it).

    Args:
        pairs: the two tokens that token 256 joins, those of token 257, and so on.

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
        """The tokens of a text, shape (n,)."""
        ids: list[int] = []
        for piece in _PIECES.findall(text):
            if piece not in self._known:
                self._known[piece] = self._joined(list(piece.encode("utf-8")))
            ids += self._known[piece]
        return np.array(ids, dtype=np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens; bytes that are no UTF-8 become the sign for that."""
        return b"".join(self._bytes[number] for number in ids).decode("utf-8", errors="replace")

    def _joined(self, ids: list[int]) -> list[int]:
        """Join pairs, the earliest learned first, until no known pair is left."""
        while True:
            known = [self._numbers[pair] for pair in _neighbours(ids) if pair in self._numbers]
            if not known:
                return ids
            ids = joined(ids, self._pairs[min(known) - BYTES], min(known))


def joined(ids: Sequence[int], pair: Pair, token: int) -> list[int]:
    """The same tokens with ``token`` for every ``pair``, from left to right.

    Example:
        >>> joined([1, 1, 1, 2], (1, 1), 9)
        [9, 1, 2]
    """
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
    """The pairs of a vocabulary of ``size`` tokens, learned from a text.

    The most frequent pair of neighbours is joined, again and again; of equally frequent ones that
    with the smaller numbers.

    Returns:
        ``size`` − 256 pairs, fewer when nothing is left to join.

    Example:
        >>> [bytes(pair) for pair in learn_pairs("the thin moth", 257)]
        [b'th']
    """
    words = Counter(_PIECES.findall(text))
    pieces = [list(word.encode("utf-8")) for word in words]
    weights = list(words.values())
    pairs: list[Pair] = []
    counts = _pair_counts(pieces, weights)
    while len(pairs) < size - BYTES and counts:
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        pairs.append(best)
        _join_everywhere(pieces, weights, counts, best, BYTES + len(pairs) - 1)
    return pairs


@lru_cache(maxsize=4)
def load_byte_pairs(size: int = EMBEDDED_SIZE) -> BytePairs:
    """The embedded vocabulary, or its first ``size`` tokens.

    Raises:
        LawscopeError: there are not so many, or fewer than the 256 bytes.

    Example:
        >>> load_byte_pairs(512).encode("And God said").shape
        (3,)
    """
    if not BYTES <= size <= EMBEDDED_SIZE:
        raise LawscopeError(
            f"a vocabulary of {size} tokens was asked for, and the embedded one has {BYTES} to "
            f"{EMBEDDED_SIZE}: choose a number between"
        )
    lines = (files("lawscope.zoo") / "data" / "byte_pairs.txt").read_text("ascii").splitlines()
    pairs = [(int(left), int(right)) for left, right in (line.split() for line in lines)]
    return BytePairs(pairs[: size - BYTES])


def _neighbours(ids: Sequence[int]) -> list[Pair]:
    return list(pairwise(ids))


def _pair_counts(pieces: Sequence[Sequence[int]], weights: Sequence[int]) -> Counter[Pair]:
    counts: Counter[Pair] = Counter()
    for ids, weight in zip(pieces, weights, strict=True):
        for pair in _neighbours(ids):
            counts[pair] += weight
    return counts


def _join_everywhere(
    pieces: list[list[int]], weights: Sequence[int], counts: Counter[Pair], pair: Pair, token: int
) -> None:
    """Join ``pair`` in the pieces that have it, and bring the counts up to date."""
    for place, ids in enumerate(pieces):
        if pair not in _neighbours(ids):
            continue
        pieces[place] = joined(ids, pair, token)
        for old in _neighbours(ids):
            counts[old] -= weights[place]
        for new in _neighbours(pieces[place]):
            counts[new] += weights[place]
    for gone in [known for known, count in counts.items() if count <= 0]:
        del counts[gone]


def write_pairs(pairs: Iterable[Pair]) -> str:
    r"""Pairs as the embedded file has them, one a line.

    Example:
        >>> write_pairs([(116, 104), (256, 101)])
        '116 104\n256 101\n'
    """
    return "".join(f"{left} {right}\n" for left, right in pairs)
