"""From sentences to numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

PADDING, UNKNOWN, FIRST = 0, 1, 2  # FIRST stands before every sentence, as BERT's [CLS] does
SIZE = 8000
LENGTH = 32

Tokens = NDArray[np.int64]


def vocabulary(sentences: Sequence[str], size: int = SIZE) -> dict[str, int]:
    """Number the most frequent words; the three numbers below ``FIRST`` and it are no words.

    Args:
        sentences: words apart by blanks.
        size: how many numbers there are in all.

    Returns:
        The number of each word, at least 3. Words that are equally frequent go by the alphabet.

    Example:
        >>> vocabulary(["a good film", "a bad film", "a film"], size=6)
        {'a': 3, 'film': 4, 'bad': 5}
    """
    counts = Counter(word for sentence in sentences for word in sentence.split())
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: max(size - FIRST - 1, 0)]
    return {word: number for number, word in enumerate(frequent, FIRST + 1)}


def tokens(sentences: Sequence[str], numbers: Mapping[str, int], length: int = LENGTH) -> Tokens:
    """Sentences as rows of numbers: ``FIRST``, the words, and padding.

    Args:
        sentences: words apart by blanks.
        numbers: of each word; others become ``UNKNOWN``.
        length: of each row; what is longer is cut off.

    Returns:
        Shape (n, length).

    Example:
        >>> tokens(["a film"], {"film": 4}, length=5).tolist()
        [[2, 1, 4, 0, 0]]
    """
    rows = np.full((len(sentences), length), PADDING, dtype=np.int64)
    for row, sentence in zip(rows, sentences, strict=True):
        ids = [FIRST, *(numbers.get(word, UNKNOWN) for word in sentence.split())][:length]
        row[: len(ids)] = ids
    return rows
