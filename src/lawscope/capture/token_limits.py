"""Which token ids and how many of them a language model takes, as far as it says."""

from __future__ import annotations

from typing import Any

from torch import nn

from lawscope.capture.token_batches import Task

CONTEXT_NAMES = ("max_position_embeddings", "block_size", "context_length")


def text_config(config: Any) -> Any:
    """The part of a configuration that is about text, in models that also see or hear."""
    try:
        return config.get_text_config()
    except (AttributeError, ValueError):  # it has none, or several
        return config


def context_of(model: nn.Module) -> int | None:
    """Tokens that a model reads at once, where its configuration or the model names them."""
    config = text_config(getattr(model, "config", model))
    known = (getattr(config, name, None) for name in CONTEXT_NAMES)
    return next((c for c in known if isinstance(c, int) and c > 1), None)


def vocabulary_of(model: nn.Module, task: Task = "causal") -> int | None:
    """Rows of the embedding of the stream that is measured, where the model tells which it is."""
    holder: Any = model
    if task == "encoder-decoder":
        holder = getattr(model, "get_decoder", lambda: None)()
    try:
        embedding = holder.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    rows = getattr(embedding, "num_embeddings", None)
    return rows if isinstance(rows, int) else None
