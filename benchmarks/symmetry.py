"""Dead units, copies and ranks of every hidden layer against one plain forward pass.

Processor time of one thread, so that neighbours on the machine do not count.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

import lawscope as ls
from benchmarks.row import Row, at_most, interleaved, processor_seconds
from benchmarks.vision import Block, images

REPEATS = 2


def resnet18() -> nn.Module:
    """A ResNet-18 for 32×32 images: stages of 64, 128, 256 and 512 channels, two blocks each."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    width = 64
    for after in (64, 128, 256, 512):
        layers += [Block(width, after, 1 if after == 64 else 2), Block(after, after, 1)]
        width = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def rows() -> Iterator[Row]:
    """One row: a ResNet-18 for small images."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, data = resnet18().eval(), images(1000, 10, 32, 50)

    def forward() -> None:
        with torch.no_grad():
            for x, _ in data:
                model(x)

    forward()
    ours, theirs = interleaved(
        lambda: ls.symmetry(model, data), forward, REPEATS, processor_seconds
    )
    torch.set_num_threads(threads)
    name = "symmetry, ResNet-18 for 32x32 images, n = 1000"
    yield at_most(name, ours, "plain no-grad forward pass", theirs, 1.5)
