"""A small encoder of sentences in the manner of BERT."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lawscope.zoo.text.sentences import PADDING, SIZE


class TextEncoder(nn.Module):
    """Embedding, transformer blocks ``blocks.0``, ``blocks.1``, …, and a classifier.

    The classifier reads the first token; the weights are drawn at random (He & Su 2023, figure on
    language models).

    ``longest`` is the most tokens in a sentence; token 0 is padding and is not attended to.
    ``norm_first`` normalises before attention and feed-forward part instead of after them, as
    later encoders do and BERT does not.
    """

    def __init__(
        self,
        depth: int = 6,
        *,
        vocabulary: int = SIZE,
        width: int = 64,
        heads: int = 4,
        longest: int = 128,
        dropout: float = 0.1,
        norm_first: bool = False,
        classes: int = 2,
    ) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        if heads < 1 or width % heads:
            raise ValueError(f"width must be a multiple of heads, got {width} and {heads}")
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.places = nn.Embedding(longest, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=norm_first
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return logits (n, classes) of token ids (n, T).

        ``attention_mask`` is nonzero where a token is real; by default where it is not padding.
        """
        real = input_ids != PADDING if attention_mask is None else attention_mask != 0
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.dropout(self.norm(self.words(input_ids) + self.places(places)))
        for block in self.blocks:
            x = block(x, src_key_padding_mask=~real)
        logits: Tensor = self.head(x[:, 0])
        return logits
