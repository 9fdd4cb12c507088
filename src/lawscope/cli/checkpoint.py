"""Weights from a file, without executing code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.errors import LawscopeError

# Under these names training scripts keep the weights beside the optimiser's state.
NESTED = ("state_dict", "model_state_dict", "model", "weights", "net")
PREFIXES = ("module.", "_orig_mod.", "model.")
SHOWN = 8


def load_checkpoint(model: nn.Module, path: Path) -> None:
    """Load a ``.safetensors`` file, or a ``.pt`` file as weights only, into ``model``.

    Prefixes of wrappers (``module.``, ``_orig_mod.``) are taken off where that makes keys fit.

    Raises:
        LawscopeError: missing, truncated or foreign file, or keys that do not fit the network.
    """
    weights = read_weights(path)
    expected = model.state_dict()
    for prefix in PREFIXES * 2:  # wrappers may be nested
        if not set(weights) & set(expected):
            weights = {k.removeprefix(prefix): v for k, v in weights.items()}
    missing = [k for k in expected if k not in weights]
    foreign = [k for k in weights if k not in expected]
    shapes = [
        f"{k} is {tuple(weights[k].shape)} in the file, {tuple(expected[k].shape)} in the network"
        for k in expected
        if k in weights and weights[k].shape != expected[k].shape
    ]
    if missing or foreign or shapes:
        raise LawscopeError(
            f"{path} does not fit the network"
            + _listed("missing in the file", missing)
            + _listed("unknown to the network", foreign)
            + _listed("of another shape", shapes)
            + "\n  Pass the checkpoint of this network, or the network of this checkpoint."
        )
    model.load_state_dict(weights)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The named tensors of a checkpoint file.

    Raises:
        LawscopeError: missing, truncated or foreign file.
    """
    if not path.is_file():
        raise LawscopeError(f"There is no checkpoint {path}; check --checkpoint.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            loaded: Any = load_file(path)
        else:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file makes a reader say
        raise LawscopeError(
            f"{path} cannot be read as weights: it is truncated, another kind of file, or holds "
            "objects beside tensors, which lawscope does not execute; save model.state_dict() with "
            "torch.save or safetensors."
        ) from error
    while isinstance(loaded, Mapping) and not _named_tensors(loaded):
        inner = next((loaded[k] for k in NESTED if isinstance(loaded.get(k), Mapping)), None)
        if inner is None:
            raise LawscopeError(
                f"{path} holds no weights by name; its entries are: "
                f"{', '.join(map(str, list(loaded)[:SHOWN])) or 'none'}."
            )
        loaded = inner
    if not isinstance(loaded, Mapping):
        raise LawscopeError(f"{path} holds a {type(loaded).__name__}, not weights by name.")
    return dict(loaded)


def _named_tensors(loaded: Mapping[Any, Any]) -> bool:
    named = all(isinstance(k, str) and isinstance(v, Tensor) for k, v in loaded.items())
    return bool(loaded) and named


def _listed(what: str, items: list[str]) -> str:
    if not items:
        return ""
    more = f", and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return f"\n  {len(items)} {what}: {', '.join(items[:SHOWN])}{more}"
