"""SST-2: short sentences of film reviews, each for or against the film."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from lawscope.errors import LawscopeError
from lawscope.zoo.arrays import Labels
from lawscope.zoo.folders import data_folders

# R. Socher et al., "Recursive deep models for semantic compositionality over a sentiment treebank",
# EMNLP 2013; in the two-class version of the GLUE benchmark.
CLASS_NAMES = ("negative", "positive")
TRAIN, TEST = "train.tsv", "dev.tsv"
_HEADS = {"label", "sentence", "content"}


@dataclass(frozen=True, eq=False)
class Sentences:
    """Labelled sentences, split into those to train on and those to test on.

    Attributes:
        train: sentences, words apart by blanks.
        y_train: class of each training sentence, int64 of shape (n,), counted from 0.
        test: like ``train``.
        y_test: like ``y_train``.
        class_names: one name per class, in the order of the labels.
    """

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

    Args:
        data_dir: data directory to look through first.

    Returns:
        The sentences.

    Raises:
        LawscopeError: when the files are not here, or are damaged.
    """
    for folder in data_folders(("sst2", "SST-2"), data_dir):
        train, test = _present(folder, TRAIN), _present(folder, TEST)
        if train and test:
            return Sentences(*read_sentences(train), *read_sentences(test), CLASS_NAMES)
    raise LawscopeError(
        "SST-2 is not on this machine: unpack SST-2.zip of the GLUE benchmark "
        "(gluebenchmark.com/tasks) and put its train.tsv and dev.tsv into the subfolder sst2 of a "
        "folder given by LAWSCOPE_DATA"
    )


def read_sentences(path: Path) -> tuple[tuple[str, ...], Labels]:
    """Sentences and labels of one file.

    Raises:
        LawscopeError: when it is damaged, or a row is not a label and a sentence.
    """
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


def _present(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)


def _rows(path: Path) -> list[list[str]]:
    try:
        with _opened(path) as file:
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


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            yield file
    else:
        with path.open(encoding="utf-8", newline="") as file:
            yield file
