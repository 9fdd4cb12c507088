"""The data of a measurement, read once or several times and checked to be the same."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lawscope.data.batches import Batch, as_batch, as_raw, tensors_in
from lawscope.data.labels import are_marks, read_labels
from lawscope.errors import LawscopeError, NoDataError

WHOLE_BATCH = 256
LABEL_TYPES = (int, float, str, bytes, np.generic, type(None))
WORDS = 256  # summed at a time by the checksum, along and across


class Source:
    """Batches out of whatever the user calls data.

    Every pass starts from the same random state, so that a shuffling DataLoader or a random
    augmentation yields the same samples in the same order again; a checksum over labels and
    inputs makes sure of it. Between passes the random generators are as they were found.

    Args:
        data: a DataLoader, a Dataset, a pair of arrays (x, y), a list or any iterable of batches,
            or a generator (which can be read once).

    Attributes:
        samples: how many there are at most, where that can be known without reading them.
        labels: the different ones, where they can be known without reading samples.
        classes: how many those are.
        label_names: of labels that are text, in the order of their numbers; empty otherwise.
        batches: how many there are, where the data has a length.
        total: how much there is to do, in ``unit``, where that can be known.
        fingerprint: of a completed pass, as hexadecimal digits; empty before.
    """

    kind: Literal["samples", "tokens"] = "samples"
    unit: str = "batch"
    labels: Tensor | None = None

    def __init__(self, data: Any) -> None:
        self.data: Iterable[Any] = self._iterable(data)
        self.read_once = isinstance(self.data, Iterator)
        self.fingerprint = ""
        self._state = RandomState(self.data)
        self._begun: Iterator[Batch] | None = None
        self._skipped = 0, ""
        self.label_names: tuple[str, ...] = ()
        self._numbers: dict[str, int] | None = None  # of labels that are text, once looked at
        self._handed_out, self._digest = 0, hashlib.blake2b(digest_size=16)
        self._only_shows = False
        try:
            self.samples, self.classes, self.batches, self.total = self._count()
            self._state.restore()  # counting has read what can be indexed
            self._begun = self._read(self.data)
            first = next(self._begun, None)
            if first is None:
                raise NoDataError(self._empty)
            self._first = self._number_names(first)
            self._after_first = RandomState(self.data)
        finally:
            self._state.restore()

    @property
    def has_labels(self) -> bool:
        """Whether batches come with labels, as the first one shows."""
        return self._first.labels is not None

    def peek(self) -> Batch:
        """Return the first batch that has samples, without using it up."""
        return self._first

    def restore(self) -> None:
        self._state.restore()
        self._begun = None

    def units_in(self, batch: Batch) -> int:
        """Return how much of ``total`` a batch is."""
        return 1

    def skip(self, batches: int, fingerprint: str) -> None:
        """Leave the first batches out of the next pass; :meth:`progress` gave their fingerprint."""
        self._skipped = batches, fingerprint

    def progress(self) -> tuple[int, str]:
        """Return how many batches of the pass under way were handed out, and their fingerprint."""
        return self._handed_out, self._digest.copy().hexdigest()

    def read_several_times(self) -> Self:
        """Return the source; refuse data that can be read only once."""
        if self.read_once:
            raise LawscopeError(
                "The data is read several times; pass a list or a DataLoader instead of a "
                "generator."
            )
        return self

    def describe(self) -> dict[str, Any]:
        """Return the first batch, and what of the data a measurement is planned by."""
        known = {"read_once": self.read_once, "samples": self.samples, "classes": self.classes}
        return {"first": as_raw(self._first), **known}

    def only_show(self, read_once: bool, samples: int | None, classes: int | None) -> Self:
        """Hand out no batch: the one that is shown is of another rank, as are these numbers."""
        self._only_shows, self.batches, self.total = True, 0, 0
        self.read_once, self.samples, self.classes = read_once, samples, classes
        return self

    def __iter__(self) -> Iterator[Batch]:
        """Read the data once; a second pass must find the same."""
        if self._only_shows:
            return
        if self._begun is not None:
            batches: Iterator[Batch] = itertools.chain([self._first], self._begun)
            self._begun = None
            self._after_first.restore()
        elif self.read_once:
            raise LawscopeError(
                "The data is a generator that has been used up, but another pass is needed; pass "
                "a list or a DataLoader, or leave strategy= to lawscope, so that one is enough."
            )
        else:
            self._state.restore()
            batches = self._read(self.data)
        self._handed_out, self._digest = 0, hashlib.blake2b(digest_size=16)
        (skipped, expected), self._skipped = self._skipped, (0, "")
        for batch in batches:
            update_checksum(self._digest, batch)
            self._handed_out += 1
            if self._handed_out > skipped:
                yield batch
            elif self._handed_out == skipped and self._digest.copy().hexdigest() != expected:
                raise LawscopeError(
                    "The data is not what the interrupted measurement had read; resume with the "
                    "same data, or begin again without its checkpoint."
                )
        found = self._digest.hexdigest()
        if self.fingerprint and found != self.fingerprint:
            raise LawscopeError(
                "The loader gave other samples, or another order, in the second pass than in the "
                "first; make it repeatable (fixed seed, no private random state, inputs that the "
                f"network does not overwrite), or {self._one_pass()}."
            )
        self.fingerprint = found

    _empty = "The loader is empty: it yields no batch with samples."

    def _iterable(self, data: Any) -> Iterable[Any]:
        if isinstance(data, Mapping):
            return [data]
        if _is_pair(data):
            x, y = data
            if isinstance(x, Tensor):
                as_batch(x)  # refuses what cannot be cut
            # A column of a table is cut by its index, an array by position.
            y = y if isinstance(y, Tensor | list | tuple | np.ma.MaskedArray) else np.array(y)
            if len(x) != len(y):
                raise LawscopeError(
                    f"The data has {len(x)} samples and {len(y)} labels; one label per sample is "
                    "needed."
                )
            parts = (slice(i, i + WHOLE_BATCH) for i in range(0, len(x), WHOLE_BATCH))
            return [(x[part], y[part]) for part in parts]
        if isinstance(data, Dataset):
            return DataLoader(data, batch_size=WHOLE_BATCH)
        if isinstance(data, Tensor):
            raise LawscopeError(
                "The data is one tensor without labels; pass (x, y), or a loader of (x, y) batches."
            )
        if not isinstance(data, Iterable):
            raise LawscopeError(
                f"The data is a {type(data).__name__}, which cannot be iterated; pass a "
                "DataLoader, a Dataset, a pair (x, y) or a list of batches."
            )
        return data

    def _count(self) -> tuple[int | None, int | None, int | None, int | None]:
        """Count samples, classes, batches and units, where that needs no loading of samples."""
        data, samples = self.data, None
        labels: list[Tensor | None] = []
        if isinstance(data, DataLoader):
            lengths = (_length(data.sampler), _length(data.dataset))
            samples = next((n for n in lengths if n is not None), None)
            if isinstance(data.dataset, TensorDataset) and data.dataset.tensors[-1].dim() == 1:
                labels = [data.dataset.tensors[-1]]
        elif isinstance(data, Sequence):
            found = list(map(as_batch, data))
            samples = sum(batch.size for batch in found)
            labels = [None if batch.names else batch.labels for batch in found]
        columns = [y.flatten().cpu() for y in labels if y is not None and _are_numbers(y)]
        known = bool(columns) and len(columns) == len(labels)
        self.labels = torch.cat(columns).unique() if known else None
        classes = None if self.labels is None else len(self.labels)
        return samples, classes, _length(data), _length(data)

    def _read(self, raws: Iterable[Any]) -> Iterator[Batch]:
        """Yield the batches of one pass that have samples."""
        for raw in raws:
            batch = as_batch(raw)
            if batch.size:
                yield self._renumber(batch)

    def _number_names(self, first: Batch) -> Batch:
        """Find numbers for labels that are text; return the first batch with them."""
        self._numbers = {}
        if not first.names:
            return first
        if self.read_once:
            raise LawscopeError(
                f"The labels are text ('{first.names[0]}'), and the data is a generator, which "
                "cannot be read twice to put them in order; pass a list or a DataLoader, or encode "
                "them as class numbers."
            )
        self._state.restore()
        names = sorted({name for raw in self.data for name in as_batch(raw).names})
        if all(name.isdecimal() for name in names):  # numbers that were written down
            self._numbers = {name: int(name) for name in names}
        else:
            self._numbers = {name: i for i, name in enumerate(names)}
            self.label_names = tuple(names)
        self.classes = len(set(self._numbers.values()))
        self._state.restore()
        self._begun = self._read(self.data)
        return next(self._begun)

    def _renumber(self, batch: Batch) -> Batch:
        """Return the batch with the numbers that its labels have in all of the data."""
        if self._numbers is None or (not self._numbers and not batch.names):
            return batch
        if not self._numbers.keys() >= set(batch.names) or not batch.names:
            raise LawscopeError(
                "The labels of some batches are text that others, or another pass, do not have; "
                "encode them as class numbers."
            )
        assert batch.labels is not None
        numbers = torch.tensor([self._numbers[name] for name in batch.names])
        return replace(batch, labels=numbers[batch.labels])

    def _one_pass(self) -> str:
        """Say what would spare the second pass: a budget helps only where the length is known."""
        if self.samples is not None:
            return "raise memory= so that one pass is enough"
        return "pass list(loader), or hold the features of one pass with strategy='held'"


def update_checksum(digest: hashlib.blake2b, batch: Batch) -> None:
    """Hash the labels and all inputs of a batch, far cheaper than running the network.

    Every word of eight bytes goes into two sums, one over its neighbours and one over the words at
    its place in other rows, modulo 2⁶⁴; the hash is of the sums. That reads memory at full speed,
    which a hash of every byte does not, and no order of summing can change it by rounding.
    """
    for tensor in tensors_in((batch.labels, batch.args, batch.kwargs)):
        for part in _strided(tensor.detach()):
            flat = part.cpu().resolve_conj().contiguous()
            # As a column, whose one element may have had any stride.
            data = flat.as_strided((flat.numel(),), (1,)).view(torch.uint8).numpy()
            whole = data.size // (8 * WORDS) * (8 * WORDS)
            words = data[:whole].view(np.uint64).reshape(-1, WORDS)
            for sums in (words.sum(axis=0), words.sum(axis=1), data[whole:]):
                digest.update(sums.tobytes())


def _strided(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the tensor, or what a sparse or nested one is stored in."""
    if tensor.layout == torch.strided:
        yield tensor
    elif tensor.is_sparse:
        yield from (tensor._indices(), tensor._values())
    else:
        yield tensor.values()


class RandomState:
    """The state of all random generators a pass over ``data`` may draw from."""

    def __init__(self, data: Any = None) -> None:
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        inner = getattr(data, "batch_sampler", None)
        owners = (data, getattr(data, "sampler", None), inner, getattr(inner, "sampler", None))
        generators = [getattr(owner, "generator", None) for owner in owners]
        self._own = [(g, g.get_state()) for g in generators if isinstance(g, torch.Generator)]

    def restore(self) -> None:
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        for generator, state in self._own:
            generator.set_state(state)


def _is_pair(data: Any) -> bool:
    """Return whether it is a data set (x, y): an array of samples and their labels.

    Two batches of inputs may look much the same; labels are a column, or marks of classes in rows,
    or (in a tuple) rows of another width than the samples.
    """
    if not isinstance(data, list | tuple) or len(data) != 2:
        return False
    x, y = data
    if not isinstance(x, Tensor | np.ndarray) or x.ndim < 2:
        return False
    if isinstance(y, list | tuple):
        return bool(y) and all(isinstance(label, LABEL_TYPES) for label in y)
    if not hasattr(y, "__array__"):
        return False
    shape = np.shape(y)
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        return True
    if len(shape) != 2 or len(x) != len(y):
        return False
    rows, other = read_labels(y)[0], shape[1:] != tuple(x.shape[1:])
    if isinstance(data, list):
        return other and are_marks(rows)
    return are_marks(rows) or (other and rows.is_floating_point())


def _are_numbers(labels: Tensor) -> bool:
    """Return whether labels are a column of whole numbers, without looking at floats."""
    whole = not (labels.is_floating_point() or labels.is_complex())
    return whole and labels.numel() == len(labels)


def _length(data: Any) -> int | None:
    """``len(data)`` where there is one; a DataLoader of a stream has the method, but no length."""
    try:
        return len(data) if isinstance(data, Sized) else None
    except TypeError:
        return None


def as_source(example: Any) -> Source:
    """Return the source of an example: a batch (x, y), a dict, a tensor, or a loader of batches."""
    single = isinstance(example, Tensor | dict)
    if isinstance(example, tuple | list) and example:
        named = isinstance(example, tuple) and isinstance(example[0], dict)
        single = named or isinstance(example[0], Tensor)
    return Source([example] if single else example)
