"""Which token ids and how many of them a language model takes, as far as it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from lawscope.capture.token_batches import Task
from lawscope.errors import LawscopeError

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


def check_ids(ids: Tensor, vocabulary: int | None) -> None:
    """Refuse ids that no row of the embedding is for, before a device trips over them.

    Args:
        ids: as the model will be given them, shape (B, T).
        vocabulary: number of token ids, or None where it is not known.

    Raises:
        LawscopeError: an id below 0 or beyond the vocabulary.
    """
    if not ids.numel():
        return
    lowest, highest = int(ids.min()), int(ids.max())
    if lowest < 0:
        raise LawscopeError(
            f"A batch has the token id {lowest}, and ids begin at 0; mark padding in "
            "attention_mask, and keep -100 for labels."
        )
    if vocabulary is not None and highest >= vocabulary:
        raise LawscopeError(
            f"A batch has the token id {highest}, and the model embeds {vocabulary} tokens, 0 to "
            f"{vocabulary - 1}; is the tokenizer the model's own?"
        )


@contextmanager
def within_limits(model: nn.Module, ids: Tensor) -> Iterator[None]:
    """What a model raises at ids or lengths beyond its tables becomes a sentence about them.

    Raises:
        LawscopeError: an index out of range, or whatever is raised beyond the known context.
    """
    try:
        yield
    except LawscopeError:
        raise
    except Exception as error:
        context = context_of(model)
        beyond = context is not None and ids.shape[1] > context
        if not (beyond or isinstance(error, IndexError) or "device-side assert" in str(error)):
            raise
        said = (str(error).strip() or "no more").splitlines()[0]
        known = "" if context is None else f" of {context} tokens"
        raise LawscopeError(
            f"The model raised {type(error).__name__}: {said}. Token ids go up to "
            f"{int(ids.max())} and sequences have {ids.shape[1]} tokens: is the tokenizer the "
            f"model's own, and are sequences within its context{known}?"
        ) from error
