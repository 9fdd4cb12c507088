"""Encoders of sentences that come as a Hugging Face folder, with their tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from lawscope.errors import LawscopeError
from lawscope.zoo.networks.hugging_face import quietly, transformers_for
from lawscope.zoo.storage import data_folders
from lawscope.zoo.text.sentences import PADDING, Tokens


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
