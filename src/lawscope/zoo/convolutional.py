"""The convolutional networks of 003: AlexNet-X and VGG-X, for small images.

Both have BatchNorm and ReLU after every layer but the classifier, as the authors' code has, and are
measured after each ReLU and before the pooling. Their first layer sees the colour channels several
times over.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

from torch import Tensor, nn

KERNEL = 5
DENSE_FACTOR = 64  # both papers' networks have 4096 dense units beside 64 first channels


class RepeatedInputConv2d(nn.Conv2d):
    """A convolution of an input whose channels are repeated: x, x, …, x, one copy after another.

    It has a filter for every copy, as a convolution of the repeated input would, and adds the
    filters of equal channels before it convolves: the same function and the same gradients for
    the price of one copy.

    Args:
        channels: of the input before it is repeated.
        filters: number of output channels.
        copies: how often the input is repeated.

    Example:
        >>> import torch
        >>> layer, x = RepeatedInputConv2d(3, 4, copies=2), torch.ones(1, 3, 8, 8)
        >>> plain = nn.Conv2d(6, 4, 5, padding=2)
        >>> _ = plain.load_state_dict(layer.state_dict())
        >>> torch.allclose(layer(x), plain(x.repeat(1, 2, 1, 1)), atol=1e-5)
        True
    """

    def __init__(self, channels: int, filters: int, *, copies: int) -> None:
        super().__init__(channels * copies, filters, KERNEL, padding=KERNEL // 2)
        self.copies = copies

    def forward(self, x: Tensor) -> Tensor:
        """Convolve x of shape (n, channels, H, W)."""
        weight = self.weight.unflatten(1, (self.copies, -1)).sum(dim=1)
        return nn.functional.conv2d(x, weight, self.bias, padding=self.padding)


def alexnet(
    *, channels: int = 1, width: int = 64, copies: int = 32, size: int = 32, classes: int = 10
) -> nn.Sequential:
    """AlexNet-X (003, appendix A.2): five layers of 5×5 filters and two dense ones.

    Args:
        channels: colour channels of the images.
        width: filters of the first layer, 64 in the paper; the others keep their proportions.
        copies: how often the colour channels are repeated at the beginning.
        size: pixels a side, a multiple of 8.
        classes: number of classes.

    Returns:
        The network with children ``conv1`` … ``conv5``, ``dense1``, ``dense2`` and ``head``.

    Raises:
        ValueError: a size that three poolings do not divide.

    Example:
        >>> import torch
        >>> alexnet(width=2)(torch.zeros(2, 1, 32, 32)).shape
        torch.Size([2, 10])
    """
    if size < 8 or size % 8:
        raise ValueError(f"size must be a multiple of 8 (three poolings halve it), got {size}")
    filters = [width, 3 * width, 6 * width, 4 * width, 4 * width]
    layers = _convolutions(channels, copies, filters)
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for index, layer in enumerate(layers, 1):
        parts[f"conv{index}"] = layer
        if index in (1, 2, 5):
            parts[f"pool{index}"] = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
    return _with_classifier(parts, filters[-1] * (size // 8) ** 2, width, classes)


def vgg(
    depth: int = 13,
    *,
    channels: int = 1,
    width: int = 64,
    copies: int = 16,
    size: int = 32,
    classes: int = 10,
) -> nn.Sequential:
    """VGG11-X or VGG13-X (003, appendix A.2): five stages of 5×5 filters and two dense layers.

    The last average pooling of the paper is over one pixel, which changes nothing, and is left out.

    Args:
        depth: 11 or 13 layers, the classifier counted.
        channels: colour channels of the images.
        width: filters of the first stage, 64 in the paper; the others keep their proportions.
        copies: how often the colour channels are repeated at the beginning.
        size: pixels a side, a multiple of 32.
        classes: number of classes.

    Returns:
        The network with children ``conv1``, …, ``dense1``, ``dense2`` and ``head``.

    Raises:
        ValueError: another depth, or a size that five poolings do not divide.

    Example:
        >>> import torch
        >>> vgg(11, width=2)(torch.zeros(2, 1, 32, 32)).shape
        torch.Size([2, 10])
    """
    stages = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2)}
    if depth not in stages:
        raise ValueError(f"depth must be 11 or 13, got {depth}")
    if size < 32 or size % 32:
        raise ValueError(f"size must be a multiple of 32 (five poolings halve it), got {size}")
    factors = (1, 2, 4, 8, 8)
    filters = [f * width for f, n in zip(factors, stages[depth], strict=True) for _ in range(n)]
    layers = iter(enumerate(_convolutions(channels, copies, filters), 1))
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for stage, count in enumerate(stages[depth], 1):
        for _ in range(count):
            index, layer = next(layers)
            parts[f"conv{index}"] = layer
        parts[f"pool{stage}"] = nn.MaxPool2d(kernel_size=2)
    return _with_classifier(parts, filters[-1] * (size // 32) ** 2, width, classes)


def _convolutions(channels: int, copies: int, filters: list[int]) -> list[nn.Sequential]:
    weights: list[nn.Module] = [RepeatedInputConv2d(channels, filters[0], copies=copies)]
    for before, after in pairwise(filters):
        weights.append(nn.Conv2d(before, after, KERNEL, padding=KERNEL // 2))
    return [
        nn.Sequential(OrderedDict(conv=weight, norm=nn.BatchNorm2d(after), relu=nn.ReLU()))
        for weight, after in zip(weights, filters, strict=True)
    ]


def _with_classifier(
    parts: OrderedDict[str, nn.Module], features: int, width: int, classes: int
) -> nn.Sequential:
    units = DENSE_FACTOR * width
    parts["flatten"] = nn.Flatten()
    for index, before in enumerate((features, units), 1):
        parts[f"dense{index}"] = nn.Sequential(
            OrderedDict(linear=nn.Linear(before, units), norm=nn.BatchNorm1d(units), relu=nn.ReLU())
        )
    parts["head"] = nn.Linear(units, classes)
    return nn.Sequential(parts)
