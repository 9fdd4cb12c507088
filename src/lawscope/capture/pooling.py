"""Activations of any shape as one row of features per sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from lawscope.errors import LawscopeError

Pooling = Literal["mean", "first", "last", "flatten"] | Callable[[Tensor], Tensor]
POOLINGS = ("mean", "first", "last", "flatten")


def check_pooling(pooling: Pooling) -> Pooling:
    """Return the pooling, if it is one."""
    if not callable(pooling) and not (isinstance(pooling, str) and pooling in POOLINGS):
        raise LawscopeError(
            f"pooling={pooling!r} is not known; choose {', '.join(POOLINGS)} or pass a function."
        )
    return pooling


def loses_mask(activations: Tensor, pooling: Pooling, mask: Tensor | None) -> bool:
    """Return whether padding is pooled too, because the mask has other positions.

    A network that puts tokens of its own before the text has one position more than its mask.
    """
    if mask is None or mask.shape == activations.shape[:2]:
        return False
    pooled = {"mean": slice(None), "first": slice(1), "last": slice(-1, None)}
    where = pooled.get(pooling) if isinstance(pooling, str) else None
    return where is not None and not bool(mask[:, where].all())


def pool(activations: Tensor, pooling: Pooling, mask: Tensor | None) -> Tensor:
    """Reduce a sequence (B, T, C) to one feature vector per sample, (B, d).

    The mask (B, T) is nonzero where a token is real; padding is left out of "mean" and is never
    "first" or "last".
    """
    if callable(pooling):
        return _by_function(pooling, activations)
    if pooling == "flatten":
        return activations.reshape(len(activations), -1)
    if mask is None or mask.shape != activations.shape[:2]:
        if pooling == "mean":
            # Half precision is averaged in float32, as the network's own kernels would.
            wide = torch.promote_types(activations.dtype, torch.float32)
            return activations.mean(dim=1, dtype=wide)
        return activations[:, 0 if pooling == "first" else -1]
    real = mask.to(activations.device) != 0
    if pooling == "mean":
        weights = real.to(torch.promote_types(activations.dtype, torch.float32))
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.einsum("btc,bt->bc", activations.to(weights.dtype), weights)
    positions = torch.arange(real.shape[1], device=real.device)
    if pooling == "first":
        chosen = torch.where(real, positions, real.shape[1] - 1).amin(dim=1)
    else:
        chosen = torch.where(real, positions, 0).amax(dim=1)
    return activations[torch.arange(len(activations), device=real.device), chosen]


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
        f"The function passed as pooling= gives {what}; of activations (B, T, C) it has to make "
        "a tensor of real numbers with one row per sample, such as (B, C)."
    )
