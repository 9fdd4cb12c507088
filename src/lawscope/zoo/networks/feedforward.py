"""The feed-forward networks of He & Su 2023."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

from torch import nn


def feedforward(
    depth: int | None = None,
    *,
    inputs: int = 100,
    width: int = 100,
    widths: Sequence[int] | None = None,
    classes: int = 10,
    norm: bool = True,
    nonlinear: bool = True,
) -> nn.Sequential:
    """Build the feed-forward network of He & Su 2023: Linear → BatchNorm → ReLU, repeated.

    Args:
        depth: number of layers L as the paper counts them: L − 1 hidden ones and the classifier.
        inputs: number of input features.
        width: of every hidden layer.
        widths: of each hidden layer in turn; stands in for ``depth`` and ``width``.
        classes: number of classes.
        norm: with BatchNorm after each hidden linear map.
        nonlinear: with ReLU at the end of each hidden layer.
    """
    if widths is None:
        if depth is None:
            raise ValueError("a feed-forward network needs depth or widths, got neither")
        if depth < 2:
            raise ValueError(f"depth must be at least 2 (one hidden layer), got {depth}")
        widths = (width,) * (depth - 1)
    if not widths:
        raise ValueError("widths must name at least one hidden layer, got none")
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for index, (before, after) in enumerate(pairwise((inputs, *widths)), 1):
        parts: OrderedDict[str, nn.Module] = OrderedDict(linear=nn.Linear(before, after))
        if norm:
            parts["norm"] = nn.BatchNorm1d(after)
        if nonlinear:
            parts["relu"] = nn.ReLU()
        layers[f"layer{index}"] = nn.Sequential(parts)
    layers["head"] = nn.Linear(widths[-1], classes)
    return nn.Sequential(layers)
