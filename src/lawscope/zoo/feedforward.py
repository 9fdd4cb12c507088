"""The feed-forward networks of 003."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

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
    """The feed-forward network of 003: Linear → BatchNorm → ReLU, repeated.

    Args:
        depth: number of layers L as the paper counts them: L − 1 hidden ones and the classifier.
        inputs: number of input features.
        width: of every hidden layer.
        widths: of each hidden layer in turn; stands in for ``depth`` and ``width``.
        classes: number of classes.
        norm: with BatchNorm after each hidden linear map.
        nonlinear: with ReLU at the end of each hidden layer.

    Returns:
        The network; hidden layer l is the child ``layer{l}``, the classifier is ``head``.

    Raises:
        ValueError: depth below 2, or neither depth nor widths.

    Example:
        >>> [name for name, _ in feedforward(4).named_children()]
        ['layer1', 'layer2', 'layer3', 'head']
        >>> feedforward(widths=(100, 20)).head.in_features
        20
    """
    hidden = _hidden_widths(depth, width, widths)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for index, (before, after) in enumerate(zip((inputs, *hidden), hidden, strict=False), 1):
        parts: OrderedDict[str, nn.Module] = OrderedDict(linear=nn.Linear(before, after))
        if norm:
            parts["norm"] = nn.BatchNorm1d(after)
        if nonlinear:
            parts["relu"] = nn.ReLU()
        layers[f"layer{index}"] = nn.Sequential(parts)
    layers["head"] = nn.Linear(hidden[-1], classes)
    return nn.Sequential(layers)


def _hidden_widths(depth: int | None, width: int, widths: Sequence[int] | None) -> tuple[int, ...]:
    if widths is not None:
        if not widths:
            raise ValueError("widths must name at least one hidden layer, got none")
        return tuple(widths)
    if depth is None:
        raise ValueError("a feed-forward network needs depth or widths, got neither")
    if depth < 2:
        raise ValueError(f"depth must be at least 2 (one hidden layer), got {depth}")
    return (width,) * (depth - 1)
