"""The convolutional networks of He & Su 2023 for small images: AlexNet-X, VGG-X, residual ones.

The first two have BatchNorm and ReLU after every layer but the classifier, as the authors' code
has, and are measured after each ReLU and before the pooling. All see the colour channels several
times over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

KERNEL = 5
# Pixels a side of the filters of a residual block, by its layers.
RESIDUAL_KERNELS = {2: 3, 3: 5}
# Both networks have 4096 dense units beside 64 first channels.
DENSE_FACTOR = 64


class RepeatedInputConv2d(nn.Conv2d):
    """A convolution of an input whose channels are repeated: x, x, …, x, one copy after another.

    It has a filter for every copy, as a convolution of the repeated input would, and adds the
    filters of equal channels before it convolves: the same function and the same gradients for
    the price of one copy.
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
    """Build AlexNet-X (He & Su 2023): five layers of 5×5 filters and two dense ones.

    The first layer has ``width`` filters, 64 in the paper, and sees the colours ``copies`` times.
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
    """Build VGG11-X or VGG13-X (He & Su 2023): five stages of 5×5 filters, two dense layers.

    The last average pooling of the paper is over one pixel, which changes nothing, and is left out.
    ``depth`` counts the classifier.
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


class Repeat(nn.Module):
    """The colour channels several times over: x, x, …, x."""

    def __init__(self, copies: int) -> None:
        super().__init__()
        self.copies = copies

    def forward(self, x: Tensor) -> Tensor:
        """Repeat x of shape (n, channels, H, W) along its channels."""
        return x.repeat(1, self.copies, 1, 1)


class ResidualBlock(nn.Module):
    """relu(x + f(x)), where f is two or three convolutions with BatchNorm and ReLU between."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        kernel = RESIDUAL_KERNELS[layers]
        steps: OrderedDict[str, nn.Module] = OrderedDict()
        for index in range(1, layers + 1):
            # BatchNorm takes any constant away again, so the filters have none.
            conv = nn.Conv2d(width, width, kernel, padding=kernel // 2, bias=False)
            steps |= {f"conv{index}": conv, f"norm{index}": nn.BatchNorm2d(width)}
            if index < layers:
                steps[f"relu{index}"] = nn.ReLU()
        self.steps = nn.Sequential(steps)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return features of the same shape (n, width, H, W)."""
        out: Tensor = self.relu(self.steps(x) + x)
        return out


def resnet(
    blocks: Sequence[int] = (2, 2, 2, 2),
    *,
    channels: int = 1,
    copies: int = 8,
    size: int = 32,
    classes: int = 10,
) -> nn.Sequential:
    """Build the residual network of He & Su 2023: blocks on the repeated image, a classifier.

    As in the authors' code there is no layer before the first block, no stride and no pooling: all
    blocks have the size of the image, and the classifier sees every pixel of the last one.
    ``blocks`` are the layers of each in turn; the paper's mixed network is (3, 3, 2, 2).
    """
    if not blocks:
        raise ValueError("blocks must name at least one block, got none")
    if wrong := [layers for layers in blocks if layers not in RESIDUAL_KERNELS]:
        raise ValueError(f"a block has 2 or 3 layers, got {wrong[0]}")
    width = channels * copies
    parts: OrderedDict[str, nn.Module] = OrderedDict(repeat=Repeat(copies))
    for index, layers in enumerate(blocks, 1):
        parts[f"block{index}"] = ResidualBlock(width, layers)
    parts["flatten"] = nn.Flatten()
    parts["head"] = nn.Linear(width * size * size, classes)
    return nn.Sequential(parts)
