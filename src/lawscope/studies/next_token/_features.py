"""Features of the plain GPT, block by block, for what the streaming measurement does not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WINDOWS_AT_ONCE = 64


@torch.no_grad()
def features_of(model: Any, windows: Tensor) -> Iterator[Tensor]:
    """What the embedding and each block say of every token, normalised as the final norm does."""
    kept: list[list[Tensor]] = [[] for _ in range(len(model.blocks) + 1)]

    def keep(place: int, x: Tensor) -> None:
        kept[place].append(x.clone())

    def after(place: int) -> Any:
        return lambda module, inputs, output: keep(place, output)

    hooks = [model.blocks[0].register_forward_pre_hook(lambda module, x: keep(0, x[0]))]
    hooks += [block.register_forward_hook(after(i)) for i, block in enumerate(model.blocks, 1)]
    try:
        for part in windows.split(WINDOWS_AT_ONCE):
            model(part)
    finally:
        for hook in hooks:
            hook.remove()
    for parts in kept:
        yield normalised(torch.cat(parts), model.norm)


def normalised(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """LayerNorm without gain and shift, in float64."""
    return F.layer_norm(x.double(), x.shape[-1:], eps=norm.eps)


def residuals_of(features: Tensor, targets: Tensor) -> Tensor:
    """PR of many targets at once: 1 − R² of least squares with intercept."""
    x = (features - features.mean(dim=0)).double()
    y = (targets - targets.double().mean(dim=0)).double()
    basis, sizes, _ = torch.linalg.svd(x, full_matrices=False)
    basis = basis[:, sizes > sizes[0] * 1e-10]  # LayerNorm takes one direction away
    unexplained = y - basis @ (basis.T @ y)
    left: Tensor = unexplained.square().sum(dim=0) / y.square().sum(dim=0)
    return left.round(decimals=14)
