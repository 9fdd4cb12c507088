"""Small language models: a GPT in plain PyTorch, and other architectures from transformers."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lawscope.zoo.networks.hugging_face import quietly, transformers_for

PLAIN = "gpt"
STYLES = (PLAIN, "gpt2", "llama", "mistral", "mamba", "rwkv")


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
        """Return the stream, shape (B, T, width)."""
        b, t, d = x.shape
        q, k, v = (
            part.view(b, t, self.heads, d // self.heads).transpose(1, 2)
            for part in self.attend(self.norm1(x)).chunk(3, dim=2)
        )
        if self.rotary:
            q, k = rotate(q), rotate(k)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.project(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.feed(self.norm2(x))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Token and position embeddings, blocks, a final LayerNorm and a head; see :func:`gpt`."""

    def __init__(
        self, vocabulary: int, width: int, places: int | None, blocks: Iterable[Block]
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = None if places is None else nn.Embedding(places, width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits, shape (B, T, vocabulary), of token ids (B, T)."""
        x = self.tokens(ids)
        if self.places is not None:
            x = x + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def rotate(x: Tensor) -> Tensor:
    """Turn queries or keys (B, heads, T, d) by their positions: products then tell distance.

    Pairs of coordinates turn by position · 10000^(−i/(d/2)): rotary positions, Su et al. 2021.
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
    """Build a GPT with GPT-2's initialisation: deviation 0.02, residual parts 1/√(2·depth).

    ``rotary`` positions are rotations of queries and keys instead of an embedding; small models
    learn to attend much earlier with them. A masked language model is not ``causal``.
    """
    blocks = (Block(width, heads, causal, rotary) for _ in range(depth))
    model = GPT(vocabulary, width, None if rotary else context, blocks)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            last = name.endswith(("project.weight", "feed.2.weight"))
            nn.init.normal_(parameter, std=0.02 / (2 * depth) ** 0.5 if last else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return model


def language_model(
    style: str = PLAIN,
    *,
    vocabulary: int = 512,
    width: int = 64,
    depth: int = 6,
    heads: int = 4,
    context: int = 64,
    causal: bool = True,
    rotary: bool = False,
) -> nn.Module:
    """Build a language model with fresh weights, drawn from torch's global generator.

    ``style`` "gpt" is in plain PyTorch, the others of ``STYLES`` come from their configuration in
    transformers. Only the plain one can be ``rotary``, see :func:`gpt`, or not ``causal``; it then
    has one token more than ``vocabulary``, the mask.
    """
    if style == PLAIN:
        size = vocabulary + (not causal)
        return gpt(size, width, depth, heads, context, causal=causal, rotary=rotary)
    if style not in STYLES:
        raise ValueError(f"style must be one of {', '.join(STYLES)}, got {style}")
    if not causal:
        raise ValueError(f"a {style} model is always causal; take style {PLAIN}")
    library = transformers_for(f"A {style} model")
    sizes = {"hidden_size": width, "num_hidden_layers": depth}
    if style == "gpt2":
        sizes = {"n_embd": width, "n_layer": depth, "n_head": heads, "n_positions": context}
        sizes |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0)
    elif style == "rwkv":
        sizes["context_length"] = context
    elif style in ("llama", "mistral"):
        sizes |= {"num_attention_heads": heads, "intermediate_size": 8 * width // 3}
        sizes["max_position_embeddings"] = context
    if style == "mistral":
        # Grouped queries, and attention that reaches back half a window.
        sizes |= {"num_key_value_heads": max(1, heads // 2), "sliding_window": max(1, context // 2)}
    no_ids = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    name = {"gpt2": "GPT2"}.get(style, style.title())
    kind = "GPT2LMHeadModel" if style == "gpt2" else f"{name}ForCausalLM"
    with quietly():
        config = getattr(library, f"{name}Config")(vocab_size=vocabulary, **no_ids, **sizes)
        model: nn.Module = getattr(library, kind)(config)
    return model
