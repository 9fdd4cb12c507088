"""The data of a measurement, read once or twice and checked to be the same."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lawscope.capture.batches import Batch, as_batch, tensors_in
from lawscope.errors import LawscopeError

WHOLE_BATCH = 256


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
        self.samples = _samples(self.data)
        self.batches = len(self.data) if isinstance(self.data, Sized) else None
        self._state = RandomState(self.data)
        self._checksums: list[int] = []
        self._begun: Iterator[Any] | None = iter(self.data)
        try:
            self._first = next(self._begun)
        except StopIteration:
            raise LawscopeError("The loader is empty: it yields no batch.") from None
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
                "a list or a DataLoader, or raise memory= so that one pass is enough."
            )
        else:
            self._state.restore()
            raws = self.data
        checksum = 0
        for raw in raws:
            batch = as_batch(raw)
            checksum = _checksum(batch, checksum)
            yield batch
        self._checksums.append(checksum)
        if checksum != self._checksums[0]:
            raise LawscopeError(
                "The loader gave other samples, or another order, in the second pass than in the "
                "first; make it repeatable (fixed seed, no private random state), or raise "
                "memory= so that one pass is enough."
            )


class RandomState:
    """The state of all random generators a pass over ``data`` may draw from."""

    def __init__(self, data: Any) -> None:
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        owners = (data, getattr(data, "sampler", None), getattr(data, "batch_sampler", None))
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
    if _is_pair(data):
        x, y = data
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
    """A whole data set as (x, y): two arrays of equal length, the second a column of integers."""
    if not isinstance(data, list | tuple) or len(data) != 2:
        return False
    x, y = data
    if not all(isinstance(part, Tensor | np.ndarray) for part in (x, y)) or len(x) != len(y):
        return False
    integers = y.dtype.kind in "iub" if isinstance(y, np.ndarray) else not y.is_floating_point()
    return bool(integers and y.ndim == 1 and x.ndim > 1)


def _samples(data: Iterable[Any]) -> int | None:
    """How many samples there will be, at most, when that can be known without reading them."""
    if isinstance(data, DataLoader):
        for counted in (data.sampler, data.dataset):
            if isinstance(counted, Sized):
                return len(counted)
        return None
    if isinstance(data, Sequence):
        return sum(as_batch(raw).size for raw in data)
    return None


def _checksum(batch: Batch, before: int) -> int:
    """CRC of the labels and of up to 64 entries of the first input."""
    if batch.labels is not None:
        before = zlib.crc32(batch.labels.detach().cpu().contiguous().numpy().tobytes(), before)
    flat = next(tensors_in((batch.args, batch.kwargs))).detach().reshape(-1)
    some = flat[:: max(1, len(flat) // 64)][:64]
    if some.dtype == torch.bfloat16:
        some = some.float()
    return zlib.crc32(some.cpu().contiguous().numpy().tobytes(), before)
