"""Data that differs in every pass: the remedy that the sentence names is one."""

import pytest
import torch
from tests import cases
from torch.utils.data import DataLoader, Dataset, IterableDataset

import lawscope as ls

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


def test_of_a_generator_the_strategy_is_what_needs_a_second_pass():
    with pytest.raises(ls.LawscopeError, match="leave strategy= to lawscope"):
        ls.separation(CASE.model(), iter(list(CASE.batches())), strategy="two-pass")
    assert ls.separation(CASE.model(), iter(list(CASE.batches()))).settings["passes"] == 1
