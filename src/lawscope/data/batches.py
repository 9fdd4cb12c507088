"""What a loader hands over, whatever its shape: inputs, labels, mask, tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lawscope.arrays import as_native
from lawscope.data.labels import has_values, read_labels
from lawscope.errors import LawscopeError

if TYPE_CHECKING:
    from lawscope.data.tokens import TokenRows

WIDE = 3.0  # noise in units of the inputs: far enough to leave what is linear nearby
LABEL_KEYS = ("labels", "label", "targets", "target", "y")


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch ready for a network."""

    args: tuple[Any, ...]  # positional inputs of the network
    kwargs: dict[str, Any]  # named inputs of the network
    labels: Tensor | None  # as the loader gave them
    tokens: TokenRows | None = None  # of a text: which positions are measured
    names: tuple[str, ...] = ()  # of labels that are text: what their numbers stand for

    @cached_property
    def size(self) -> int:
        """Number of samples: of labels, where an input has as many rows, else of the first rows."""
        rows = [len(t) for t in (self.first, *self.inputs) if t.dim()]
        if not rows:
            raise LawscopeError(
                "A batch holds single numbers only; yield inputs with one row per sample."
            )
        labels = 0 if self.labels is None else len(self.labels)
        return labels if labels in rows else rows[0]

    @property
    def inputs(self) -> list[Tensor]:
        return list(tensors_in((self.args, self.kwargs)))

    @property
    def first(self) -> Tensor:
        for tensor in self.inputs:
            return tensor
        raise LawscopeError("A batch holds no tensor; yield (x, y) pairs or dicts of tensors.")

    @property
    def main(self) -> Tensor:
        """The raw data: the first floating tensor, or the first tensor."""
        return next((t for t in self.inputs if t.is_floating_point()), self.first)

    @property
    def mask(self) -> Tensor | None:
        """Which positions of a sequence are real, where the batch says so."""
        named = [self.kwargs, *(arg for arg in self.args if isinstance(arg, Mapping))]
        mask = next((part["attention_mask"] for part in named if "attention_mask" in part), None)
        return mask if isinstance(mask, Tensor) and mask.dim() == 2 else None

    def map(self, change: Callable[[Tensor], Tensor], **fields: Any) -> Batch:
        """Return the batch with every input changed, and with other fields."""
        args, kwargs = map_tensors((self.args, self.kwargs), change)
        return replace(self, args=args, kwargs=kwargs, **fields)

    def to(self, device: torch.device | None) -> Batch:
        return self if device is None else self.map(lambda t: t.to(device))

    def head(self, samples: int) -> Batch:
        """Copy the first few samples, for a look at a network that may overwrite them."""
        size = self.size

        def cut(tensor: Tensor) -> Tensor:
            return (tensor[:samples] if tensor.dim() and len(tensor) == size else tensor).clone()

        labels = None if self.labels is None else self.labels[:samples]
        return self.map(cut, labels=labels, tokens=self.tokens if samples >= size else None)


def spread(batch: Batch, samples: int) -> Batch:
    """Repeat a batch to at least so many samples, with noise on the floats.

    Other inputs to look at a network with, where the data gives one or two at a time.
    """
    size, generator = batch.size, torch.Generator().manual_seed(0)
    times = -(-samples // size)

    def more(tensor: Tensor) -> Tensor:
        if not tensor.dim() or len(tensor) != size:
            return tensor
        many = torch.cat([tensor] * times)
        if not tensor.is_floating_point():
            return many
        noise = torch.randn(many.shape, generator=generator, device="cpu").to(many)
        noise[:size] = 0
        return many + WIDE * noise * tensor.square().mean().sqrt()

    return batch.map(more, labels=None, tokens=None)


def as_batch(raw: Any) -> Batch:
    """Read ``(x, y)``, ``(x1, x2, y)``, a dict with labels, or inputs alone."""
    raw = map_tensors(raw, _with_values)
    if isinstance(raw, dict):
        key = next((k for k in LABEL_KEYS if k in raw), None)
        return _labelled((), {k: v for k, v in raw.items() if k != key}, raw.get(key))
    if isinstance(raw, tuple) and len(raw) > 1:
        *inputs, labels = raw
        if len(inputs) == 1 and isinstance(inputs[0], dict):
            return _labelled((), inputs[0], labels)
        return _labelled(tuple(inputs), {}, labels)
    if isinstance(raw, tuple):
        return as_batch(raw[0]) if raw else Batch((), {}, None)
    if not isinstance(raw, Tensor):
        table = hasattr(raw, "to_numpy")
        remedy = (
            "pass its numbers, (x.to_numpy('float32'), y)"
            if table
            else ("yield (x, y) pairs, dicts with 'labels', or tensors")
        )
        raise LawscopeError(f"A batch is a {type(raw).__name__}; {remedy}.")
    return Batch((raw,), {}, None)


def as_raw(batch: Batch, labels: Any = None) -> Any:
    """Return what :func:`as_batch` would read as this batch, or as one with other labels."""
    labels = batch.labels if labels is None else labels
    inputs = (batch.kwargs,) if batch.kwargs else batch.args
    return inputs[0] if labels is None else (*inputs, labels)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield all tensors inside nested tuples, lists and dicts, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(item)


def _with_values(tensor: Tensor) -> Tensor:
    if not (has_values(tensor) or tensor.is_quantized):
        raise LawscopeError(
            "A batch is a sparse or nested tensor, or on the meta device, where it has no values; "
            "pass dense tensors."
        )
    return tensor


def _labelled(args: tuple[Any, ...], kwargs: dict[str, Any], labels: Any) -> Batch:
    if labels is None:
        return Batch(args, kwargs, None)
    column, names = read_labels(labels)
    if not column.dim():
        raise LawscopeError(
            f"A batch has one label, {column.item()}, in place of a column of labels: it looks "
            "like a single sample; pass DataLoader(samples, batch_size=64) or arrays (x, y)."
        )
    return Batch(args, kwargs, column, names=names)


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return nested containers rebuilt with every tensor (or array) changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return change(torch.from_numpy(as_native(value)))
    if isinstance(value, Mapping):
        return {key: map_tensors(item, change) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = [map_tensors(item, change) for item in value]
        nested = not items or any(isinstance(i, Tensor | dict | tuple | list) for i in items)
        # A list of plain numbers is a column of labels, not a container of inputs.
        return tuple(items) if nested else items
    return value
