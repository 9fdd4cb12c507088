from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lawscope.errors import LawscopeError
from lawscope.zoo.inputs import as_inputs

RNG = np.random.default_rng(0)
GRAY = RNG.integers(0, 256, (5, 4, 6), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)


def test_gray() -> None:
    inputs = as_inputs(GRAY, flatten=False)
    assert inputs.dtype == torch.float32
    assert inputs.shape == (5, 1, 4, 6)
    np.testing.assert_allclose(inputs[:, 0].numpy(), GRAY / 127.5 - 1, atol=1e-6)
    assert torch.equal(as_inputs(GRAY), inputs.reshape(5, 24))


def test_colour_has_its_channels_first() -> None:
    inputs = as_inputs(COLOUR, flatten=False)
    assert inputs.shape == (5, 3, 4, 6)
    for channel in range(3):
        expected = COLOUR[..., channel] / 127.5 - 1
        np.testing.assert_allclose(inputs[:, channel].numpy(), expected, atol=1e-6)
    assert torch.equal(as_inputs(COLOUR), inputs.flatten(1))


def test_the_ends_are_exact() -> None:
    assert as_inputs(np.array([[[0, 255]]], np.uint8)).tolist() == [[-1.0, 1.0]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floating_point_keeps_its_values(dtype: Any) -> None:
    x = np.array([[0.5, -3.0], [2.0, 100.0]], dtype=dtype)
    assert as_inputs(x).dtype == torch.float32
    assert as_inputs(x).tolist() == x.tolist()
    deep = np.zeros((2, 3, 4, 5), dtype)
    assert as_inputs(deep).shape == (2, 60)
    assert as_inputs(deep, flatten=False).shape == (2, 3, 4, 5)


def test_any_memory_will_do_and_none_of_it_is_aliased() -> None:
    x = GRAY[:, ::-1].astype(np.float32)
    inputs = as_inputs(x)
    inputs.zero_()
    assert x.any()
    frozen = np.frombuffer(bytes(12), np.uint8).reshape(1, 3, 4)
    assert as_inputs(frozen).tolist() == [[-1.0] * 12]
    assert as_inputs(GRAY[:, ::-1]).shape == (5, 24)


def test_no_images_at_all() -> None:
    assert as_inputs(GRAY[:0]).shape == (0, 24)


@pytest.mark.parametrize("x", [GRAY[0], GRAY.astype(np.int64), COLOUR[..., :2], np.zeros(3)])
def test_other_arrays_are_refused(x: Any) -> None:
    with pytest.raises(LawscopeError, match="are no inputs: give uint8 pixels"):
        as_inputs(x)
