"""A small encoder of sentences in the manner of BERT."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lawscope.zoo.vocabulary import PADDING, SIZE


class TextEncoder(nn.Module):
    """Embedding, transformer blocks, and a classifier on the first token.

    Args:
        vocabulary: how many tokens there are; token 0 is padding and is not attended to.
        depth: number of blocks.
        width: features of a token.
        heads: of the attention.
        longest: most tokens in a sentence.
        dropout: share of features left out in training.
        norm_first: normalise before attention and feed-forward part instead of after them, as
            later encoders do and BERT does not.
        classes: number of classes.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        depth: int,
        width: int,
        heads: int,
        longest: int,
        dropout: float,
        norm_first: bool,
        classes: int,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.places = nn.Embedding(longest, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                heads,
                dim_feedforward=4 * width,
                dropout=dropout,
                activation="gelu",
                batch_first=True,
                norm_first=norm_first,
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits of sentences.

        Args:
            input_ids: tokens, shape (n, T).
            attention_mask: shape (n, T), nonzero where a token is real; by default where it is
                not padding.

        Returns:
            Shape (n, classes).
        """
        real = input_ids != PADDING if attention_mask is None else attention_mask != 0
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.dropout(self.norm(self.words(input_ids) + self.places(places)))
        for block in self.blocks:
            x = block(x, src_key_padding_mask=~real)
        logits: Tensor = self.head(x[:, 0])
        return logits


def text_encoder(
    depth: int = 6,
    *,
    vocabulary: int = SIZE,
    width: int = 64,
    heads: int = 4,
    longest: int = 128,
    dropout: float = 0.1,
    norm_first: bool = False,
    classes: int = 2,
) -> TextEncoder:
    """A small BERT with weights drawn anew; for the figure on language models of 003.

    Args:
        depth: number of blocks.
        vocabulary: how many tokens there are, padding and the unknown word among them.
        width: features of a token, a multiple of ``heads``.
        heads: of the attention.
        longest: most tokens in a sentence.
        dropout: share of features left out in training.
        norm_first: normalise before the parts of a block instead of after them.
        classes: number of classes.

    Returns:
        The network; its blocks are ``blocks.0``, ``blocks.1``, …

    Raises:
        ValueError: no block, or a width that the heads do not divide.

    Example:
        >>> text_encoder(2, width=8)(torch.tensor([[2, 5, 0], [2, 7, 9]])).shape
        torch.Size([2, 2])
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}")
    if heads < 1 or width % heads:
        raise ValueError(f"width must be a multiple of heads, got {width} and {heads}")
    return TextEncoder(
        vocabulary=vocabulary,
        depth=depth,
        width=width,
        heads=heads,
        longest=longest,
        dropout=dropout,
        norm_first=norm_first,
        classes=classes,
    )
