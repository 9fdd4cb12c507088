"""``--resume``: moments on disk, with what they were measured on."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lawscope.cli.processes import Processes
from lawscope.errors import LawscopeError
from lawscope.laws.next_token_observer import NextTokenObserver
from lawscope.report.files import whole_or_not_at_all

SAVE_SECONDS = 30.0
SAMPLED = 64  # values of every parameter that go into the fingerprint
WORDS = {
    "model": "another model",
    "weights": "the same model with other weights",
    "text": "another text or other windows of it",
}


class SavedMoments:
    """A file of moments that a scan goes on from.

    Args:
        folder: where reports go.
        fingerprint: what the moments are of: "model", "weights", "text", "settings".
        who: every process has a file of its own.
    """

    def __init__(self, folder: Path, fingerprint: Mapping[str, str], who: Processes) -> None:
        self.folder, self.fingerprint, self._who = folder, dict(fingerprint), who
        self.path = folder / f"moments-{who.rank + 1}of{who.world}.safetensors"
        self._saved = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._saved > SAVE_SECONDS

    @property
    def exists(self) -> bool:
        """Whether there is something to go on from.

        Raises:
            LawscopeError: another number of processes has left it.
        """
        found = sorted(self.folder.glob("moments-*of*.safetensors"))
        others = {path.stem.rpartition("of")[2] for path in found} - {str(self._who.world)}
        if others:
            raise LawscopeError(
                f"The moments in {self.folder} were saved by {min(others)} process(es), and these "
                f"are {self._who.world}; resume with the same number, or choose another --out."
            )
        return self.path.is_file()

    def save(self, observers: Mapping[str, NextTokenObserver], done: int) -> None:
        """Write what was gathered in the first ``done`` batches, whole or not at all."""
        from safetensors.torch import save_file

        tensors = {
            f"{name}/{key}": tensor.clone()
            for name, observer in observers.items()
            for key, tensor in observer.state_dict().items()
        }
        with whole_or_not_at_all(self.path) as temporary:
            save_file(tensors, temporary, self.fingerprint | {"batches": str(done)})
        self._saved = time.monotonic()

    def load(self, observers: Mapping[str, NextTokenObserver]) -> int:
        """Put saved moments into the observers.

        Returns:
            How many batches they are of.

        Raises:
            LawscopeError: the file is damaged, or of another model, text or setting.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                found = dict(file.metadata() or {})
                self._compare(found)
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise LawscopeError(
                f"{self.path} cannot be read as saved moments; delete it and start anew."
            ) from error
        for name, observer in observers.items():
            prefix = f"{name}/"
            part = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            observer.load_state_dict(part)
        return int(found["batches"])

    def remove(self) -> None:
        """The scan is complete."""
        self.path.unlink(missing_ok=True)

    def _compare(self, found: dict[str, str]) -> None:
        wrong = [key for key, value in self.fingerprint.items() if found.get(key) != value]
        if not wrong:
            return
        said = WORDS.get(wrong[0]) or _differing(found.get("settings"), self.fingerprint)
        raise LawscopeError(
            f"The moments in {self.path} are of {said}; resume with what they were begun with, or "
            "leave out --resume to start anew."
        )


def _differing(found: str | None, fingerprint: Mapping[str, str]) -> str:
    """The settings that are not the same, in words."""
    theirs, ours = json.loads(found or "{}"), json.loads(fingerprint["settings"])
    names = [name for name in ours if theirs.get(name) != ours[name]]
    return "other settings: " + ", ".join(f"{n} {theirs.get(n)} and now {ours[n]}" for n in names)


def weights_digest(model: nn.Module) -> str:
    """A name for the weights: names, shapes and some values of every parameter."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
        if parameter.device.type != "meta" and parameter.numel():
            flat = parameter.detach().flatten()
            step = max(1, len(flat) // SAMPLED)
            digest.update(flat[::step].to("cpu", torch.float64).numpy().tobytes())
    return digest.hexdigest()[:32]


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as text that can be compared."""
    return json.dumps(settings, sort_keys=True, default=str)
