"""Encoders of sentences: a small one in the manner of BERT, and those in a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lawscope.errors import LawscopeError
from lawscope.zoo.networks.hugging_face import quietly, transformers_for
from lawscope.zoo.storage import data_folders
from lawscope.zoo.text.sentences import PADDING, SIZE, Tokens

# The most tokens in a sentence.
LONGEST = 128
DROPOUT = 0.1


class TextEncoder(nn.Module):
    """Embedding, transformer blocks ``blocks.0``, ``blocks.1``, …, and a classifier.

    The classifier reads the first token; the weights are drawn at random (He & Su 2023, figure on
    language models). Token 0 is padding and is not attended to.
    """

    def __init__(
        self,
        depth: int = 6,
        *,
        vocabulary: int = SIZE,
        width: int = 64,
        heads: int = 4,
        classes: int = 2,
    ) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        if heads < 1 or width % heads:
            raise ValueError(f"width must be a multiple of heads, got {width} and {heads}")
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.places = nn.Embedding(LONGEST, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(DROPOUT)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, DROPOUT, "gelu", batch_first=True)
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


class PretrainedEncoder(nn.Module):
    """A pretrained encoder with a new classifier, which gives plain logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return logits of sentences, shape (n, classes); padding is token 0."""
        mask = input_ids != PADDING if attention_mask is None else attention_mask
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=mask.long()).logits
        return logits


def pretrained_encoder(folder: str, *, classes: int = 2) -> PretrainedEncoder:
    """Load an encoder such as BERT to be fine-tuned; the classifier is drawn at random."""
    kind = transformers_for("a pretrained encoder").AutoModelForSequenceClassification
    return PretrainedEncoder(_loaded(kind, folder, num_labels=classes))


def folder_tokens(folder: str, sentences: Sequence[str], length: int) -> Tokens:
    """Return sentences (n, length) as the folder's tokenizer numbers them, padded with 0."""
    tokenizer = _loaded(transformers_for("a pretrained encoder").AutoTokenizer, folder)
    if tokenizer.pad_token_id != PADDING:
        raise LawscopeError(
            f"the tokenizer in {folder} pads with token {tokenizer.pad_token_id}, and only those "
            f"that pad with {PADDING} are understood: take an encoder of BERT's family"
        )
    rows = tokenizer(list(sentences), padding="max_length", truncation=True, max_length=length)
    return np.array(rows["input_ids"], dtype=np.int64)


def find_encoder(folder: str) -> Path:
    """Find the folder of an encoder, by its path or by its name inside a data directory."""
    path = Path(folder).expanduser()
    for place in (path, *data_folders((folder,))):
        if place.name == path.name and (place / "config.json").is_file():
            return place
    raise LawscopeError(
        f"there is no encoder {folder!r}: download its Hugging Face folder (config.json, "
        f"model.safetensors, tokenizer.json) into the subfolder {Path(folder).name} of a folder "
        "given by LAWSCOPE_DATA"
    )


def _loaded(kind: Any, folder: str, **options: Any) -> Any:
    place = find_encoder(folder)
    try:
        with quietly():
            return kind.from_pretrained(place, local_files_only=True, **options)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise LawscopeError(
            f"{place} cannot be loaded as an encoder ({reason}): download the folder again"
        ) from error
