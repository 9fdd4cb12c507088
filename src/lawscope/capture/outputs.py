"""The one tensor that a module's input or output is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from lawscope.data.batches import tensors_in

# Named outputs in the order in which they are the module's feature; logits come last.
FEATURE_KEYS = ("last_hidden_state", "hidden_states", "features", "out", "output", "logits")


def main_tensor(output: Any) -> Tensor | None:
    """Unwrap by type: a tensor is itself, a tuple or list its first tensor, a dict its feature.

    Tuples are opened only because they are tuples: ``output[0]`` of a tensor would silently slice
    the batch.
    """
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        ordered = [output[k] for k in FEATURE_KEYS if k in output] + list(output.values())
        return _first(ordered)
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return main_tensor({f.name: getattr(output, f.name) for f in dataclasses.fields(output)})
    if isinstance(output, list | tuple):
        return _first(output)
    return None


def main_first(output: Any) -> list[Tensor]:
    """Return the tensors in an output, the one it is about before the others."""
    main = main_tensor(output)
    others = tensors_in(dict(output) if hasattr(output, "items") else output)
    return [*([] if main is None else [main]), *(t for t in others if t is not main)]


def _first(items: Any) -> Tensor | None:
    for item in items:
        found = main_tensor(item)
        if found is not None:
            return found
    return None


def find_stream(value: Any, shape: Sequence[int]) -> Tensor | None:
    """Return the first floating tensor (B, T, d) in inputs or outputs, ``shape`` being (B, T)."""
    opened = dict(value) if hasattr(value, "items") else value
    found = (t for t in tensors_in(opened) if t.dim() == 3 and t.is_floating_point())
    return next((t for t in found if tuple(t.shape[:2]) == tuple(shape)), None)
