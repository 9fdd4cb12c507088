"""A small language model in the manner of GPT-2, in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention and a feed-forward part, each after a LayerNorm and added to the stream."""

    def __init__(self, width: int, heads: int, causal: bool = True, rotary: bool = False) -> None:
        super().__init__()
        self.heads, self.causal, self.rotary = heads, causal, rotary
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The stream, shape (B, T, width)."""
        b, t, d = x.shape
        q, k, v = (
            part.view(b, t, self.heads, d // self.heads).transpose(1, 2)
            for part in self.attend(self.norm1(x)).chunk(3, dim=2)
        )
        if self.rotary:
            q, k = rotated(q), rotated(k)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.project(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.feed(self.norm2(x))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Token and position embeddings, blocks, a final LayerNorm and a head; see :func:`gpt`."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int,
        heads: int,
        context: int,
        causal: bool,
        rotary: bool,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = None if rotary else nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal, rotary) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits, shape (B, T, vocabulary), of token ids (B, T)."""
        x = self.tokens(ids)
        if self.places is not None:
            x = x + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def rotated(x: Tensor) -> Tensor:
    """Queries or keys (B, heads, T, d) turned by their positions, so that products tell distance.

    Pairs of coordinates turn by position · 10000^(−i/(d/2)): rotary positions, Su et al. 2021.

    Example:
        >>> turned = rotated(torch.ones(1, 1, 4, 6))[0, 0]
        >>> bool(torch.allclose(turned[0] @ turned[2], turned[1] @ turned[3]))
        True
    """
    half = x.shape[3] // 2
    speeds = 10_000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(x.shape[2], device=x.device)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=3)


def gpt(
    vocabulary: int,
    width: int = 128,
    depth: int = 6,
    heads: int = 4,
    context: int = 256,
    *,
    causal: bool = True,
    rotary: bool = False,
) -> GPT:
    """A GPT with GPT-2's initialisation: normal with deviation 0.02, residual parts 1/√(2·depth).

    Args:
        vocabulary: number of tokens.
        width: features of a token.
        depth: number of blocks.
        heads: of the attention; must divide ``width``.
        context: most tokens in a sequence.
        causal: whether a token sees only what is before it; False for masked language models.
        rotary: positions as rotations of queries and keys instead of an embedding; small models
            learn to attend much earlier with them.

    Example:
        >>> gpt(50, width=8, depth=2, heads=2, context=10)(torch.zeros(3, 10, dtype=int)).shape
        torch.Size([3, 10, 50])
    """
    model = GPT(vocabulary, width, depth, heads, context, causal, rotary)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            last = name.endswith(("project.weight", "feed.2.weight"))
            nn.init.normal_(parameter, std=0.02 / (2 * depth) ** 0.5 if last else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return model
