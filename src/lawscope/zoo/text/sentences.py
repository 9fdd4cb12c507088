"""SST-2: short sentences of film reviews, each for or against the film."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lawscope.arrays import IntArray
from lawscope.errors import LawscopeError
from lawscope.zoo.images.arrays import Labels
from lawscope.zoo.storage import data_folders, find_file

# R. Socher et al., "Recursive deep models for semantic compositionality over a sentiment treebank",
# EMNLP 2013; in the two-class version of the GLUE benchmark.
CLASS_NAMES = ("negative", "positive")
TRAIN, TEST = "train.tsv", "dev.tsv"
_HEADS = {"label", "sentence", "content"}
# FIRST stands before every sentence, as BERT's [CLS] does.
PADDING, UNKNOWN, FIRST = 0, 1, 2
SIZE = 8000
LENGTH = 32
Tokens = IntArray


@dataclass(frozen=True, eq=False)
class Sentences:
    """Labelled sentences, words apart by blanks, to train on and to test on."""

    train: tuple[str, ...]
    y_train: Labels
    test: tuple[str, ...]
    y_test: Labels
    class_names: tuple[str, ...]


def load_sst2(data_dir: str | Path | None = None) -> Sentences:
    """Read SST-2 from this machine: ``train.tsv`` and ``dev.tsv``, gzipped or not.

    Each has the columns label (0 or 1) and sentence, in either order and apart by tabs. They are
    looked for in the subfolders ``sst2`` and ``SST-2`` of the data directories. The test sentences
    are those of ``dev.tsv``, because the labels of the benchmark's own test set are not public.
    """
    for folder in data_folders(("sst2", "SST-2"), data_dir):
        train, test = find_file(folder, TRAIN), find_file(folder, TEST)
        if train and test:
            return Sentences(*read_sentences(train), *read_sentences(test), CLASS_NAMES)
    raise LawscopeError(
        "SST-2 is not on this machine: unpack SST-2.zip of the GLUE benchmark "
        "(gluebenchmark.com/tasks) and put its train.tsv and dev.tsv into the subfolder sst2 of a "
        "folder given by --data-dir or LAWSCOPE_DATA"
    )


def read_sentences(path: Path) -> tuple[tuple[str, ...], Labels]:
    """Read sentences and labels of one file."""
    rows = _rows(path)
    head = [column.strip().lower() for column in rows[0]] if rows else []
    if "label" in head and set(head) <= _HEADS and len(head) == 2:
        at = head.index("label")
        labels, sentences = [r[at] for r in rows[1:]], [r[1 - at] for r in rows[1:]]
        if labels and set(labels) <= {"0", "1"}:
            return tuple(sentences), np.array(labels, dtype=np.int64)
    raise LawscopeError(
        f"{path} is not a file of SST-2: give it a first row with the columns label and sentence, "
        "apart by a tab, and labels 0 and 1"
    )


def _rows(path: Path) -> list[list[str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise LawscopeError(
            f"{path} cannot be read ({error}): replace it by a good copy"
        ) from error
    short = next((number for number, row in enumerate(rows, 1) if len(row) != 2), None)
    if short is not None:
        raise LawscopeError(
            f"{path} has {len(rows[short - 1])} columns in row {short}: it needs two, label and "
            "sentence"
        )
    return rows


def vocabulary(sentences: Sequence[str], size: int = SIZE) -> dict[str, int]:
    """Give the most frequent words numbers; 0 to ``FIRST`` are reserved."""
    counts = Counter(word for sentence in sentences for word in sentence.split())
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: max(size - FIRST - 1, 0)]
    return {word: number for number, word in enumerate(frequent, FIRST + 1)}


def tokens(sentences: Sequence[str], numbers: Mapping[str, int], length: int = LENGTH) -> Tokens:
    """Return sentences as rows (n, length) of ``FIRST``, the words, and padding."""
    rows = np.full((len(sentences), length), PADDING, dtype=np.int64)
    for row, sentence in zip(rows, sentences, strict=True):
        ids = [FIRST, *(numbers.get(word, UNKNOWN) for word in sentence.split())][:length]
        row[: len(ids)] = ids
    return rows
