"""Data is read in the same order twice, and what is not the same is noticed."""

import hashlib
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import cases
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import lawscope as ls
from lawscope.data.batches import Batch
from lawscope.data.source import update_checksum
from lawscope.errors import LawscopeError


def checksum(batch):
    digest = hashlib.blake2b()
    update_checksum(digest, batch)
    return digest.hexdigest()


class Restless:
    """Images with a constant border whose inside differs in every pass."""

    def __init__(self, batch, change):
        self.batch, self.change, self.passes = batch, change, 0

    def __iter__(self):
        self.passes += 1
        generator = torch.Generator().manual_seed(0)
        y = torch.arange(256) % 4
        x = torch.zeros(256, 1, 12, 12)
        x[..., 2:-2, 2:-2] = torch.randn(256, 1, 8, 8, generator=generator)
        x[..., 2:-2, 2:-2] += torch.randn(4, 1, 8, 8, generator=generator)[y]
        if self.passes == 2:
            self.change(x)
        return iter(list(zip(x.split(self.batch), y.split(self.batch), strict=True)))


def image_network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(144, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)
    )


@pytest.mark.parametrize("batch", [64, 128, 100])
def test_any_other_pixel_in_the_second_pass_is_an_error(batch):
    def flip(x):
        x[40] = x[40].flip(-1)

    def swap(x):
        x[[3, 7]] = x[[7, 3]]  # two samples of one class

    def nudge(x):
        x[200, 0, 5, 5] += 1e-3

    for change in (flip, swap, nudge):
        with pytest.raises(LawscopeError, match="other samples, or another order"):
            ls.separation(image_network(), Restless(batch, change), strategy="two-pass")
    same = ls.separation(image_network(), Restless(batch, lambda x: None), strategy="two-pass")
    assert same.settings["passes"] == 2


DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(DTYPES), st.integers(1, 9000), st.integers(0, 2**31), st.booleans())
def test_one_other_number_or_two_exchanged_change_the_checksum(dtype, size, seed, exchange):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 250, (size,), generator=generator).to(dtype)
    other = x.clone()
    i, j = torch.randint(0, size, (2,), generator=generator).tolist()
    if exchange:
        other[i], other[j] = x[j].item(), x[i].item()
    else:
        other[i] = not x[i] if dtype == torch.bool else x[i] + 2
    same = bool((other == x).all())
    assert (checksum(Batch((x,), {}, None)) == checksum(Batch((other,), {}, None))) == same


def test_every_tensor_of_a_batch_counts():
    x, y = cases.vectors(), cases.labels()
    changed = x.clone()
    changed[-1, -1] += 1
    base = checksum(Batch((x, x), {"z": x}, y))
    assert base == checksum(Batch((x, x.clone()), {"z": x.T.contiguous().T}, y))
    for other in (
        Batch((x, changed), {"z": x}, y),
        Batch((x, x), {"z": changed}, y),
        Batch((x, x), {"z": x}, y.flip(0)),
        Batch((x.to_sparse(), x), {"z": x}, y),
    ):
        assert checksum(other) != base
    other = Batch((changed.to_sparse(), x), {"z": x}, y)
    assert checksum(other) != checksum(Batch((x.to_sparse(), x), {"z": x}, y))


def assert_random_state_kept(call):
    before = torch.get_rng_state()
    call()
    assert torch.equal(before, torch.get_rng_state())


def test_an_empty_loader_draws_nothing():
    model = cases.sequential()
    loader = DataLoader(TensorDataset(cases.vectors()[:0], cases.labels()[:0]))

    def call():
        with pytest.raises(LawscopeError, match="The loader is empty"):
            ls.separation(model, loader)

    assert_random_state_kept(call)


class Noisy(Sequence):
    """Batches that can be indexed and draw random numbers when they are."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i >= len(self):
            raise IndexError
        x, y = cases.vectors(), cases.labels()
        return x + torch.randn_like(x), y


def test_a_sequence_that_draws_is_read_the_same_twice_and_leaves_the_state():
    model = cases.sequential()

    def call():
        two = ls.separation(model, Noisy(), strategy="two-pass", uncertainty=None)
        torch.manual_seed(0)
        one = ls.separation(model, Noisy(), uncertainty=None)
        assert two.values == pytest.approx(one.values, rel=1e-9)

    torch.manual_seed(0)
    assert_random_state_kept(call)


CASE = cases.CASES[0]


class Stream(IterableDataset):
    """Samples with noise of a generator of their own, and no length."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(0)

    def __iter__(self):
        for x, y in zip(cases.vectors(), cases.labels(), strict=True):
            yield x + torch.randn(len(x), generator=self.generator), y


class Samples(Dataset):
    """The same noise on samples that are counted."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(0)

    def __len__(self):
        return cases.SAMPLES

    def __getitem__(self, i):
        noise = torch.randn(6, generator=self.generator)
        return cases.vectors()[i] + noise, cases.labels()[i]


def stream(**settings):
    loader = DataLoader(Stream(), batch_size=20)
    return ls.separation(CASE.model(), loader, uncertainty=None, **settings)


def test_of_a_stream_without_length_the_budget_does_not_help_and_holding_does():
    for memory in ("1KB", "9GB"):
        with pytest.raises(ls.LawscopeError, match=r"list\(loader\), or .*strategy='held'") as told:
            stream(memory=memory)
        assert "memory=" not in str(told.value)
    listed = list(DataLoader(Stream(), batch_size=20))
    expected = ls.separation(CASE.model(), listed, uncertainty=None).values
    assert stream(strategy="held").values == pytest.approx(expected)


def test_of_counted_samples_the_budget_helps():
    loader = DataLoader(Samples(), batch_size=20)
    with pytest.raises(ls.LawscopeError, match="raise memory= so that one pass is enough"):
        ls.separation(CASE.model(), loader, uncertainty=None, memory="1KB")
    assert ls.separation(CASE.model(), loader, uncertainty=None).settings["passes"] == 1
