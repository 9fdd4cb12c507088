"""The TARGET of a scan with a text: a language model and its tokenizer."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.token_batches import Task
from lawscope.capture.untouched import unwrapped
from lawscope.capture.windows import Frame, frame_of
from lawscope.cli.checkpoint import load_checkpoint
from lawscope.cli.language_request import DTYPES, Request
from lawscope.cli.processes import Processes
from lawscope.cli.scan import find_device
from lawscope.cli.target import load_target
from lawscope.errors import LawscopeError
from lawscope.zoo.language_models import find_source, load_language_model, load_tokenizer


@dataclass(frozen=True, eq=False)
class Loaded:
    """A language model with its tokenizer.

    Attributes:
        name: for titles.
        model: on its device, in eval mode or not.
        tokenizer: anything :func:`lawscope.capture.windows.encoder_of` understands.
        task: what the model was trained for.
    """

    name: str
    model: nn.Module
    tokenizer: Any
    task: Task

    @property
    def frame(self) -> Frame:
        """Around the text of every window; an encoder–decoder's halves are framed by themselves."""
        return Frame() if self.task == "encoder-decoder" else frame_of(self.tokenizer, self.task)

    @property
    def mask_token(self) -> int | None:
        """Behind which a masked model's tokens are hidden.

        Raises:
            LawscopeError: the tokenizer has none.
        """
        if self.task != "masked":
            return None
        token = getattr(self.tokenizer, "mask_token_id", None)
        if token is None:
            raise LawscopeError(
                "--task masked hides tokens behind the mask token, and the tokenizer has none "
                "(mask_token_id); is it a causal model?"
            )
        return int(token)

    @property
    def special_tokens(self) -> tuple[int, ...]:
        """Tokens that are no text: the tokenizer's special ones, and those around a window."""
        own = getattr(self.tokenizer, "all_special_ids", ())
        return tuple({*own, *self.frame.before, *self.frame.after})

    def batch(self, ids: Tensor) -> Any:
        """Windows (B, T) in the form the model takes them.

        An encoder–decoder reads the first half of a window and is measured on the second, before
        which stands the token its decoder starts with.
        """
        if self.task != "encoder-decoder":
            return ids
        half, frame = ids.shape[1] // 2, frame_of(self.tokenizer, self.task)
        before, after = (
            torch.tensor(side, dtype=torch.int64).expand(len(ids), -1) for side in frame.sides
        )
        start = getattr(getattr(self.model, "config", None), "decoder_start_token_id", None)
        begin = torch.full((len(ids), 1), int(start or 0))
        return {
            "input_ids": torch.cat([before, ids[:, :half], after], dim=1),
            "decoder_input_ids": torch.cat([begin, ids[:, half:]], dim=1),
        }


def load(request: Request, who: Processes) -> Loaded:
    """The model and the tokenizer that a request names.

    Raises:
        LawscopeError: one of them cannot be had.
    """
    device = request.device
    if device == "cuda" and who.world > 1:  # each process on a machine has its own
        device = f"cuda:{who.local}"
    where = None if device == "auto" else find_device(device)
    folder = Path(request.target).is_dir()
    if request.target.endswith(".py") or (":" in request.target and not folder):
        return _from_code(request, where)
    if request.checkpoint is not None:
        raise LawscopeError("--checkpoint is for .py targets; a Hugging Face folder has weights.")
    source = find_source(request.target, request.gguf, request.trust_remote_code)
    tokenizer = load_tokenizer(source)
    dtype = DTYPES[request.dtype]
    model = load_language_model(source, task=request.task, dtype=dtype, device=where)
    return Loaded(Path(source.gguf or source.place).name, model, tokenizer, request.task)


def _from_code(request: Request, where: torch.device | None) -> Loaded:
    if where is None:
        raise LawscopeError("--device auto is for Hugging Face models; name a device.")
    if request.gguf is not None:
        raise LawscopeError("--gguf is for Hugging Face folders; a .py target has its own weights.")
    found = load_target(request.target)
    model = found.build()
    if request.checkpoint is not None:
        load_checkpoint(model, request.checkpoint)
    tokenizer = found.tokenizer if found.tokenizer is not None else found.data()
    if tokenizer is None:
        raise LawscopeError(
            f"{request.target} gives no tokenizer; define 'tokenizer' in it: an object with "
            "encode(text), or a function that turns text into token ids."
        )
    if inspect.isfunction(tokenizer) and not inspect.signature(tokenizer).parameters:
        tokenizer = tokenizer()
    model = unwrapped(model).to(device=where, dtype=DTYPES[request.dtype])
    return Loaded(found.name, model, tokenizer, request.task)
