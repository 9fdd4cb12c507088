"""One finished training as bytes and as a folder: ``run.json`` and ``<checksum>.safetensors``.

The record names the checksum of the weights and carries its own, so that what is read is what was
written. The name of the weights is their checksum, so that an entry can give way to another one
without a moment in between. Weights load without executing code.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lawscope import __version__
from lawscope.errors import LawscopeError
from lawscope.studies.plan import Training

if TYPE_CHECKING:
    from lawscope.studies.finished import Run

RECORD, SUFFIX = "run.json", ".safetensors"


class DamagedEntryError(LawscopeError):
    """An entry of the store is not what was written there."""


@dataclass(frozen=True)
class Packed:
    """A finished training as it travels between processes and machines."""

    record: Mapping[str, Any]
    weights: bytes


def pack(run: Run) -> Packed:
    """A run as a record and the bytes of a safetensors file.

    The record says which epochs the weights are of (``kept``).
    """
    from safetensors.torch import save

    # Networks of a stack share storage, which safetensors refuses: each tensor becomes its own.
    tensors = {
        f"{epoch}/{name}": tensor.detach().cpu().contiguous().clone()
        for epoch, weights in run.weights.items()
        for name, tensor in weights.items()
    }
    record = {
        "key": run.training.key,
        "settings": _as_json(run.training.to_dict()),
        "kept": sorted(run.weights),
        "loss": _spell(run.loss),
        "accuracy": _spell(run.accuracy),
        "test_accuracy": _spell(run.test_accuracy),
        "seconds": round(run.seconds, 3),
        "date": today(),
        "versions": versions(),
    }
    return Packed(record, save(tensors))


def unpack(packed: Packed, training: Training) -> Run:
    """The run that was packed, with the weights that ``training`` asks for and no others."""
    from safetensors.torch import load

    from lawscope.studies.finished import Run

    weights: dict[int, dict[str, Any]] = {}
    for name, tensor in load(packed.weights).items():
        epoch, _, inside = name.partition("/")
        if int(epoch) in training.kept:
            weights.setdefault(int(epoch), {})[inside] = tensor
    record = packed.record
    measured = {k: float(record[k]) for k in ("loss", "accuracy", "test_accuracy", "seconds")}
    return Run(training, weights, **measured)


def write(packed: Packed, folder: Path) -> None:
    """Write the files of an entry into an empty folder, down to the disk."""
    checksums = {
        "weights": hashlib.sha256(packed.weights).hexdigest(),
        "record": _checksum(packed.record),
    }
    document = json.dumps({"sha256": checksums, "record": packed.record}, indent=1)
    weights = f"{checksums['weights']}{SUFFIX}"
    for name, content in ((weights, packed.weights), (RECORD, document.encode())):
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def give_way(old: Path, new: Path) -> None:
    """Move the files of a new entry over those of an old one; who reads finds one of both whole."""
    (fresh,) = new.glob(f"*{SUFFIX}")
    fresh.replace(old / fresh.name)
    (new / RECORD).replace(old / RECORD)  # from here on it is the new one
    for path in old.glob(f"*{SUFFIX}"):
        if path.name != fresh.name:
            path.unlink(missing_ok=True)


def read(folder: Path, training: Training) -> Packed:
    """Read an entry and check it against its checksums and what is asked for.

    Raises:
        DamagedEntryError: something is missing or changed; says what.
    """
    return read_for(folder, _as_json(training.to_dict()), training.kept)


def read_for(folder: Path, settings: Mapping[str, Any], kept: Iterable[int]) -> Packed:
    """The same for settings and epochs as the record of a training has them."""
    record, checksum = _read_record(folder)
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
        if _read_record(folder)[1] != checksum:  # it has just given way to another one
            return read_for(folder, settings, kept)
        raise DamagedEntryError(f"{path} cannot be read ({error.strerror}).") from error
    if hashlib.sha256(weights).hexdigest() != checksum:
        raise DamagedEntryError(f"{path} is not what was written (SHA-256 differs).")
    return Packed(record, weights)


def read_record(folder: Path) -> dict[str, Any]:
    """The record of an entry without its weights.

    Raises:
        DamagedEntryError: it is missing or changed.
    """
    return _read_record(folder)[0]


def size(folder: Path) -> int:
    """Bytes of an entry, whole or not; files that another process removes meanwhile are skipped."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(place, name).stat().st_size
    return total


def versions() -> dict[str, str]:
    """What an entry or a result was made with; torch need not be imported to tell."""
    from importlib import metadata

    return {
        "lawscope": __version__,
        "torch": metadata.version("torch"),
        "numpy": metadata.version("numpy"),
        "python": platform.python_version(),
    }


def today() -> str:
    """Date and time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_record(folder: Path) -> tuple[dict[str, Any], str]:
    path = folder / RECORD
    try:
        document = json.loads(path.read_bytes())
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


def _as_json(settings: Mapping[str, Any]) -> Any:
    """The settings as they come back from a file: tuples have become lists."""
    return json.loads(json.dumps(settings))


def _spell(value: float) -> float | str:
    """JSON has no NaN and no infinity; ``float`` reads their names."""
    return value if math.isfinite(value) else str(value)
