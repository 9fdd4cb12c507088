"""Sequences become one row per sample, padding left out or named."""

import pytest
import torch
from tests import cases, oracles
from torch import nn

import lawscope as ls
from lawscope.capture.pooling import loses_mask, pool
from lawscope.errors import LawscopeError


class Prefixed(nn.Module):
    """Puts a token of its own before the text, for which the mask has no position."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Parameter(torch.zeros(1, 1, 8))
        self.a, self.b, self.c = nn.Linear(8, 12), nn.Linear(12, 12), nn.Linear(12, 4)

    def forward(self, inputs, attention_mask):
        h = torch.cat([self.first.expand(len(inputs), 1, 8), inputs], 1)
        return self.c(torch.relu(self.b(torch.relu(self.a(h))))[:, 0])


def padded():
    x, y = cases.sequences().clone(), cases.labels()
    mask = torch.ones(x.shape[:2], dtype=torch.long)
    mask[::2, 2:] = 0
    return x, mask, y


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_mask_with_other_positions_is_named(pooling):
    x, mask, y = padded()
    batches = [{"inputs": x, "attention_mask": mask, "labels": y}]
    stations = ["input", "a", "b"]
    with pytest.warns(ls.LawscopeWarning, match=r"at 2 stations with other token .*'a', 'b'"):
        result = ls.separation(
            Prefixed(), batches, stations=stations, pooling=pooling, uncertainty=None
        )
    assert result.settings["pooling"] == [pooling, *[f"{pooling} (unmasked)"] * 2]
    assert result.values[0] == pytest.approx(oracles.fuzziness(pool(x, pooling, mask), y), rel=1e-6)


def test_a_first_token_is_only_lost_to_padding_before_it():
    longer, mask = torch.zeros(2, 4, 8), torch.tensor([[1, 1, 0], [1, 1, 1]])
    assert loses_mask(longer, "mean", mask)
    assert loses_mask(longer, "last", mask)
    assert not loses_mask(longer, "first", mask)
    assert loses_mask(longer, "first", mask.flip(1))
    assert not loses_mask(longer[:, 1:], "mean", mask)
    assert not loses_mask(longer, "flatten", mask)
    assert not loses_mask(longer, lambda a: a[:, 0], mask)


def test_a_mask_that_hides_nothing_is_not_missed():
    x, mask, y = padded()
    batches = [{"inputs": x, "attention_mask": torch.ones_like(mask), "labels": y}]
    result = ls.separation(Prefixed(), batches, stations=["input", "a", "b"], uncertainty=None)
    assert result.settings["pooling"] == ["mean"] * 3


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda a: a.mean(0), "gives 5 rows for 72 samples"),
        (lambda a: a.mean(), r"gives a tensor of torch.float32 and shape \(\)"),
        (lambda a: a.mean(1).int(), "gives a tensor of torch.int32"),
        (lambda a: a.mean(1) + 0j, "gives a tensor of torch.complex64"),
        (lambda a: a.numpy().mean(1), "gives a ndarray"),
    ],
)
def test_a_function_without_a_row_per_sample_gets_a_sentence(function, sentence):
    x = torch.randn(72, 5, 8)
    with pytest.raises(LawscopeError, match=sentence):
        pool(x, function, None)


def test_a_function_may_give_any_shape_of_one_row_per_sample():
    x = torch.randn(7, 5, 8)
    assert torch.equal(pool(x, lambda a: a[:, :2], None), x[:, :2].reshape(7, 16))
    assert pool(x, lambda a: a[:, 0, 0], None).shape == (7, 1)
