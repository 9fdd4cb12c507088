"""All-layer separation, interval included, against the plain forward pass, per pass made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lawscope as ls
from benchmarks.row import Row, at_most, interleaved

VGG13 = [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]


def mlp() -> nn.Module:
    """784–1000×8–10."""
    widths = [784] + [1000] * 8
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(1000, 10))


class Repeat(nn.Module):
    """Each colour channel sixteen times, as He & Su 2023 feed their VGG."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, 16·C, H, W)."""
        return x.repeat(1, 16, 1, 1)


def vgg13() -> nn.Module:
    """The VGG13 of He & Su 2023 for 32×32 images: 5×5 filters, BatchNorm, channels × 16."""
    layers: list[nn.Module] = [Repeat()]
    channels = 48
    for item in VGG13:
        if item == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            width = int(item)
            layers += [nn.Conv2d(channels, width, 5, padding=2), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


class EncoderBlock(nn.Module):
    """Pre-norm attention and feed-forward, as vision transformers and language models have it.

    Not ``nn.TransformerEncoderLayer``: its fused inference kernel gives way to any hook, so the
    comparison would be between two implementations of the network.
    """

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.act = nn.Linear(width, 4 * width), nn.GELU()
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, T, C) to tokens."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*qkv.unbind(0))
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """Six blocks of width 256, tokens averaged before the classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[EncoderBlock() for _ in range(6)])
        self.head = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, 64, 256) to logits."""
        return self.head(self.blocks(x).mean(dim=1))


def loader(samples: int, shape: tuple[int, ...], batch: int) -> DataLoader[tuple[Tensor, ...]]:
    """Random data with ten classes that have different means."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(samples) % 10
    x = torch.randn(samples, *shape, generator=generator)
    x += torch.randn(10, *shape, generator=generator)[y]
    return DataLoader(TensorDataset(x, y), batch_size=batch)


def rows() -> Iterator[Row]:
    """Return a row per kind of network, with default settings and in the budget of the bars.

    Bars count per pass made and were set for 512 MB, where the MLP and VGG13 take two passes. By
    default they take one, in which all the work is beside a single forward pass.
    """
    small = "512MB"
    cases = [
        ("MLP 784-1000x8-10, n = 20000", mlp, (784,), 20_000, 256, 1.35, 5, "auto"),
        ("MLP 784-1000x8-10, n = 20000", mlp, (784,), 20_000, 256, 1.35, 5, small),
        ("VGG13 of He & Su 2023, n = 2000", vgg13, (3, 32, 32), 2_000, 100, 1.25, 2, "auto"),
        ("VGG13 of He & Su 2023, n = 2000", vgg13, (3, 32, 32), 2_000, 100, 1.25, 2, small),
        ("encoder 6x256, 64 tokens, n = 2000", Encoder, (64, 256), 2_000, 50, 1.25, 3, "auto"),
    ]
    for name, build, shape, samples, batch, bar, repeats, memory in cases:
        torch.manual_seed(0)
        model = build().eval()
        data = loader(samples, shape, batch)
        passes = []

        def measure(
            model: nn.Module = model,
            data: object = data,
            passes: list = passes,
            memory: str = memory,
        ) -> None:
            passes.append(ls.separation(model, data, memory=memory).settings["passes"])

        def forward(model: nn.Module = model, data: DataLoader = data) -> None:
            with torch.no_grad():
                for x, _ in data:
                    model(x)

        forward()
        ours, theirs = interleaved(measure, forward, repeats)
        count = passes[-1]
        yield at_most(
            f"separation, {name}, memory {memory} ({count} pass{'es' if count > 1 else ''})",
            ours,
            "plain no-grad forward pass x passes",
            theirs * count,
            bar,
        )
