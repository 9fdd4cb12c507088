"""From pixels to what a network takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lawscope.errors import LawscopeError
from lawscope.zoo.arrays import Images

if TYPE_CHECKING:
    import torch


def as_inputs(x: Images, flatten: bool = True) -> torch.Tensor:
    """Pixels as float32 in [−1, 1], channels first: x / 127.5 − 1.

    Floating-point inputs keep their values and, unless flattened, their shape.

    Args:
        x: uint8 of shape (n, H, W) or (n, H, W, 3), or floating-point of shape (n, …).
        flatten: one row per example, (n, C·H·W), instead of (n, C, H, W).

    Returns:
        A tensor of its own memory.

    Raises:
        LawscopeError: when ``x`` has another shape or type.

    Example:
        >>> as_inputs(np.array([[[0, 255], [51, 204]]], dtype=np.uint8))
        tensor([[-1.0000,  1.0000, -0.6000,  0.6000]])
        >>> as_inputs(np.zeros((7, 32, 32, 3), np.uint8), flatten=False).shape
        torch.Size([7, 3, 32, 32])
    """
    import torch

    if x.dtype == np.uint8 and x.ndim == 3:
        x = x[:, None]
    elif x.dtype == np.uint8 and x.ndim == 4 and x.shape[3] == 3:
        x = np.moveaxis(x, 3, 1)
    elif not np.issubdtype(x.dtype, np.floating) or x.ndim < 2:
        raise LawscopeError(
            f"examples of shape {x.shape} and type {x.dtype} are no inputs: give uint8 pixels "
            "(n, H, W) or (n, H, W, 3), or floating-point inputs (n, …)"
        )
    inputs = torch.tensor(np.ascontiguousarray(x), dtype=torch.float32)
    if x.dtype == np.uint8:
        inputs.div_(127.5).sub_(1.0)
    return inputs.flatten(1) if flatten else inputs
