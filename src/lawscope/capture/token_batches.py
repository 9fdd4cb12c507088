"""Batches of token ids as people hand them over, and as a model takes them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from lawscope.errors import LawscopeError

Task = Literal["causal", "masked", "encoder-decoder"]
TASKS: tuple[Task, ...] = ("causal", "masked", "encoder-decoder")


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """One batch of sequences, on the CPU.

    Attributes:
        ids: tokens of the stream that is measured, shape (B, T).
        real: where they are no padding, shape (B, T).
        extra: other named inputs of the model.
        named: whether the ids came by name.
    """

    ids: Tensor
    real: Tensor
    extra: dict[str, Any]
    named: bool


def read_tokens(raw: Any, task: Task = "causal") -> TokenBatch:
    """Token ids (B, T), alone or in a dict with ``input_ids`` and ``attention_mask``.

    Raises:
        LawscopeError: not token ids, or sequences of one token.
    """
    ids_name, mask_name = "input_ids", "attention_mask"
    if task == "encoder-decoder":
        ids_name, mask_name = "decoder_input_ids", "decoder_attention_mask"
    extra: dict[str, Any] = {}
    found, mask = raw, None
    if isinstance(raw, Mapping):
        if ids_name not in raw:
            raise LawscopeError(
                f"A batch has the entries {', '.join(map(repr, raw))}; {task} models need "
                f"{ids_name!r}, token ids of shape (batch, tokens)."
            )
        extra = {k: v for k, v in raw.items() if k not in ("labels", ids_name)}
        found, mask = raw[ids_name], raw.get(mask_name)
    elif isinstance(raw, list | tuple) and len(raw) == 1:
        found = raw[0]  # a TensorDataset yields tuples of one
    elif task == "encoder-decoder":
        raise LawscopeError(
            "An encoder–decoder needs batches that are dicts with 'input_ids' and "
            "'decoder_input_ids'."
        )
    ids = _ids(found)
    real = torch.ones_like(ids, dtype=torch.bool)
    if mask is not None:
        real = torch.as_tensor(mask).cpu() != 0
        if real.shape != ids.shape:
            raise LawscopeError(
                f"{mask_name} has shape {tuple(real.shape)}, the token ids {tuple(ids.shape)}."
            )
    return TokenBatch(ids, real, extra, isinstance(raw, Mapping))


def _ids(found: Any) -> Tensor:
    numbers = isinstance(found, np.ndarray) and found.dtype.kind in "iufb"
    ids = torch.from_numpy(found) if numbers else found
    if not isinstance(ids, Tensor) or _no_whole(ids.dtype) or ids.dim() not in (1, 2):
        shape = f" of shape {tuple(ids.shape)}" if isinstance(ids, Tensor) else ""
        kind = ids.dtype if isinstance(ids, Tensor) else type(ids).__name__
        raise LawscopeError(
            f"A batch is {kind}{shape}; yield integer token ids of shape (batch, tokens), as "
            "tokenizer(…, return_tensors='pt') gives them."
        )
    ids = (ids if ids.dim() == 2 else ids[None]).to("cpu", torch.int64)
    if ids.shape[1] < 2:
        raise LawscopeError(
            "Sequences of one token or none have no next token; make windows longer."
        )
    return ids


def _no_whole(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex or dtype is torch.bool


def model_inputs(
    model: nn.Module, batch: TokenBatch, ids: Tensor, task: Task = "causal"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword inputs on the model's device.

    Named inputs the model has no parameter for are left out. Caches are switched off, and logits
    of all positions but the last, where the model can: nothing here reads them.
    """
    parameters = inspect.signature(model.forward).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    first = next(model.parameters(), None)
    device = torch.device("cpu") if first is None else first.device
    kwargs = {k: v for k, v in batch.extra.items() if takes_any or k in parameters}
    switches = {"use_cache": False, "logits_to_keep": 1}
    kwargs |= {name: value for name, value in switches.items() if name in parameters}
    name = "decoder_input_ids" if task == "encoder-decoder" else "input_ids"
    args: tuple[Any, ...] = (ids,)
    if batch.named and (takes_any or name in parameters):
        args, kwargs = (), {name: ids, **kwargs}
    moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in kwargs.items()}
    return tuple(a.to(device) for a in args), moved
