"""The papers' networks."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def feedforward(
    depth: int, *, inputs: int = 100, width: int = 100, classes: int = 10
) -> nn.Sequential:
    """The feed-forward network of 003: Linear → BatchNorm → ReLU, repeated.

    Args:
        depth: number of layers L as the paper counts them: L − 1 hidden ones and the classifier.
        inputs: number of input features.
        width: of every hidden layer.
        classes: number of classes.

    Returns:
        The network; hidden layer l is the child ``layer{l}``, the classifier is ``head``.

    Raises:
        ValueError: depth below 2.

    Example:
        >>> [name for name, _ in feedforward(4).named_children()]
        ['layer1', 'layer2', 'layer3', 'head']
    """
    if depth < 2:
        raise ValueError(f"depth must be at least 2 (one hidden layer), got {depth}")
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for index in range(1, depth):
        layers[f"layer{index}"] = nn.Sequential(
            OrderedDict(
                linear=nn.Linear(inputs if index == 1 else width, width),
                norm=nn.BatchNorm1d(width),
                relu=nn.ReLU(),
            )
        )
    layers["head"] = nn.Linear(width, classes)
    return nn.Sequential(layers)
