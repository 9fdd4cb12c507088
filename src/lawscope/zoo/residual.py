"""The residual networks of 003: blocks of two or three layers, or both."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

KERNELS = {2: 3, 3: 5}  # pixels a side of the filters, by the layers of a block


class Repeat(nn.Module):
    """The colour channels several times over: x, x, …, x.

    Example:
        >>> import torch
        >>> Repeat(8)(torch.zeros(2, 1, 4, 4)).shape
        torch.Size([2, 8, 4, 4])
    """

    def __init__(self, copies: int) -> None:
        super().__init__()
        self.copies = copies

    def forward(self, x: Tensor) -> Tensor:
        """Repeat x of shape (n, channels, H, W) along its channels."""
        return x.repeat(1, self.copies, 1, 1)


class ResidualBlock(nn.Module):
    """relu(x + f(x)), where f is two or three convolutions with BatchNorm and ReLU between.

    Args:
        width: channels that come in and go out.
        layers: 2, with filters of 3×3, or 3, with filters of 5×5.
    """

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        kernel = KERNELS[layers]
        steps: OrderedDict[str, nn.Module] = OrderedDict()
        for index in range(1, layers + 1):
            # BatchNorm takes any constant away again, so the filters have none.
            weight = nn.Conv2d(width, width, kernel, padding=kernel // 2, bias=False)
            steps[f"conv{index}"] = weight
            steps[f"norm{index}"] = nn.BatchNorm2d(width)
            if index < layers:
                steps[f"relu{index}"] = nn.ReLU()
        self.steps = nn.Sequential(steps)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Features of the same shape (n, width, H, W)."""
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
    """The residual network of 003 (appendix A.2): blocks on the repeated image, then a classifier.

    As in the authors' code there is no layer before the first block, no stride and no pooling: all
    blocks have the size of the image, and the classifier sees every pixel of the last one.

    Args:
        blocks: layers of each block in turn, 2 or 3; the paper has four blocks, and its mixed
            network is (3, 3, 2, 2).
        channels: colour channels of the images.
        copies: how often they are repeated at the beginning; 8 in the paper, which makes the 8
            channels of its grey images.
        size: pixels a side.
        classes: number of classes.

    Returns:
        The network with children ``repeat``, ``block1``, …, ``flatten`` and ``head``.

    Raises:
        ValueError: no block, or one of neither two nor three layers.

    Example:
        >>> import torch
        >>> resnet((3, 2), size=4)(torch.zeros(2, 1, 4, 4)).shape
        torch.Size([2, 10])
    """
    if not blocks:
        raise ValueError("blocks must name at least one block, got none")
    if wrong := [layers for layers in blocks if layers not in KERNELS]:
        raise ValueError(f"a block has 2 or 3 layers, got {wrong[0]}")
    width = channels * copies
    parts: OrderedDict[str, nn.Module] = OrderedDict(repeat=Repeat(copies))
    for index, layers in enumerate(blocks, 1):
        parts[f"block{index}"] = ResidualBlock(width, layers)
    parts["flatten"] = nn.Flatten()
    parts["head"] = nn.Linear(width * size * size, classes)
    return nn.Sequential(parts)
