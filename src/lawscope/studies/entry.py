"""One finished training: in memory, as bytes, and as a folder of the store.

The folder holds ``run.json`` and ``<checksum>.safetensors``. The record names the checksum of the
weights and carries its own, so that what is read is what was written. The name of the weights is
their checksum, so that an entry can be replaced by another one without a moment in between. Weights
load without executing code.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from lawscope import __version__
from lawscope.documents import parse_json
from lawscope.errors import LawscopeError
from lawscope.lazy import Tensor, nn
from lawscope.studies.datasets import Samples, samples_of
from lawscope.studies.plan import Network, Training
from lawscope.studies.registry import NETWORKS

RECORD, SUFFIX = "run.json", ".safetensors"
RECORDS = "records"


class DamagedEntryError(LawscopeError):
    """An entry of the store is not what was written there."""


@dataclass(frozen=True, eq=False)
class Run:
    """A finished training."""

    training: Training  # its settings
    weights: Mapping[int, Mapping[str, Tensor]]  # after each epoch kept, the last always
    loss: float  # on the training data at the end, eval mode
    accuracy: float  # share of training samples that are right
    test_accuracy: float  # NaN without test data
    seconds: float  # shared evenly over its stack
    records: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)

    def network(self, epoch: int | None = None) -> nn.Module:
        """Return the network after ``epoch`` epochs (default: the last), in eval mode."""
        last = self.training.recipe.epochs
        model = build_network(self.training.network)
        model.load_state_dict(dict(self.weights[last if epoch is None else epoch]))
        return model.eval()

    @cached_property
    def samples(self) -> Samples:
        return samples_of(self.training.data)


@dataclass(frozen=True)
class Packed:
    """A finished training as it travels between processes and machines.

    The record says how it ended and which epochs the weights are of (``kept``).
    """

    record: Mapping[str, Any]
    weights: bytes


def build_network(network: Network) -> nn.Module:
    """Return a network with fresh weights, of the zoo or of a kind that a family registered."""
    from lawscope.zoo.networks.catalogue import KINDS, build

    if network.kind in KINDS:
        return build(network.kind, **network.settings)
    return NETWORKS.find(network.kind)(**network.settings)


def pack(run: Run) -> Packed:
    """Return a run as a record and the bytes of a safetensors file."""
    from safetensors.torch import save

    parts = [(str(epoch), weights) for epoch, weights in run.weights.items()]
    parts += [(f"{RECORDS}/{name}", numbers) for name, numbers in run.records.items()]
    named = {f"{part}/{name}": each for part, inside in parts for name, each in inside.items()}
    # Networks of a stack share storage, which safetensors refuses: each tensor becomes its own.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in named.items()}
    outcome = {name: getattr(run, name) for name in ("loss", "accuracy", "test_accuracy")}
    record = {
        "key": run.training.key,
        "settings": run.training.to_dict(),
        "kept": sorted(run.weights),
        # JSON has no NaN and no infinity; ``float`` reads their names.
        **{name: v if math.isfinite(v) else str(v) for name, v in outcome.items()},
        "seconds": round(run.seconds, 3),
        "date": today(),
        "versions": versions(),
    }
    return Packed(record, save(tensors))


def unpack(packed: Packed, training: Training) -> Run:
    """Return the run that was packed, with the weights that ``training`` asks for and no others."""
    from safetensors.torch import load

    weights: dict[int, dict[str, Any]] = {}
    records: dict[str, dict[str, Any]] = {}
    for name, tensor in load(packed.weights).items():
        first, _, inside = name.partition("/")
        if first == RECORDS:
            recorder, _, number = inside.rpartition("/")
            records.setdefault(recorder, {})[number] = tensor
        elif int(first) in training.kept:
            weights.setdefault(int(first), {})[inside] = tensor
    record = packed.record
    measured = {k: float(record[k]) for k in ("loss", "accuracy", "test_accuracy", "seconds")}
    return Run(training, weights, **measured, records=records)


def write(packed: Packed, folder: Path) -> None:
    """Write the files of an entry into an empty folder, down to the disk."""
    checksum = hashlib.sha256(packed.weights).hexdigest()
    checksums = {"weights": checksum, "record": _checksum(packed.record)}
    document = json.dumps({"sha256": checksums, "record": packed.record}, indent=1).encode()
    for name, content in ((f"{checksum}{SUFFIX}", packed.weights), (RECORD, document)):
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def replace_entry(old: Path, new: Path) -> None:
    """Move the files of a new entry over those of an old one; a reader finds one of both whole."""
    (fresh,) = new.glob(f"*{SUFFIX}")
    fresh.replace(old / fresh.name)
    # From here on it is the new one.
    (new / RECORD).replace(old / RECORD)
    for path in old.glob(f"*{SUFFIX}"):
        if path.name != fresh.name:
            path.unlink(missing_ok=True)


def read(folder: Path, settings: Mapping[str, Any], kept: Iterable[int]) -> Packed:
    """Read an entry; check it against its checksums and the settings and epochs asked for."""
    record, checksum = read_record(folder)
    if record.get("settings") != settings:
        raise DamagedEntryError(f"{folder} holds other settings than its name says.")
    if lacking := sorted(set(kept) - set(record.get("kept", ()))):
        raise DamagedEntryError(
            f"{folder} lacks the weights after {', '.join(map(str, lacking))} epochs."
        )
    path = folder / f"{checksum}{SUFFIX}"
    try:
        weights = path.read_bytes()
    except OSError as error:
        # Another process may have replaced it just now.
        if read_record(folder)[1] != checksum:
            return read(folder, settings, kept)
        raise DamagedEntryError(f"{path} cannot be read ({error.strerror}).") from error
    if hashlib.sha256(weights).hexdigest() != checksum:
        raise DamagedEntryError(f"{path} is not what was written (SHA-256 differs).")
    return Packed(record, weights)


def versions() -> dict[str, str]:
    """Return what an entry or a result was made with; torch need not be imported for it."""
    used = {name: metadata.version(name) for name in ("torch", "numpy")}
    return {"lawscope": __version__, **used, "python": platform.python_version()}


def today() -> str:
    """Return date and time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_record(folder: Path) -> tuple[dict[str, Any], str]:
    """Read the record of an entry, and the checksum of its weights."""
    path = folder / RECORD
    try:
        document = parse_json(path.read_bytes())
        record, checksums = document["record"], document["sha256"]
        sound = checksums["record"] == _checksum(record)
        weights = str(checksums["weights"])
    except OSError as error:
        raise DamagedEntryError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedEntryError(f"{path} is not a record of a training.") from error
    if not sound:
        raise DamagedEntryError(f"{path} is not what was written (SHA-256 differs).")
    return record, weights


def _checksum(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
