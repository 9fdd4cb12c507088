"""Pretrained language models that lie on this machine, measured on a text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lawscope.errors import LawscopeError
from lawscope.zoo.folders import data_folders

MODEL, TEXT = "LAWSCOPE_LANGUAGE_MODEL", "LAWSCOPE_TEXT"
EMBEDDED = "king-james-bible"


def place_of(folder: str, how: str) -> str:
    """Where a pretrained model lies: its folder in a data directory, or a GGUF file in it.

    Args:
        folder: its name inside a data directory.
        how: to get it.

    Raises:
        LawscopeError: it is not there; says how to get it.
    """
    for place in data_folders((folder,)):
        if place.name == folder:
            if (place / "config.json").is_file():
                return str(place)
            if packed := sorted(place.glob("*.gguf")):
                return str(packed[0])
    raise LawscopeError(
        f"there is no model {folder}: {how}, and put it into the subfolder {folder} of a folder "
        "given by LAWSCOPE_DATA"
    )


def text_name() -> str:
    """The text to measure on: a file named by LAWSCOPE_TEXT, or the embedded one."""
    return os.environ.get(TEXT) or EMBEDDED


def measured(place: str, settings: Mapping[str, Any]) -> Any:
    """The law on a pretrained model beside the same configuration untrained.

    Args:
        place: a Hugging Face folder, a name on the hub, or a GGUF file.
        settings: ``tokens`` of text at least, ``window``.

    Raises:
        LawscopeError: it cannot be loaded, or the text is too short.
    """
    import torch

    from lawscope.capture.windows import encoder_of, frame_of, pack, read_tokens_of
    from lawscope.laws.next_token import next_token
    from lawscope.zoo.language_models import find_source, load_language_model, load_tokenizer
    from lawscope.zoo.text import load_text

    source = find_source(place)
    tokenizer = load_tokenizer(source)
    model = load_language_model(source, device=torch.device("cpu"))
    window = settings["window"]
    frame = frame_of(tokenizer, "causal")
    # The first token of a window has no place in the regression where it is the model's own.
    text = round(settings["tokens"] * (window - len(frame)) / (window - 1 - len(frame))) + window
    ids = read_tokens_of(_lines(load_text(text_name())), encoder_of(tokenizer), text)
    batches = [part for _, part in pack(ids, window, frame).batches(settings["batch"])]
    return next_token(model, batches, onehot=settings["onehot"], progress=False)


def _lines(text: str, size: int = 50_000) -> Iterator[str]:
    """A text in pieces that end at the end of a line, so that no more is tokenized than needed."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + size) + 1 or len(text)
        yield text[start:end]
        start = end


def own_model() -> dict[str, str]:
    """The model that LAWSCOPE_LANGUAGE_MODEL names, by a short name."""
    place = os.environ.get(MODEL)
    return {} if not place else {Path(place).name or place: place}
