"""Activations of any shape as one row of features per sample."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from lawscope.errors import LawscopeError

Pooling = str | Callable[[Tensor], Tensor]
# What a network may read of the steps of a sequence; "ends" is the last step of the forward half
# of a bidirectional layer and the first step of its backward half.
OF_STEPS = ("last", "first", "mean", "max", "ends")
POOLINGS = ("auto", *OF_STEPS, "flatten")
GRID = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})")


def check_pooling(pooling: Pooling) -> Pooling:
    """Return the pooling, if it is one."""
    named = isinstance(pooling, str) and (pooling in POOLINGS or GRID.fullmatch(pooling))
    if not callable(pooling) and not named:
        raise LawscopeError(
            f"pooling={pooling!r} is not known; choose {', '.join(POOLINGS)}, a grid such as '4x4' "
            "for feature maps, or pass a function."
        )
    return pooling


def choose_pooling(
    pooling: Pooling, shape: tuple[int, ...], *, sequence: bool, maps: bool, read: str = ""
) -> Pooling:
    """Return what is done with the activations of one station.

    Args:
        pooling: as it was asked for.
        shape: of the activations of one sample.
        sequence: they are (tokens, channels).
        maps: they are (channels, positions…).
        read: what the network itself reads of the steps of a recurrent layer.
    """
    if callable(pooling):
        return pooling if len(shape) > 1 else "flatten"
    grid = GRID.fullmatch(pooling)
    if sequence:
        return (read or "mean") if grid or pooling == "auto" else pooling
    if maps and (pooling == "mean" or (grid and len(shape) == 3)):
        return pooling
    return "flatten"


def count_features(pooling: Pooling, shape: tuple[int, ...], sequence: bool) -> int:
    """Return how many features are left of a sample; of a function's result, an upper bound."""
    if not isinstance(pooling, str) or pooling == "flatten":
        return prod(shape)
    if not sequence and GRID.fullmatch(pooling):
        return shape[0] * prod(_sides(pooling, shape[1:]))
    return shape[-1] if sequence else shape[0]


def _sides(grid: str, positions: tuple[int, ...]) -> tuple[int, int]:
    """Return the sides of a grid of averages, which has no more than the map itself."""
    rows, columns = map(int, grid.split("x"))
    return min(rows, positions[0]), min(columns, positions[1])


def loses_mask(activations: Tensor, pooling: Pooling, mask: Tensor | None) -> bool:
    """Return whether padding is pooled too, because the mask has other positions.

    A network that puts tokens of its own before the text has one position more than its mask.
    """
    if mask is None or mask.shape == activations.shape[:2] or pooling not in OF_STEPS:
        return False
    pooled = {"first": slice(1), "last": slice(-1, None)}
    return not bool(mask[:, pooled.get(str(pooling), slice(None))].all())


def pool(activations: Tensor, pooling: Pooling, mask: Tensor | None) -> Tensor:
    """Reduce a sequence (B, T, C) to one feature vector per sample, (B, d).

    The mask (B, T) is nonzero where a token is real; padding is left out of "mean" and "max" and
    is never "first" or "last".
    """
    if callable(pooling):
        return _by_function(pooling, activations)
    if pooling == "flatten":
        return activations.reshape(len(activations), -1)
    if pooling == "ends":
        half = activations.shape[2] // 2
        ends = pool(activations, "last", mask), pool(activations, "first", mask)
        return torch.cat([ends[0][:, :half], ends[1][:, half:]], dim=1)
    if mask is None or mask.shape != activations.shape[:2]:
        if pooling == "mean":
            return activations.mean(dim=1, dtype=_wide(activations))
        if pooling == "max":
            return activations.amax(dim=1)
        return activations[:, 0 if pooling == "first" else -1]
    real = mask.to(activations.device) != 0
    if pooling == "mean":
        weights = real.to(_wide(activations))
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.einsum("btc,bt->bc", activations.to(weights.dtype), weights)
    if pooling == "max":
        return activations.masked_fill(~real[:, :, None], -torch.inf).amax(dim=1)
    positions = torch.arange(real.shape[1], device=real.device)
    if pooling == "first":
        chosen = torch.where(real, positions, real.shape[1] - 1).amin(dim=1)
    else:
        chosen = torch.where(real, positions, 0).amax(dim=1)
    return activations[torch.arange(len(activations), device=real.device), chosen]


def pool_maps(activations: Tensor, pooling: Pooling) -> Tensor:
    """Reduce maps (B, C, …) to one feature vector per sample, (B, d).

    "mean" averages all positions, "4x4" those of a map (B, C, H, W) to 4 × 4, or fewer where it
    has fewer.
    """
    if callable(pooling):
        return _by_function(pooling, activations)
    wide = activations.to(_wide(activations)) if pooling != "flatten" else activations
    if pooling == "mean":
        wide = wide.flatten(2).mean(dim=2)
    elif pooling != "flatten":
        wide = F.adaptive_avg_pool2d(wide, _sides(pooling, tuple(wide.shape[2:])))
    return wide.reshape(len(wide), -1)


def _wide(activations: Tensor) -> torch.dtype:
    """Return in what is averaged: of half precision float32, as the network's own kernels would."""
    return torch.promote_types(activations.dtype, torch.float32)


def _by_function(pooling: Callable[[Tensor], Tensor], activations: Tensor) -> Tensor:
    pooled: object = pooling(activations)
    if isinstance(pooled, Tensor) and pooled.is_floating_point() and pooled.dim():
        if len(pooled) == len(activations):
            return pooled.reshape(len(pooled), -1)
        what = f"{len(pooled)} rows for {len(activations)} samples"
    elif isinstance(pooled, Tensor):
        what = f"a tensor of {pooled.dtype} and shape {tuple(pooled.shape)}"
    else:
        what = f"a {type(pooled).__name__}"
    raise LawscopeError(
        f"The function passed as pooling= gives {what}; of activations of shape "
        f"{tuple(activations.shape)} it has to make a tensor of real numbers with one row per "
        "sample, such as (B, C)."
    )
