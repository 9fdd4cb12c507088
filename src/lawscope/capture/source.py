"""The data of a measurement, read once or twice and checked to be the same."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lawscope.capture.batches import Batch, as_batch
from lawscope.capture.checksum import checksum
from lawscope.errors import LawscopeError

WHOLE_BATCH = 256
_NOTHING = object()


class Source:
    """Batches out of whatever the user calls data.

    Every pass starts from the same random state, so that a shuffling DataLoader or a random
    augmentation yields the same samples in the same order again; a checksum over labels and
    inputs makes sure of it.

    Args:
        data: a DataLoader, a Dataset, a pair of arrays (x, y), a list or any iterable of batches,
            or a generator (which can be read once).

    Raises:
        LawscopeError: not iterable, or empty.
    """

    def __init__(self, data: Any) -> None:
        self.data: Iterable[Any] = _iterable(data)
        self.read_once = isinstance(self.data, Iterator)
        self._state = RandomState(self.data)
        self._checksums: list[int] = []
        self._begun: Iterator[Any] | None = None
        try:
            self.samples = _samples(self.data)
            self.classes = _classes(self.data)
            self.batches = _length(self.data)
            self._state.restore()  # counting has read what can be indexed
            self._begun = iter(self.data)
            self._first = next(self._begun, _NOTHING)
            if self._first is _NOTHING:
                raise LawscopeError("The loader is empty: it yields no batch.")
        except BaseException:
            self._state.restore()
            raise
        self._after_first = RandomState(self.data)

    def peek(self) -> Batch:
        """The first batch, without using it up."""
        return as_batch(self._first)

    def restore(self) -> None:
        """Put every random generator back to where it was before."""
        self._state.restore()
        self._begun = None

    def __iter__(self) -> Iterator[Batch]:
        """One pass over the data.

        Raises:
            LawscopeError: a second pass over what can be read once, or over other data.
        """
        raws: Iterable[Any]
        if self._begun is not None:
            raws, self._begun = itertools.chain([self._first], self._begun), None
            self._after_first.restore()
        elif self.read_once:
            raise LawscopeError(
                "The data is a generator that has been used up, but another pass is needed; pass "
                "a list or a DataLoader, or leave strategy= to lawscope, so that one is enough."
            )
        else:
            self._state.restore()
            raws = self.data
        seen = 0
        for raw in raws:
            batch = as_batch(raw)
            if not batch.size:
                continue
            seen = checksum(batch, seen)
            yield batch
        self._checksums.append(seen)
        if seen != self._checksums[0]:
            raise LawscopeError(
                "The loader gave other samples, or another order, in the second pass than in the "
                "first; make it repeatable (fixed seed, no private random state, inputs that the "
                f"network does not overwrite), or {self._one_pass()}."
            )

    def _one_pass(self) -> str:
        """What would spare the second pass: a budget helps only where the length is known."""
        if self.samples is not None:
            return "raise memory= so that one pass is enough"
        return "pass list(loader), or hold the features of one pass with strategy='held'"


class RandomState:
    """The state of all random generators a pass over ``data`` may draw from."""

    def __init__(self, data: Any) -> None:
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        inner = getattr(data, "batch_sampler", None)
        owners = (data, getattr(data, "sampler", None), inner, getattr(inner, "sampler", None))
        generators = [getattr(owner, "generator", None) for owner in owners]
        self._own = [(g, g.get_state()) for g in generators if isinstance(g, torch.Generator)]

    def restore(self) -> None:
        """Set every generator back."""
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        for generator, state in self._own:
            generator.set_state(state)


def _iterable(data: Any) -> Iterable[Any]:
    if isinstance(data, Mapping):
        return [data]
    if _is_pair(data):
        x, y = data
        if len(x) != len(y):
            raise LawscopeError(
                f"The data has {len(x)} samples and {len(y)} labels; one label per sample is "
                "needed."
            )
        return [
            (x[i : i + WHOLE_BATCH], y[i : i + WHOLE_BATCH]) for i in range(0, len(x), WHOLE_BATCH)
        ]
    if isinstance(data, Dataset):
        return DataLoader(data, batch_size=WHOLE_BATCH)
    if isinstance(data, Tensor):
        raise LawscopeError(
            "The data is one tensor without labels; pass (x, y), or a loader of (x, y) batches."
        )
    if not isinstance(data, Iterable):
        raise LawscopeError(
            f"The data is a {type(data).__name__}, which cannot be iterated; pass a DataLoader, "
            "a Dataset, a pair (x, y) or a list of batches."
        )
    return data


def _is_pair(data: Any) -> bool:
    """A whole data set as (x, y): an array of samples and a column of integers."""
    if not isinstance(data, list | tuple) or len(data) != 2:
        return False
    x, y = data
    if not isinstance(x, Tensor | np.ndarray) or x.ndim < 2:
        return False
    if isinstance(y, list):
        return bool(y) and all(isinstance(label, int | np.integer) for label in y)
    if not isinstance(y, Tensor | np.ndarray):
        return False
    integers = y.dtype.kind in "iub" if isinstance(y, np.ndarray) else not y.is_floating_point()
    return bool(integers and (y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1)))


def _length(data: Any) -> int | None:
    """``len(data)`` where there is one; a DataLoader of a stream has the method, but no length."""
    try:
        return len(data) if isinstance(data, Sized) else None
    except TypeError:
        return None


def _classes(data: Iterable[Any]) -> int | None:
    """How many classes there are, when that can be known without loading samples."""
    if isinstance(data, DataLoader):
        dataset = data.dataset
        labels = dataset.tensors[-1] if isinstance(dataset, TensorDataset) else None
        if labels is None or labels.is_floating_point() or labels.dim() != 1:
            return None
        return len(labels.unique())
    if isinstance(data, Sequence):
        found = [as_batch(raw).labels for raw in data]
        if found and all(y is not None and not y.is_floating_point() for y in found):
            return len(torch.cat([y.reshape(-1).cpu() for y in found if y is not None]).unique())
    return None


def _samples(data: Iterable[Any]) -> int | None:
    """How many samples there will be, at most, when that can be known without reading them."""
    if isinstance(data, DataLoader):
        lengths = (_length(data.sampler), _length(data.dataset))
        return next((n for n in lengths if n is not None), None)
    if isinstance(data, Sequence):
        return sum(as_batch(raw).size for raw in data)
    return None
