"""Features of the plain GPT, block by block, for what the streaming measurement does not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lawscope.studies.lab import WINDOWS_AT_ONCE, Lab
from lawscope.studies.plan import Training


def read_text(lab: Lab, training: Training) -> tuple[Tensor, Iterator[Tensor]]:
    """Return the next tokens of held-out text, (n,), and the features before them."""
    run = lab.run(training)
    windows = run.samples.x_test[: lab.settings["tokens"] // lab.settings["window"]]
    return windows[:, 1:].flatten(), features_of(run.network(), windows)


@torch.no_grad()
def features_of(model: Any, windows: Tensor) -> Iterator[Tensor]:
    """Yield what the embedding and each block say of all tokens but the last of a window, (n, d).

    They are normalised as the final norm does: LayerNorm without gain and shift, in float64.
    """
    kept: list[list[Tensor]] = [[] for _ in range(len(model.blocks) + 1)]

    def after(place: list[Tensor]) -> Any:
        return lambda module, inputs, output: place.append(output.clone())

    first = model.blocks[0]
    hooks = [first.register_forward_pre_hook(lambda module, x: kept[0].append(x[0].clone()))]
    pairs = zip(model.blocks, kept[1:], strict=True)
    hooks += [block.register_forward_hook(after(place)) for block, place in pairs]
    try:
        for part in windows.split(WINDOWS_AT_ONCE):
            model(part)
    finally:
        for hook in hooks:
            hook.remove()
    for parts in kept:
        x = torch.cat(parts)[:, :-1].flatten(0, 1)
        yield F.layer_norm(x.double(), x.shape[-1:], eps=model.norm.eps)


def residuals_of(features: Tensor, targets: Tensor) -> Tensor:
    """PR of many targets at once: 1 − R² of least squares with intercept."""
    x = (features - features.mean(dim=0)).double()
    y = (targets - targets.double().mean(dim=0)).double()
    basis, sizes, _ = torch.linalg.svd(x, full_matrices=False)
    basis = basis[:, sizes > sizes[0] * 1e-10]  # LayerNorm takes one direction away
    unexplained = y - basis @ (basis.T @ y)
    left: Tensor = unexplained.square().sum(dim=0) / y.square().sum(dim=0)
    return left.round(decimals=14)
