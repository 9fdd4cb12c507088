"""The cost of separation, interval included, on vision models people have, and on a wide Llama.

Everything counts against **one** plain forward pass without gradients, however many passes the
measurement makes. Weights are random; the cost does not depend on them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import lawscope as ls
from benchmarks.row import Row, at_most, interleaved

Batches = list[tuple[Tensor, Tensor]]


def resnet50() -> nn.Module:
    """The ResNet-50 of Hugging Face, ten classes."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=10))


class Block(nn.Module):
    """Two 3×3 convolutions and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.around: nn.Module = nn.Identity()
        if stride > 1:
            self.around = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the next."""
        h = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.around(x) + self.norm2(self.conv2(h)))


def resnet20() -> nn.Module:
    """He et al. 2016 for 32×32 images, a hundred classes."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    width = 16
    for after in (16, 32, 64):
        for number in range(3):
            layers.append(Block(width, after, 2 if number == 0 and after > 16 else 1))
            width = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100))


def llama() -> nn.Module:
    """Four blocks of width 2048."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=5000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=4,
            num_attention_heads=16, max_position_embeddings=250,
        )
    )  # fmt: skip


def images(samples: int, classes: int, size: int, batch: int) -> Batches:
    """Noise about class means."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(samples) % classes
    x = torch.randn(samples, 3, size, size, generator=generator)
    x += torch.randn(classes, 3, size, size, generator=generator)[y]
    return list(zip(x.split(batch), y.split(batch), strict=True))


def rows() -> Iterator[Row]:
    """Vision models, then the Llama."""
    for stations in ("blocks", "layers"):
        name = f"separation, ResNet-50 at 224x224, n = 100, {stations}"
        yield compare(name, resnet50(), images(100, 10, 224, 20), 3.0, 3, stations=stations)
    name = "separation, ResNet-20, K = 100, n = 5000, blocks"
    yield compare(name, resnet20(), images(5000, 100, 32, 250), 3.5, 3, stations="blocks")
    ids = torch.randint(5000, (80, 250), generator=torch.Generator().manual_seed(0)).split(8)
    name = "next-token, Llama 2048x4, 20000 tokens"
    yield compare(name, llama(), list(ids), 1.5, 1, law=ls.next_token, control=None)


def compare(
    name: str,
    model: nn.Module,
    batches: list[Any],
    bar: float,
    repeats: int,
    law: Callable[..., Any] = ls.separation,
    **settings: Any,
) -> Row:
    """Return the row of one law on one network."""
    model.eval()
    found: list[dict[str, Any]] = []

    def measure() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ls.LawscopeWarning)
            found.append(dict(law(model, batches, **settings).settings))

    def forward() -> None:
        with torch.no_grad():
            for batch in batches:
                model(batch[0] if isinstance(batch, tuple) else batch)

    forward()
    ours, theirs = interleaved(measure, forward, repeats)
    row = at_most(name, ours, "one plain no-grad forward pass", theirs, bar)
    passes = found[-1].get("passes", 1)
    folds = found[-1].get("replicates", found[-1].get("folds"))
    return replace(row, note=f"{passes} pass{'es' * (passes > 1)}, {folds} folds")
