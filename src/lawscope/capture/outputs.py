"""The one tensor that a module's input or output is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from lawscope.data.batches import tensors_in

# Named outputs in the order in which they are the module's feature; logits come last.
FEATURE_KEYS = ("last_hidden_state", "hidden_states", "features", "out", "output", "logits")


def open_output(output: Any) -> Any:
    """Return named outputs as a dict, and anything else as it is."""
    if dataclasses.is_dataclass(output) and not isinstance(output, type | Mapping):
        return {f.name: getattr(output, f.name) for f in dataclasses.fields(output)}
    return dict(output) if hasattr(output, "items") else output


def main_tensor(output: Any) -> Tensor | None:
    """Unwrap by type: a tensor is itself, a tuple or list its first tensor, a dict its feature.

    Tuples are opened only because they are tuples: ``output[0]`` of a tensor would silently slice
    the batch.
    """
    if isinstance(output, Tensor):
        return output
    items = open_output(output)
    if isinstance(items, dict):
        items = [items[k] for k in FEATURE_KEYS if k in items] + list(items.values())
    elif not isinstance(items, list | tuple):
        return None
    return next((t for t in map(main_tensor, items) if t is not None), None)


def find_logits(output: Any) -> Tensor | None:
    """Return the scores among a network's outputs: what is called logits, or the main tensor."""
    named = open_output(output)
    return main_tensor(named.get("logits", named) if isinstance(named, dict) else named)


def main_first(output: Any) -> list[Tensor]:
    """Return the tensors in an output, the one it is about before the others."""
    main = main_tensor(output)
    others = [t for t in tensors_in(open_output(output)) if t is not main]
    return others if main is None else [main, *others]


def find_stream(value: Any, shape: Sequence[int]) -> Tensor | None:
    """Return the first floating tensor (B, T, d) in inputs or outputs, ``shape`` being (B, T)."""
    found = (t for t in tensors_in(open_output(value)) if t.dim() == 3 and t.is_floating_point())
    return next((t for t in found if tuple(t.shape[:2]) == tuple(shape)), None)
