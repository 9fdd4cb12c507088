"""From a description of the data to tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from lawscope.errors import LawscopeError
from lawscope.studies.plan import Data
from lawscope.zoo.arrays import Images, Labels
from lawscope.zoo.datasets import Dataset, as_inputs, balanced, load, resize
from lawscope.zoo.pretrained import folder_tokens
from lawscope.zoo.sst2 import Sentences, load_sst2
from lawscope.zoo.text import WINDOW, text_windows
from lawscope.zoo.vocabulary import LENGTH, Tokens, tokens, vocabulary

SENTENCES = "sst2"
TEXT = "text"


@dataclass(frozen=True, eq=False)
class Samples:
    """Training and test data of one network; sentences are rows of tokens, padded with 0.

    Of a text, ``x`` has windows of tokens and ``y`` the token after each; there are no classes.
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    class_names: tuple[str, ...]


@lru_cache(maxsize=4)
def _dataset(name: str) -> Dataset:
    return load(name)


@lru_cache(maxsize=16)
def samples_of(data: Data) -> Samples:
    """The samples that ``data`` describes; drawn anew, always the same."""
    if data.name.partition(":")[0] == SENTENCES:
        return _sentences(data)
    if data.vocabulary is not None:
        return _text(data)
    whole = _dataset(data.name)
    classes = data.classes or tuple(range(len(whole.class_names)))
    if max(classes) >= len(whole.class_names):
        raise LawscopeError(f"{data.name} has no class {max(classes)}: classes are counted from 0.")
    x, y = balanced(*_only(whole.x_train, whole.y_train, classes), data.per_class, data.seed)
    x, y = _repeated(x, y, data.repeats)
    x_test, y_test = _only(whole.x_test, whole.y_test, classes)
    return Samples(
        _inputs(x, data),
        torch.from_numpy(y),
        _inputs(x_test, data),
        torch.from_numpy(y_test),
        tuple(whole.class_names[label] for label in classes),
    )


@lru_cache(maxsize=1)
def _sst2() -> Sentences:
    return load_sst2()


def _sentences(data: Data) -> Samples:
    """SST-2 as tokens; the folder in ``sst2:folder`` brings its own tokenizer.

    ``data.size`` is the number of tokens of a sentence.
    """
    whole, folder = _sst2(), data.name.partition(":")[2]
    rows, y = balanced(np.arange(len(whole.train)), whole.y_train, data.per_class, data.seed)
    drawn, length = [whole.train[row] for row in rows], data.size or LENGTH

    def numbered(sentences: Sequence[str]) -> Tokens:
        if folder:
            return folder_tokens(folder, sentences, length)
        return tokens(sentences, vocabulary(whole.train), length)

    return Samples(
        torch.from_numpy(numbered(drawn)),
        torch.from_numpy(y),
        torch.from_numpy(numbered(whole.test)),
        torch.from_numpy(whole.y_test),
        whole.class_names,
    )


def _text(data: Data) -> Samples:
    """The windows of ``text:name``; ``data.size`` is their length."""
    kind, _, name = data.name.partition(":")
    if kind != TEXT or data.vocabulary is None:
        raise LawscopeError(f"{data.name} is no text: name it {TEXT}:king-james-bible, or a file.")
    parts = text_windows(name, data.size or WINDOW, data.vocabulary)
    train, test = (torch.from_numpy(part) for part in parts)
    return Samples(train, train[:, 1:], test, test[:, 1:], ())


def _only(x: Images, y: Labels, classes: tuple[int, ...]) -> tuple[Images, Labels]:
    renumbered = np.full(int(y.max(initial=0)) + 1, -1)
    renumbered[list(classes)] = np.arange(len(classes))
    kept = renumbered[y] >= 0
    return x[kept], renumbered[y[kept]]


def _repeated(x: Images, y: Labels, repeats: tuple[int, ...] | None) -> tuple[Images, Labels]:
    """Every sample as often as its class says."""
    if repeats is None:
        return x, y
    if len(repeats) != int(y.max()) + 1 or min(repeats) < 1:
        raise LawscopeError(
            f"repeats {repeats} do not fit {int(y.max()) + 1} classes: give each a whole number of "
            "at least 1."
        )
    rows = np.repeat(np.arange(len(y)), np.asarray(repeats)[y])
    return x[rows], y[rows]


def _inputs(x: Images, data: Data) -> Tensor:
    if data.channel is not None:
        x = x[..., data.channel]
    if data.size is not None and x.shape[1:3] != (data.size, data.size):
        x = resize(x, (data.size, data.size))
    return as_inputs(x, flatten=data.flatten)
