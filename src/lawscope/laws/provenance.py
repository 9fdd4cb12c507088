"""What a measurement was made of and with."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import torch
from torch import nn

from lawscope._version import __version__
from lawscope.data.batches import Batch
from lawscope.data.source import update_checksum


@dataclass(frozen=True)
class Provenance:
    """What a result was measured on and with.

    Attributes:
        model: class of the network.
        weights: hash of its parameters and buffers, or empty where they are sharded.
        data: fingerprint of what one pass fed in.
        versions: of lawscope, torch, numpy and Python.
        date: when, UTC.
    """

    model: str = ""
    weights: str = ""
    data: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    date: str = ""


def describe_measurement(model: nn.Module, data: str) -> Provenance:
    """Return the provenance of a measurement just made; ``data`` is a fingerprint."""
    versions = {
        "lawscope": __version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Provenance(type(model).__name__, hash_weights(model), data, versions, date)


def hash_weights(model: nn.Module) -> str:
    """Return 16 hex digits that any change of a weight changes, or "" for sharded weights."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted([*model.named_parameters(), *model.named_buffers()]):
        if tensor.is_meta or hasattr(tensor, "full_tensor"):
            return ""
        said = f"{name}:{tensor.dtype}:{tuple(tensor.shape)}"
        digest.update(said.encode(errors="backslashreplace"))
        update_checksum(digest, Batch((tensor.detach(),), {}, None))
    return digest.hexdigest()
