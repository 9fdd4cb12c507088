"""Text as windows of tokens: packed without overlap, framed as the tokenizer frames a sequence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lawscope.data.tokens import Task
from lawscope.errors import LawscopeError

Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Frame:
    """What stands before and after the text of every window."""

    before: tuple[int, ...] = ()  # such as [BOS] or [CLS]
    after: tuple[int, ...] = ()  # such as [SEP]; nothing for a causal model, whose text goes on

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    def around(self, text: Tensor) -> Tensor:
        """Return rows of ids (N, t) with the frame around each."""
        sides = (torch.tensor(side, dtype=torch.int64) for side in (self.before, self.after))
        before, after = (side.expand(len(text), -1) for side in sides)
        return torch.cat([before, text, after], dim=1)


@dataclass(frozen=True, eq=False)
class Windows:
    """A text cut into windows."""

    ids: Tensor  # shape (N, T), the frame included
    frame: Frame
    left: int = 0  # tokens of text that did not fill a window

    @property
    def text_tokens(self) -> int:
        count, length = self.ids.shape
        return int(count) * (int(length) - len(self.frame))


def encoder_of(tokenizer: Any) -> Encode:
    """Return how a tokenizer or function turns text into ids, without special ones if it can."""
    encode = getattr(tokenizer, "encode", tokenizer)
    if not callable(encode):
        raise LawscopeError(
            f"The tokenizer is a {type(tokenizer).__name__}; give an object with encode(text), or "
            "a function that turns text into token ids."
        )
    options: dict[str, Any] = {}
    parameters = _parameters(encode)
    if "add_special_tokens" in parameters:
        options["add_special_tokens"] = False
    # It would warn of texts beyond its context, and we cut windows.
    if hasattr(tokenizer, "model_max_length") and parameters & {"verbose", "kwargs"}:
        options["verbose"] = False

    def ids_of(text: str) -> list[int]:
        try:
            return _ids(encode(text, **options))
        except LawscopeError:
            raise
        except Exception as error:  # the user's own tokenizer
            raise LawscopeError(f"The tokenizer raised {type(error).__name__}: {error}.") from error

    return ids_of


def frame_of(tokenizer: Any, task: Task) -> Frame:
    """Return what the tokenizer puts around a sequence; of a causal model the beginning only."""
    encode = getattr(tokenizer, "encode", None)
    if encode is None or "add_special_tokens" not in _parameters(encode):
        return Frame()
    bare, framed = encoder_of(tokenizer)("a"), _ids(encode("a"))
    starts = range(len(framed) - len(bare) + 1)
    start = next((i for i in starts if framed[i : i + len(bare)] == bare), None)
    if start is None or not bare:
        return Frame()
    after = framed[start + len(bare) :]
    return Frame(tuple(framed[:start]), tuple(after) if task != "causal" else ())


def read_tokens_of(text: Iterable[str], encode: Encode, most: int | None = None) -> Tensor:
    """Return the ids of a text given in pieces; reading stops when there are ``most``."""
    found, count = [torch.zeros(0, dtype=torch.int64)], 0
    for piece in text:
        found.append(torch.tensor(encode(piece), dtype=torch.int64))
        count += len(found[-1])
        if most is not None and count >= most:
            break
    return torch.cat(found)[:most]


def pack(ids: Tensor, length: int, frame: Frame = Frame()) -> Windows:  # noqa: B008
    """Cut ids into windows of ``length``, the frame included; the rest at the end is dropped."""
    step = length - len(frame)
    if step < 2:
        raise LawscopeError(
            f"A window of {length} tokens, {len(frame)} of them around the text, has no next token "
            "to predict; make it longer."
        )
    count = len(ids) // step
    if not count:
        raise LawscopeError(
            f"The text has {len(ids)} tokens and a window holds {step}: {step - len(ids)} are "
            "missing; give more text or a shorter window."
        )
    text = ids[: count * step].reshape(count, step)
    return Windows(frame.around(text), frame, len(ids) - count * step)


def _ids(made: Any) -> list[int]:
    """Return ids out of whatever form a tokenizer gives them in."""
    made = getattr(made, "ids", made)
    if isinstance(made, Mapping):
        made = made.get("input_ids", made)
    made = made.tolist() if hasattr(made, "tolist") else made
    if not isinstance(made, Sequence) or not all(isinstance(i, int) for i in made):
        raise LawscopeError(
            f"The tokenizer gives a {type(made).__name__} that is not a list of token ids; let "
            "encode(text) return one list of whole numbers."
        )
    return list(made)


def _parameters(function: Any) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some functions written in C have none
        return set()
