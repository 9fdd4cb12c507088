"""Convolutional networks for small images: AlexNet-X, VGG, residual ones, LeNet.

AlexNet-X and VGG have BatchNorm and ReLU after every layer but the classifier, as the authors' code
has, and are measured after each ReLU and before the pooling. Those of He & Su 2023 see the colour
channels several times over; VGG and ResNet18 of Fang et al. 2021 see them once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

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

    def __init__(self, channels: int, filters: int, *, copies: int, kernel: int = KERNEL) -> None:
        super().__init__(channels * copies, filters, kernel, padding=kernel // 2)
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
    pools = {i: (f"pool{i}", nn.MaxPool2d(3, stride=2, padding=1)) for i in (1, 2, 5)}
    return _network(channels, copies, filters, pools, (size // 8) ** 2, classes)


def vgg(
    depth: int = 13,
    *,
    channels: int = 1,
    width: int = 64,
    copies: int = 16,
    kernel: int = KERNEL,
    size: int = 32,
    classes: int = 10,
) -> nn.Sequential:
    """Build VGG11-X or VGG13-X (He & Su 2023): five stages of 5×5 filters, two dense layers.

    With ``kernel=3`` and ``copies=1`` they are VGG11 and VGG13 of Fang et al. 2021. The last
    average pooling of both papers is over one pixel, which changes nothing, and is left out.
    ``depth`` counts the classifier.
    """
    stages = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2)}
    if depth not in stages:
        raise ValueError(f"depth must be 11 or 13, got {depth}")
    if size < 32 or size % 32:
        raise ValueError(f"size must be a multiple of 32 (five poolings halve it), got {size}")
    factors = (1, 2, 4, 8, 8)
    filters = [f * width for f, n in zip(factors, stages[depth], strict=True) for _ in range(n)]
    ends = enumerate(accumulate(stages[depth]), 1)
    pools = {end: (f"pool{stage}", nn.MaxPool2d(2)) for stage, end in ends}
    return _network(channels, copies, filters, pools, (size // 32) ** 2, classes, kernel)


def _network(
    channels: int,
    copies: int,
    filters: Sequence[int],
    pools: Mapping[int, tuple[str, nn.Module]],
    pixels: int,
    classes: int,
    kernel: int = KERNEL,
) -> nn.Sequential:
    """Build convolutions, pools with their names after some of them, and the dense layers."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for index, (before, after) in enumerate(pairwise((channels, *filters)), 1):
        conv = (
            RepeatedInputConv2d(before, after, copies=copies, kernel=kernel)
            if index == 1
            else nn.Conv2d(before, after, kernel, padding=kernel // 2)
        )
        parts[f"conv{index}"] = _layer(conv=conv, norm=nn.BatchNorm2d(after))
        if index in pools:
            parts.update([pools[index]])
    parts["flatten"] = nn.Flatten()
    units = DENSE_FACTOR * filters[0]
    for index, before in enumerate((filters[-1] * pixels, units), 1):
        linear = nn.Linear(before, units)
        parts[f"dense{index}"] = _layer(linear=linear, norm=nn.BatchNorm1d(units))
    parts["head"] = nn.Linear(units, classes)
    return nn.Sequential(parts)


def _layer(**parts: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(parts, relu=nn.ReLU()))


class Repeat(nn.Module):
    """The colour channels of x (n, channels, H, W) several times over: x, x, …, x."""

    def __init__(self, copies: int) -> None:
        super().__init__()
        self.copies = copies

    def forward(self, x: Tensor) -> Tensor:
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


class ShortcutBlock(nn.Module):
    """relu(s(x) + f(x)), f two 3×3 convolutions with BatchNorm (He et al. 2016).

    The first has the stride; s is the identity, or a 1×1 convolution with BatchNorm where the shape
    changes.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.steps = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
                norm1=nn.BatchNorm2d(after), relu1=nn.ReLU(),
                conv2=nn.Conv2d(after, after, 3, padding=1, bias=False),
                norm2=nn.BatchNorm2d(after),
            )
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or before != after:
            conv = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(OrderedDict(conv=conv, norm=nn.BatchNorm2d(after)))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map x (n, before, H, W) to (n, after, H/stride, W/stride)."""
        out: Tensor = self.relu(self.steps(x) + self.shortcut(x))
        return out


def resnet18(*, channels: int = 1, width: int = 64, classes: int = 10) -> nn.Sequential:
    """Build ResNet18 for small images, as Fang et al. 2021 train it.

    A convolution, four stages of two blocks with ``width``, 2, 4 and 8 times as many channels, the
    last three with stride 2, an average over all pixels, and the classifier on 8·width features.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        stem=_layer(
            conv=nn.Conv2d(channels, width, 3, padding=1, bias=False), norm=nn.BatchNorm2d(width)
        )
    )
    widths = [width * factor for factor in (1, 1, 1, 2, 2, 4, 4, 8, 8)]
    for index, (before, after) in enumerate(pairwise(widths), 1):
        parts[f"block{index}"] = ShortcutBlock(before, after, after // before)
    parts["pool"] = nn.AdaptiveAvgPool2d(1)
    parts["flatten"] = nn.Flatten()
    parts["head"] = nn.Linear(widths[-1], classes)
    return nn.Sequential(parts)


def lenet(*, channels: int = 1, size: int = 32, classes: int = 3) -> nn.Sequential:
    """Build two convolutions with pooling and three dense layers, as Zhang et al. 2021 train.

    They call theirs a variant of AlexNet and give no widths; these are LeNet's: 6 and 16 filters,
    120 and 84 units.
    """
    if size < 16 or size % 4:
        raise ValueError(f"size must be a multiple of 4 and at least 16, got {size}")
    pixels = (size // 2 - 2) // 2 - 2
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 6, KERNEL), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(6, 16, KERNEL), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            dense1=nn.Linear(16 * pixels**2, 120), relu3=nn.ReLU(),
            dense2=nn.Linear(120, 84), relu4=nn.ReLU(),
            head=nn.Linear(84, classes),
        )
    )  # fmt: skip
