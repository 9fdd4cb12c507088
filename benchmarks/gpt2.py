"""The law of next-token prediction on a GPT-2 with the vocabulary of GPT-2: what it costs there.

The same as the first rows of :mod:`benchmarks.next_token` with 50257 token types. A plain forward
pass computes their logits at every position, and a measurement at the last one only, since no
block needs them: that saves more than the statistics cost. The note gives the ratio without that.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.next_token import overhead
from benchmarks.row import Row

GPT2_VOCABULARY = 50257


def rows() -> Iterator[Row]:
    """Overhead in both precisions."""
    yield from overhead(GPT2_VOCABULARY, ", vocabulary 50257")
