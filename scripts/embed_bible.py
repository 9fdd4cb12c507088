"""Make the embedded text and its vocabulary: the King James Bible and 768 byte pairs.

    apt-get download bible-kjv bible-kjv-text      # or install them, and leave --path away
    python scripts/embed_bible.py [--program usr/bin/bible --path usr/lib]

Has the package's own program print every verse, takes off the references (``Ge1:1``), keeps one
verse a line, learns a vocabulary of 1024 tokens from the text, and writes ``king_james.txt.bz2``
and ``byte_pairs.txt``. The same package gives the same bytes. About 20 seconds on one core.
"""

from __future__ import annotations

import argparse
import bz2
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from lawscope.zoo.text.corpus import BYTES, EMBEDDED_SIZE, PIECES, Pair, join_pair

DATA = Path(__file__).parents[1] / "src/lawscope/zoo/data"
EVERYTHING = "gen1:1-rev22:21"
VERSES = 31102
REFERENCE = re.compile(r"^\S+\d+:\d+ ")


def verses(printed: str) -> str:
    r"""The verses without their references, one a line.

    Example:
        >>> verses("Ge1:3 And God said, Let there be light\nSS1:1 The song\n")
        'And God said, Let there be light\nThe song\n'
    """
    return "".join(REFERENCE.sub("", line) + "\n" for line in printed.splitlines())


def printed_by(program: str, path: str | None) -> str:
    """What the program prints of the whole Bible."""
    where = [] if path is None else ["-p", f"{path.rstrip('/')}/"]
    done = subprocess.run(
        [program, *where, "-f", EVERYTHING], capture_output=True, check=True, encoding="ascii"
    )
    return done.stdout


def learn_pairs(text: str, size: int) -> list[Pair]:
    """Learn the pairs of a vocabulary of ``size`` tokens from a text.

    The most frequent pair of neighbours is joined, again and again; of equally frequent ones that
    with the smaller numbers.
    """
    words = Counter(PIECES.findall(text))
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
        join_everywhere(pieces, weights, counts, best, BYTES + len(pairs) - 1)
    return pairs


def join_everywhere(
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
    """Return pairs as the embedded file has them, one a line."""
    return "".join(f"{left} {right}\n" for left, right in pairs)


def main() -> int:
    """Write both files; 2 when the program cannot be run, 1 when it prints something else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="bible", help="of the Debian package bible-kjv")
    parser.add_argument("--path", help="folder of bible.data, of bible-kjv-text")
    options = parser.parse_args()
    try:
        text = verses(printed_by(options.program, options.path))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{options.program} cannot be run ({error}): install bible-kjv", file=sys.stderr)
        return 2
    if text.count("\n") != VERSES:
        print(f"{text.count(chr(10))} verses instead of {VERSES}", file=sys.stderr)
        return 1
    (DATA / "king_james.txt.bz2").write_bytes(bz2.compress(text.encode("ascii"), 9))
    (DATA / "byte_pairs.txt").write_text(write_pairs(learn_pairs(text, EMBEDDED_SIZE)), "ascii")
    print(f"{len(text)} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
