"""Sequences become one row per sample, padding left out or named."""

import pytest
import torch
from tests import cases, oracles
from torch import nn

import lawscope as ls
from lawscope.capture.pooling import check_pooling, count_features, loses_mask, pool, pool_maps
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


def convolutional():
    torch.manual_seed(0)
    first, second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3, stride=2)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(45, 4))


def by_blocks(maps):
    """Average the four quarters of maps of even size."""
    half = maps.shape[-1] // 2
    rows = (maps[..., :half, :], maps[..., half:, :])
    return torch.stack([part.mean((2, 3)) for r in rows for part in r.split(half, dim=3)], dim=2)


@pytest.mark.parametrize(
    ("pooling", "by_hand", "features"),
    [
        ("auto", lambda maps: maps, [192, 256]),
        ("flatten", lambda maps: maps, [192, 256]),
        ("last", lambda maps: maps, [192, 256]),
        ("mean", lambda maps: maps.mean((2, 3)), [3, 4]),
        ("2x2", by_blocks, [12, 16]),
        (lambda maps: maps[:, :, 0], lambda maps: maps[:, :, 0], [24, 32]),
    ],
)
def test_maps_are_pooled_as_asked(pooling, by_hand, features):
    net, x, y = convolutional(), cases.images(), cases.labels()
    stations = ["input", "1"]
    result = ls.separation(net, (x, y), stations=stations, pooling=pooling, uncertainty=None)
    with torch.no_grad():
        maps = [x, net[:2](x)]
    expected = [oracles.fuzziness(by_hand(m).flatten(1), y) for m in maps]
    assert result.values == pytest.approx(expected, rel=1e-5)
    assert list(result.dims) == features
    named = pooling in ("mean", "2x2")
    said = "<lambda>" if callable(pooling) else pooling if named else "flatten"
    assert result.settings["pooling"] == [said] * 2


def test_a_grid_has_no_more_places_than_a_map_and_positive_sides():
    x = torch.randn(3, 2, 6, 4)
    assert pool_maps(x, "3x2").shape == (3, count_features("3x2", (2, 6, 4), sequence=False))
    for whole in ("6x4", "8x8"):
        assert torch.equal(pool_maps(x, whole), x.flatten(1))
        assert count_features(whole, (2, 6, 4), sequence=False) == 48
    for wrong in ("0x4", "4", "4x", "x", "axb", "4x4x4"):
        with pytest.raises(LawscopeError, match="is not known; choose auto"):
            check_pooling(wrong)


def test_the_ends_of_a_sequence_are_its_halves_at_both_sides():
    x, mask = torch.randn(2, 4, 6), torch.tensor([[1, 1, 1, 1], [0, 1, 1, 0]])
    expected = [torch.cat([x[0, 3, :3], x[0, 0, 3:]]), torch.cat([x[1, 2, :3], x[1, 1, 3:]])]
    assert torch.equal(pool(x, "ends", mask), torch.stack(expected))
    assert torch.equal(pool(x, "max", mask)[1], torch.maximum(x[1, 1], x[1, 2]))
