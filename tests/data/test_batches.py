"""Batches of awkward shapes are read as meant, or get a sentence."""

import numpy as np
import pytest
import torch
from tests import cases
from torch import nn

import lawscope as ls
from lawscope.data.batches import Batch, as_batch
from lawscope.errors import LawscopeError


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = cases.sequential()

    def forward(self, x, scale=None):
        return self.inner(x)


def test_arrays_that_run_backwards_are_read():
    x, y = cases.vectors().numpy(), cases.labels().numpy()
    back = x[::-1], y[::-1]
    model = cases.sequential()
    expected = ls.separation(model, (x, y), uncertainty=None)
    for data in (back, [back], [{"input": back[0], "labels": back[1]}]):
        result = ls.separation(model, data, uncertainty=None)
        assert result.values == pytest.approx(expected.values, rel=1e-4)
    batch = as_batch((x[:, ::-1], y))
    assert np.array_equal(batch.args[0].numpy(), x[:, ::-1])


@pytest.mark.parametrize("as_number", [int, torch.tensor, np.int64])
def test_a_list_of_single_samples_gets_a_sentence(as_number):
    pairs = [(x, as_number(int(y))) for x, y in zip(cases.vectors(), cases.labels(), strict=True)]
    named = [{"input": x, "labels": y} for x, y in pairs]
    for samples in (pairs, named):
        with pytest.raises(LawscopeError, match=r"one label, 0, .* single sample"):
            ls.separation(cases.sequential(), samples)


@pytest.mark.parametrize("other", [torch.tensor(1.0), torch.zeros(3)], ids=["number", "column"])
@pytest.mark.parametrize("name", ["scale", "unknown"])
def test_a_tensor_of_another_length_before_the_inputs_is_not_the_batch(name, other):
    x, y = cases.vectors(), cases.labels()
    model, stations = Scaled(), ["inner.0", "inner.2"]
    expected = ls.separation(model, [{"x": x, "labels": y}], stations=stations)
    result = ls.separation(model, [{name: other, "x": x, "labels": y}], stations=stations)
    assert result.values == pytest.approx(expected.values, rel=1e-6)


def test_samples_are_counted_by_labels_where_an_input_has_as_many():
    x, y = cases.vectors(), cases.labels()
    few = torch.zeros(3)
    assert Batch((few, x), {}, y).size == len(y)
    assert Batch((few, x), {}, None).size == 3
    assert Batch((x,), {}, y[:4]).size == len(x)  # one label per sample is asked for later
    assert Batch((x[:0],), {}, y[:0]).size == 0
    with pytest.raises(LawscopeError, match="single numbers only"):
        _ = Batch((torch.tensor(1.0),), {}, None).size
